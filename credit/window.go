package credit

import "sync"

// Window is the receiving side of one stream: it knows how many chunks may still arrive, and gathers the credits of
// consumed chunks into grants. Every chunk is in one of three places, and the three always add up to the initial
// credit (R-10.1, L10.5):
//
//	initial = Outstanding (may still arrive) + held (arrived, not consumed) + Pending (consumed, not granted)
//
// So the buffer behind a window never holds more than the initial credit, and no credit is granted twice, whatever
// the caller counts.
//
// The methods that return a grant have already widened the window by it, so the caller is free to send the grant:
// the chunks it lets through find room (R-10.23, L10.6). Nothing here waits. Arrive is called by whoever takes
// frames off the wire, the others by the consumer; all are safe for concurrent use. The zero value is a window of 0.
type Window struct {
	mu          sync.Mutex
	initial     uint64 // constant after Init
	outstanding uint64 // guarded by mu
	pending     uint64 // guarded by mu
	over        bool   // guarded by mu; the stream has ended: no further grant
}

// NewWindow returns a window of the given size, in chunks.
func NewWindow(initial uint64) *Window {
	w := new(Window)
	w.Init(initial)
	return w
}

// Init makes w a window of the given size, in chunks. It must be called before w is shared.
func (w *Window) Init(initial uint64) { w.initial, w.outstanding = initial, initial }

// Arrive counts a chunk that came in. False means that the sender had no credit for it: the chunk is not counted
// and the request has to fail (R-10.40, L12).
func (w *Window) Arrive() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.outstanding == 0 {
		return false
	}
	w.outstanding--
	return true
}

// Consume counts n chunks as read by the consumer and returns what is now to be granted: zero, or a multiple of
// Batch, which goes out as that many grants of one batch each (R-10.20, L10.1). What remains is pending. Chunks
// beyond those that have arrived are not counted.
func (w *Window) Consume(n uint64) (grant uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return 0
	}
	w.pending += min(n, w.held())
	batch := w.Batch()
	if w.pending < batch { // the usual case, without a division
		return 0
	}
	grant = w.pending - w.pending%batch
	w.pending -= grant
	w.outstanding += grant
	return grant
}

// Flush returns all that is pending, to be granted before the consumer waits for anything (R-10.21, L10.2).
func (w *Window) Flush() (grant uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	grant = w.pending // 0 when the stream is over
	w.pending = 0
	w.outstanding += grant
	return grant
}

// Immediate counts n arrived chunks as consumed and returns them as a grant at once, past the batch: the later
// chunks of a sequence item, which must not use up the window that the item needs (R-10.23, L10.4), and discarded
// chunks. What is pending stays pending.
func (w *Window) Immediate(n uint64) (grant uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return 0
	}
	grant = min(n, w.held())
	w.outstanding += grant
	return grant
}

// Close says that the stream has ended: from now on no grant is due, and what was pending is forgotten.
func (w *Window) Close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	w.pending = 0
}

// Batch returns the number of credits in one regular grant: half of the window, rounded down, at least 1.
func (w *Window) Batch() uint64 { return max(1, w.initial/2) }

// Outstanding returns how many chunks may still arrive.
func (w *Window) Outstanding() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.outstanding
}

// Pending returns how many consumed chunks have not been granted back. It is 0 when the stream is over.
func (w *Window) Pending() uint64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.pending
}

// held returns how many chunks have arrived and are not consumed. The caller holds mu.
func (w *Window) held() uint64 { return w.initial - w.outstanding - w.pending }
