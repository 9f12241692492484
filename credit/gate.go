package credit

import (
	"context"
	"errors"
	"math"
	"sync"
)

// ErrClosed is the reason of a gate that was closed without one.
var ErrClosed = errors.New("credit gate is closed")

// Gate is the sending side of one stream: the number of chunks that may still be sent. A stream starts with the
// initial credit of its link; one credit is one chunk.
//
// The zero value is an open gate without credit. Init gives it some, so that a Gate can live inside a larger
// struct. All methods but Init are safe for concurrent use; only Acquire and AcquireUpTo may wait.
type Gate struct {
	mu        sync.Mutex
	available uint64  // guarded by mu; credit granted and not acquired
	first     *waiter // guarded by mu; who waits, in order of arrival; nil if nobody does
	last      *waiter // guarded by mu; the end of that line
	reason    error   // guarded by mu; what a failing acquire gets; nil while phase is open
	phase     phase   // guarded by mu
}

// phase is how far a gate or router has got in its life; it only grows.
type phase uint8

const (
	open     phase = iota
	draining       // what is there may be acquired, nothing comes after it (R-2.30 f)
	closed         // nothing may be acquired
)

// waiter is one call of Acquire or AcquireUpTo that has to wait. All fields but ready are guarded by Gate.mu.
type waiter struct {
	previous, next *waiter
	least          uint64        // serve the waiter when this much is there
	most           uint64        // and give it this much if it can be had
	got            uint64        // what it was served
	err            error         // why it was refused
	settled        bool          // served or refused, and out of the line
	ready          chan struct{} // closed when settled
}

// NewGate returns an open gate with the given credit, in chunks.
func NewGate(initial uint64) *Gate {
	g := new(Gate)
	g.Init(initial)
	return g
}

// Init makes g an open gate with the given credit, in chunks. It must be called before g is shared.
func (g *Gate) Init(initial uint64) { g.available = initial }

// Acquire takes n credits. It returns at once while they are there and nobody waits in front; otherwise it waits
// until they are, ctx ends, or the gate ends. A closed gate fails every present and future call with the reason it
// was closed with; the end of ctx gives context.Cause. Waiters are served in order of arrival:
// a small call does not overtake a large one. A failed call takes nothing.
//
// A context that has already ended does not refuse credit that is there.
func (g *Gate) Acquire(ctx context.Context, n uint64) error {
	_, err := g.acquire(ctx, n, n)
	return err
}

// AcquireUpTo takes what is there, at most max credits and at least one, and returns how many. It waits like
// Acquire while there is none, or while somebody waits in front. With max 0 it takes nothing.
func (g *Gate) AcquireUpTo(ctx context.Context, max uint64) (uint64, error) {
	return g.acquire(ctx, min(max, 1), max)
}

// TryAcquire takes n credits if that is possible without waiting. False with a nil error means: not now. An error
// means never: the gate is closed, or it gets no more grants and has fewer than n left.
func (g *Gate) TryAcquire(n uint64) (bool, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	got, ok, err := g.take(n, n)
	return ok && got == n, err
}

// TryAcquireUpTo takes what is there without waiting, at most max credits, and returns how many: 0 with a nil
// error means not now, an error means never.
func (g *Gate) TryAcquireUpTo(max uint64) (uint64, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	got, _, err := g.take(min(max, 1), max)
	return got, err
}

// Grant adds n credits and serves the waiters it suffices for, in order. It saturates at the largest uint64, never
// blocks, and does nothing once the gate has ended. It returns before the served waiters have run.
func (g *Gate) Grant(n uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.phase != open {
		return
	}
	if n > math.MaxUint64-g.available {
		n = math.MaxUint64 - g.available
	}
	g.available += n
	g.serve()
}

// Close ends the gate: every present and future acquire fails with err, or with ErrClosed if err is nil (R-10.16,
// L13). The first Close wins. What was granted and not acquired is gone.
func (g *Gate) Close(err error) { g.end(closed, err) }

// NoMoreGrants tells the gate that no grant will come any more: acquiring succeeds while credit remains, in order,
// and who wants more than remains fails at once with err, or with ErrClosed if err is nil (R-2.30 f). A later
// Close still takes effect; a later NoMoreGrants does not.
func (g *Gate) NoMoreGrants(err error) { g.end(draining, err) }

// Available returns the credit that nobody has acquired yet. On a closed gate it is 0.
func (g *Gate) Available() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.available
}

// acquire takes between least and most credits, waiting for least of them. The quick path is written without defer
// and without the waiter, which would otherwise be allocated on it.
func (g *Gate) acquire(ctx context.Context, least, most uint64) (uint64, error) {
	g.mu.Lock()
	got, ok, err := g.take(least, most)
	if ok || err != nil {
		g.mu.Unlock()
		return got, err
	}
	w := &waiter{least: least, most: most, ready: make(chan struct{})}
	g.append(w) // in the same critical section as the check: no grant can fall in between
	g.mu.Unlock()

	select {
	case <-w.ready:
		return w.got, w.err
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.settled { // served in the last moment: the credit is taken, so it must be used
		return w.got, w.err
	}
	g.remove(w)
	g.serve() // what was too little for w may be enough for those behind it
	return 0, context.Cause(ctx)
}

// take is an acquire without waiting. ok says that it is done; neither ok nor an error means that it has to wait.
func (g *Gate) take(least, most uint64) (got uint64, ok bool, err error) {
	switch {
	case g.phase == closed:
		return 0, false, g.reason
	case least == 0:
		return 0, true, nil
	case g.first == nil && g.available >= least:
		got = min(g.available, most)
		g.available -= got
		return got, true, nil
	case g.phase == draining:
		return 0, false, g.reason
	}
	return 0, false, nil
}

// serve settles waiters from the front of the line for as long as what is there suffices, or, when nothing more
// can come, refuses those it does not suffice for.
func (g *Gate) serve() {
	for w := g.first; w != nil; w = g.first {
		switch {
		case g.phase == closed:
			w.err = g.reason
		case g.available >= w.least:
			w.got = min(g.available, w.most)
			g.available -= w.got
		case g.phase == draining:
			w.err = g.reason
		default:
			return
		}
		g.remove(w)
		w.settled = true
		close(w.ready)
	}
}

// end moves the gate to a later phase; a call that would move it back, or not at all, does nothing.
func (g *Gate) end(to phase, reason error) {
	if reason == nil {
		reason = ErrClosed
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if to <= g.phase {
		return
	}
	g.phase, g.reason = to, reason
	if to == closed {
		g.available = 0
	}
	g.serve()
}

func (g *Gate) append(w *waiter) {
	w.previous = g.last
	if g.last == nil {
		g.first = w
	} else {
		g.last.next = w
	}
	g.last = w
}

func (g *Gate) remove(w *waiter) {
	if w.previous == nil {
		g.first = w.next
	} else {
		w.previous.next = w.next
	}
	if w.next == nil {
		g.last = w.previous
	} else {
		w.next.previous = w.previous
	}
	w.previous, w.next = nil, nil
}
