package bifaci_test

import (
	"slices"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
)

// The bounds of the walk's cartridge, small enough that the walk runs into all of them.
const (
	walkWindow   = 4
	walkCapacity = 3 // handlers at a time
	walkQueued   = 5 // requests in line
)

// tally counts frames by fate.
type tally struct{ delivered, consumed, straggled, noRoute, cancelled, creditViolation uint64 }

func (n *tally) total() uint64 {
	return n.delivered + n.consumed + n.straggled + n.noRoute + n.cancelled + n.creditViolation
}

// walkModel is tables 3.1 and 3.3 of the specification over a list of requests, as slow and plain as can be: it knows what each
// frame that the walk sends is worth.
type walkModel struct {
	tally
	requests []*walkRequest // all that are not over, in order of arrival
	ended    []uint64       // ids, the last one last; only the last 64 are remembered
}

// walkRequest is one request, or the peer call that its handler makes.
type walkRequest struct {
	id      uint64
	kind    string // of the handler: "idle", "reads" or "calls"
	state   string // Q, R, E or X
	streams []*walkStream
	call    bool   // it is a call of the cartridge; its state is R
	owner   uint64 // of a call: the request that makes it
}

type walkStream struct {
	id     string
	chunks uint64
	room   uint64
	over   bool
}

func (m *walkModel) find(id uint64) *walkRequest {
	for _, r := range m.requests {
		if r.id == id {
			return r
		}
	}
	return nil
}

func (m *walkModel) inState(state string) (n int) {
	for _, r := range m.requests {
		if !r.call && r.state == state {
			n++
		}
	}
	return n
}

// holding is how many requests have a slot.
func (m *walkModel) holding() int { return m.inState("R") + m.inState("E") + m.inState("X") }

// end takes a request out and remembers it, then the first in line may go.
func (m *walkModel) end(r *walkRequest) {
	m.requests = slices.DeleteFunc(m.requests, func(o *walkRequest) bool { return o == r })
	m.remember(r.id)
	if !r.call && m.holding() < walkCapacity {
		for _, o := range m.requests {
			if o.state == "Q" {
				o.state = "R"
				if o.bodyOver() {
					o.state = "E"
				}
				break
			}
		}
	}
}

func (m *walkModel) remember(id uint64) {
	m.ended = slices.DeleteFunc(m.ended, func(o uint64) bool { return o == id })
	m.ended = append(m.ended, id)
	m.ended = m.ended[max(0, len(m.ended)-stats.RecentSize):]
}

// bodyOver says that a waiting request's body is complete: it is marked by a stream of no name.
func (r *walkRequest) bodyOver() bool {
	return slices.ContainsFunc(r.streams, func(s *walkStream) bool { return s.id == "" })
}

func (r *walkRequest) stream(id string) *walkStream {
	for _, s := range r.streams {
		if s.id == id {
			return s
		}
	}
	return nil
}

// breaks is what a breach does: a request in line is answered at once, the handler of another runs on.
func (m *walkModel) breaks(r *walkRequest) {
	switch {
	case r.state == "Q" || r.call:
		m.end(r)
	default:
		m.stop(r)
	}
}

// stop is a cancel or a violation of a running request: its call ends with it.
func (m *walkModel) stop(r *walkRequest) {
	r.state = "X"
	for _, o := range m.requests {
		if o.call && o.owner == r.id {
			m.end(o)
			return
		}
	}
}

// lost counts a frame for an id that is no request's.
func (m *walkModel) lost(id uint64) {
	if slices.Contains(m.ended, id) {
		m.straggled++
	} else {
		m.noRoute++
	}
}

// req is a REQ of the given kind; a kind that nobody serves is refused.
func (m *walkModel) req(id uint64, kind string, served bool) (started bool) {
	if r := m.find(id); r != nil {
		m.consumed++
		if r.state != "X" {
			m.breaks(r)
		}
		return false
	}
	if !served || m.holding() >= walkCapacity && m.inState("Q") >= walkQueued {
		m.consumed++
		m.remember(id)
		return false
	}
	m.delivered++
	r := &walkRequest{id: id, kind: kind, state: "R"}
	if m.holding() >= walkCapacity {
		r.state = "Q"
	}
	m.requests = append(m.requests, r)
	return r.state == "R"
}

// data is STREAM_START, CHUNK or STREAM_END. sound says that nothing but the stream's state can be wrong with it; count is
// the chunk_index or chunk_count.
func (m *walkModel) data(id uint64, typ frame.Type, stream string, count uint64, sound bool) {
	r := m.find(id)
	switch {
	case r == nil:
		m.lost(id)
		return
	case r.state == "X":
		m.cancelled++
		return
	case r.state == "E" || r.state == "Q" && r.bodyOver():
		m.consumed++
		m.breaks(r)
		return
	}
	s := r.stream(stream)
	good := sound && s != nil && !s.over && count == s.chunks
	switch {
	case typ == frame.TypeStreamStart && s == nil && sound:
		r.streams = append(r.streams, &walkStream{id: stream, room: walkWindow})
		m.delivered++
	case typ == frame.TypeChunk && good && s.room > 0:
		s.chunks++
		s.room--
		m.delivered++
	case typ == frame.TypeChunk && s != nil && !s.over && count == s.chunks && s.room == 0: // found before a wrong checksum is
		m.creditViolation++
		m.breaks(r)
	case typ == frame.TypeStreamEnd && good:
		s.over = true
		m.delivered++
	default:
		m.consumed++
		m.breaks(r)
	}
}

// terminal is END or ERR of a body or an answer.
func (m *walkModel) terminal(id uint64, typ frame.Type) {
	r := m.find(id)
	switch {
	case r == nil:
		m.lost(id)
	case r.state == "X":
		m.consumed++
	case r.state == "E" || r.state == "Q" && r.bodyOver():
		m.straggled++
	case typ == frame.TypeEnd && slices.ContainsFunc(r.streams, func(s *walkStream) bool { return !s.over }):
		m.consumed++
		m.breaks(r)
	default:
		m.delivered++
		switch {
		case r.call:
			m.end(r)
		case r.state == "Q":
			r.streams = append(r.streams, &walkStream{over: true})
		default:
			r.state = "E"
		}
	}
}

// other is LOG, CREDIT for the answer, CANCEL or CLOSE_STREAM.
func (m *walkModel) other(id uint64, typ frame.Type) {
	r := m.find(id)
	switch {
	case r == nil:
		m.lost(id)
	case r.call && typ == frame.TypeLog:
		m.delivered++
	case r.call: // nothing of a call can be cancelled by who answers it, nor is anything granted that way: it is nobody's
		m.noRoute++
	case typ == frame.TypeCredit && r.state != "X":
		m.delivered++
	case typ == frame.TypeCancel && r.state == "Q":
		m.consumed++
		m.end(r)
	case typ == frame.TypeCancel:
		m.consumed++
		if r.state != "X" {
			m.stop(r)
		}
	default:
		m.consumed++
	}
}
