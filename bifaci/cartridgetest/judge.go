package cartridgetest

import (
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// judgement is one frame before its check, whose lock is held.
type judgement struct {
	c       *Check
	d       Direction
	f       Frame
	size    uint64 // of the body, bytes
	excused bool
}

func (j *judgement) breach(p Property, detail string, args ...any) {
	if !j.excused {
		j.c.breach(p, j.d, j.f.String(), detail, args...)
	}
}

// run judges the frame and then counts it.
func (j *judgement) run() {
	if j.size > j.c.maxFrame {
		j.breach(MaxFrame, "%d bytes, allowed are %d", j.size, j.c.maxFrame)
	}
	j.shape()
	if j.f.Type() == frame.TypeHello {
		j.hello()
		return
	}
	if !j.c.hello[j.d] {
		j.breach(HelloFirst, "a %s came first", j.f.Type())
	}
	if !j.f.Type().IsFlow() && j.f.Seq() != 0 {
		j.breach(SeqWithoutGap, "a control frame with seq %d", j.f.Seq())
	}
	switch j.f.Type() {
	case frame.TypePolicy, frame.TypeCloseStream:
		if j.d == ToHost {
			j.breach(RightSide, "a cartridge sends none")
		}
		if j.f.Type() == frame.TypePolicy {
			j.c.policy = true
			return
		}
	case frame.TypeRelayNotify, frame.TypeRelayState:
		j.breach(RightSide, "only relays send it")
		return
	case frame.TypeHeartbeat:
		j.heartbeat()
		return
	case frame.TypeReq:
		j.req()
		return
	}
	j.ofExchange()
}

func (j *judgement) hello() {
	c := j.c
	switch {
	case c.hello[j.d]:
		j.breach(HelloFirst, "a second HELLO")
		return
	case j.d == ToHost && !c.hello[ToCartridge]:
		j.breach(HelloFirst, "the host has not spoken yet")
		c.hello[j.d] = true
		return
	}
	c.hello[j.d] = true
	limit := func(key string, now uint64) uint64 {
		n, ok := j.f.Meta()[key].(uint64)
		if !ok {
			return now
		}
		return min(n, now)
	}
	if j.d == ToCartridge { // proposals; they hold once both are known
		c.proposed = proposal{limit("max_frame", c.maxFrame), limit("initial_credit", c.window)}
		return
	}
	c.maxFrame = limit("max_frame", c.proposed.maxFrame)
	c.window = limit("initial_credit", c.proposed.window)
}

// heartbeat is the answer to a probe of the other side, or a probe: either side may send one.
func (j *judgement) heartbeat() {
	id, asker := j.f.ID(), j.d.opposite()
	switch {
	case j.c.probes[asker][id] > 0:
		j.answer(asker, id)
		if err := j.pulseShape(); err != nil {
			j.breach(ShapeRight, "%v", err)
		}
	case j.c.answered[asker][id]:
		j.breach(ProbeOnce, "it was answered before")
	default:
		j.c.probes[j.d][id]++
		delete(j.c.answered[j.d], id)
	}
}

// answer takes a probe off.
func (j *judgement) answer(asker Direction, id frame.ID) {
	if j.c.probes[asker][id]--; j.c.probes[asker][id] == 0 {
		delete(j.c.probes[asker], id)
		j.c.answered[asker][id] = true
	}
}

func (j *judgement) req() {
	id := j.f.ID()
	if old := j.c.exchanges[id]; old != nil && !old.sides[old.caller.opposite()].ended {
		j.breach(LiveOnce, "it is live")
		return
	}
	switch {
	case j.d == ToHost && j.f.Has(frame.KeyRoutingID):
		j.breach(RoutingEchoed, "a peer call has none")
	case j.d == ToHost && !j.c.serving(idOf(j.f.Meta()["parent_rid"])):
		j.breach(ParentLive, "there is none with this id")
	case j.d == ToCartridge && !j.c.policy && !isIdentity(j.f.Text(frame.KeyCap)):
		j.breach(PolicyFirst, "no POLICY was sent yet")
	}
	x := &exchange{caller: j.d, routing: j.f.Routing()}
	j.c.exchanges[id] = x
	j.flow(x, x.routing)
}

// serving reports whether a request of the host has no terminal yet.
func (c *Check) serving(id frame.ID) bool {
	x := c.exchanges[id]
	return x != nil && x.caller == ToCartridge && !x.sides[ToHost].ended
}

func isIdentity(capURN string) bool {
	c, err := urn.ParseCap(capURN)
	return err == nil && c.String() == urn.Identity
}

// ofExchange judges what belongs to a request.
func (j *judgement) ofExchange() {
	id := j.f.ID()
	x := j.c.exchanges[id]
	if x == nil {
		switch {
		case j.d == ToHost && j.f.Type() == frame.TypeErr && j.c.probes[ToCartridge][id] > 0:
			j.answer(ToCartridge, id) // capacities that were refused
		case j.d == ToHost && j.f.Type() == frame.TypeErr && j.c.answered[ToCartridge][id]:
			j.breach(ProbeOnce, "it was answered before")
		case j.d == ToHost && j.f.Type() == frame.TypeErr && j.c.excused[id]:
		default:
			j.breach(KnownRequest, "there was none with this id")
		}
		return
	}
	// How a host routes the answers of peer calls is its own business.
	routing := j.f.Routing()
	if (j.d == ToHost || x.caller == ToCartridge) && routing != x.routing {
		j.breach(RoutingEchoed, "it is %s, want %s", routing, x.routing)
		routing = x.routing
	}
	switch j.f.Type() {
	case frame.TypeCredit:
		j.credit(x)
	case frame.TypeCancel:
		switch {
		case j.d != x.caller:
			j.breach(RightSide, "only the caller cancels")
		case j.d == ToHost && x.cancelled:
			j.breach(CancelOnce, "it was cancelled before")
		}
		x.cancelled = x.cancelled || j.d == x.caller
	case frame.TypeCloseStream:
	case frame.TypeLog:
		if j.d == x.caller {
			j.breach(RightSide, "only the callee logs")
		}
		j.flow(x, routing)
	default:
		j.flow(x, routing)
	}
}

// flow judges a flow frame of an exchange: terminal and seq, then what it does to its stream.
func (j *judgement) flow(x *exchange, routing frame.ID) {
	s := &x.sides[j.d]
	if j.excused {
		j.count(s)
		return
	}
	if s.ended {
		j.breach(OneTerminal, "its terminal was sent before")
		return
	}
	if s.seq == nil {
		s.seq, s.streams = map[frame.ID]uint64{}, map[string]*judgedStream{}
	}
	if want := s.seq[routing]; j.f.Seq() != want {
		j.breach(SeqWithoutGap, "it is %d, want %d", j.f.Seq(), want)
	}
	s.seq[routing] = j.f.Seq() + 1
	switch j.f.Type() {
	case frame.TypeStreamStart, frame.TypeChunk, frame.TypeStreamEnd:
		j.stream(s)
	case frame.TypeEnd:
		for id, st := range s.streams {
			if !st.ended {
				j.breach(StreamOrder, "stream %q is open", id)
			}
		}
		fallthrough
	case frame.TypeErr:
		*s = side{ended: true}
	}
}

// count follows a frame that is not judged, in whatever order it comes, so that the grants for it can be judged.
func (j *judgement) count(s *side) {
	if s.streams == nil {
		s.seq, s.streams = map[frame.ID]uint64{}, map[string]*judgedStream{}
	}
	if j.f.Type().IsTerminal() {
		s.ended = true
		return
	}
	if !j.f.Has(frame.KeyStreamID) {
		return
	}
	st := s.streams[j.f.Stream()]
	if st == nil {
		st = &judgedStream{credit: j.c.window}
		s.streams[j.f.Stream()] = st
	}
	if j.f.Type() == frame.TypeChunk {
		st.sent++
		st.credit -= min(1, st.credit)
	}
}

// stream judges STREAM_START, CHUNK and STREAM_END.
func (j *judgement) stream(s *side) {
	id := j.f.Stream()
	st := s.streams[id]
	switch {
	case !j.f.Has(frame.KeyStreamID):
		return // a breach of its shape
	case j.f.Type() == frame.TypeStreamStart:
		if st != nil {
			j.breach(StreamOrder, "stream %q was started before", id)
			return
		}
		s.streams[id] = &judgedStream{unbounded: j.f.Flag(frame.KeyUnbounded), credit: j.c.window + s.early,
			content: content{sequence: j.f.Flag(frame.KeyIsSequence)}}
		s.early = 0
		return
	case st == nil:
		j.breach(StreamOrder, "stream %q was never started", id)
		return
	case st.ended:
		j.breach(StreamOrder, "stream %q has ended", id)
		return
	case j.f.Type() == frame.TypeStreamEnd:
		st.ended = true
		if got := j.f.Has(frame.KeyChunkCount); got == st.unbounded || got && j.f.Uint(frame.KeyChunkCount) != st.sent {
			j.breach(CountExact, "chunk_count %v (unbounded %t) after %d chunks", j.f[frame.KeyChunkCount], st.unbounded, st.sent)
		}
		if err := st.content.end(); err != nil {
			j.breach(ContentWhole, "stream %q: %v", id, err)
		}
		return
	}
	if n := j.f.Uint(frame.KeyChunkIndex); n != st.sent {
		j.breach(IndexInOrder, "it is %d, want %d", n, st.sent)
	}
	if sum := fnv1a(j.f.Payload()); sum != j.f.Uint(frame.KeyChecksum) {
		j.breach(ChecksumRight, "it is %x, want %x", j.f.Uint(frame.KeyChecksum), sum)
	}
	if err := st.content.chunk(j.f.Payload()); err != nil {
		j.breach(ContentWhole, "stream %q: %v", id, err)
	}
	st.sent++
	if st.credit == 0 {
		j.breach(WithinWindow, "chunk %d of stream %q after %d granted beyond the window of %d", st.sent-1, id, st.granted, j.c.window)
		return
	}
	st.credit--
}

// credit counts a grant for the data of the other direction.
func (j *judgement) credit(x *exchange) {
	data := j.d.opposite()
	want := frame.CreditResponse
	if data == x.caller {
		want = frame.CreditRequest
	}
	if got := j.f.Meta()["credit_dir"]; got != want.String() {
		j.breach(CreditEarned, "credit_dir %v, want %s", got, want)
		return
	}
	s, n := &x.sides[data], j.f.Uint(frame.KeyCredit)
	st := s.streams[j.f.Stream()]
	if !j.f.Has(frame.KeyStreamID) && len(s.streams) == 1 {
		for _, st = range s.streams {
		}
	}
	switch {
	case st != nil:
		st.credit += n
		st.granted += n
		if j.d == ToHost && st.granted > st.sent {
			j.breach(CreditEarned, "%d granted for %d chunks", st.granted, st.sent)
		}
	case s.ended:
	case !j.f.Has(frame.KeyStreamID) && len(s.streams) == 0:
		s.early += n
	default:
		j.breach(CreditEarned, "there is no stream %q", j.f.Stream())
	}
}
