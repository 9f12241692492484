package credit

import (
	"errors"
	"fmt"
	"sync"
)

// ErrRegistered is the error of a second gate under the id of a registered one.
var ErrRegistered = errors.New("stream id has a credit gate already")

// Outcome is what became of a grant.
type Outcome uint8

const (
	// Granted: the grant reached a gate. A gate that has ended takes it and does nothing.
	Granted Outcome = iota
	// Unmatched: there is no such stream, or none was named and there is not exactly one. For a live
	// request the grant counts as spent and nothing is wrong.
	Unmatched
)

// String returns the name of the outcome.
func (o Outcome) String() string {
	switch o {
	case Granted:
		return "granted"
	case Unmatched:
		return "unmatched"
	}
	return fmt.Sprintf("outcome %d", uint8(o))
}

// Router holds the gates of one request in one direction, by stream id, and leads arriving grants to them. The zero
// value is ready and holds one gate without allocating. It never waits and is safe for concurrent use.
//
// A router's lock is taken before a gate's, never after it.
type Router struct {
	mu     sync.Mutex
	id     string           // guarded by mu; the stream of gate
	gate   *Gate            // guarded by mu; the only gate of most requests; nil if there is none
	more   map[string]*Gate // guarded by mu; the others
	reason error            // guarded by mu; what CloseAll or NoMoreGrants said
	phase  phase            // guarded by mu
}

// Register adds the gate of a stream. It must happen before the stream is announced, so that an early grant finds
// it. After CloseAll or NoMoreGrants the gate ends in the same way at once, and for CloseAll the reason is
// returned. A second gate under one id is refused with ErrRegistered and stays as it is.
func (r *Router) Register(stream string, g *Gate) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.phase == closed {
		g.Close(r.reason)
		return r.reason
	}
	if r.find(stream) != nil {
		return fmt.Errorf("register stream %q: %w", stream, ErrRegistered)
	}
	switch {
	case r.gate == nil:
		r.id, r.gate = stream, g
	case r.more == nil:
		r.more = map[string]*Gate{stream: g}
	default:
		r.more[stream] = g
	}
	if r.phase == draining {
		g.NoMoreGrants(r.reason)
	}
	return nil
}

// Unregister forgets the gate of a stream that is over; the gate itself is left as it is. An unknown id is ignored.
func (r *Router) Unregister(stream string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.gate != nil && r.id == stream {
		r.id, r.gate = "", nil
		return
	}
	delete(r.more, stream)
}

// Grant leads n credits to the gate of the named stream. A nil stream means that the grant names none: it goes to
// the only gate if there is exactly one. An empty stream that is not nil is an id like any other. The
// slice is not kept.
func (r *Router) Grant(stream []byte, n uint64) Outcome {
	r.mu.Lock()
	var g *Gate
	switch {
	case stream == nil:
		g = r.only()
	case r.gate != nil && r.id == string(stream):
		g = r.gate
	default:
		g = r.more[string(stream)]
	}
	r.mu.Unlock()
	if g == nil {
		return Unmatched
	}
	g.Grant(n)
	return Granted
}

// CloseAll closes every gate of the request, and every one that is registered later, with the same reason (ErrClosed
// if err is nil), then forgets them. The first CloseAll wins.
func (r *Router) CloseAll(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end(closed, err) {
		r.each((*Gate).Close)
		r.id, r.gate, r.more = "", nil, nil
	}
}

// NoMoreGrants tells every gate of the request, and every one that is registered later, that no grant will come
// (R-2.30 f); see Gate.NoMoreGrants. It does nothing after CloseAll.
func (r *Router) NoMoreGrants(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end(draining, err) {
		r.each((*Gate).NoMoreGrants)
	}
}

// end moves the router to a later phase and reports whether it did. The caller holds mu.
func (r *Router) end(to phase, reason error) bool {
	if to <= r.phase {
		return false
	}
	if reason == nil {
		reason = ErrClosed
	}
	r.phase, r.reason = to, reason
	return true
}

// each applies f, with the router's reason, to every gate. The caller holds mu.
func (r *Router) each(f func(*Gate, error)) {
	if r.gate != nil {
		f(r.gate, r.reason)
	}
	for _, g := range r.more {
		f(g, r.reason)
	}
}

// find returns the gate of a stream, or nil. The caller holds mu.
func (r *Router) find(stream string) *Gate {
	if r.gate != nil && r.id == stream {
		return r.gate
	}
	return r.more[stream]
}

// only returns the single gate there is, or nil. The caller holds mu.
func (r *Router) only() *Gate {
	if r.gate != nil {
		if len(r.more) == 0 {
			return r.gate
		}
		return nil
	}
	if len(r.more) != 1 {
		return nil
	}
	for _, g := range r.more {
		return g
	}
	return nil
}
