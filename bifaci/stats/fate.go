package stats

import "sync/atomic"

// Fate is what became of a frame that came in. Every frame has exactly one.
type Fate uint8

const (
	// Delivered: it went to a request or a call, as part or end of its body or answer, or as a grant for what it sends.
	Delivered Fate = iota
	// Consumed: the runtime dealt with it itself. That is every frame that is for the runtime, one that is to be ignored, and one
	// that broke a rule and failed its request, unless it counts as a drop.
	Consumed
	// Straggled: it legally crossed the end of its request.
	Straggled

	firstDropped // the drops, by reason, are from here on
)

// Dropped is the fate of a frame that was lost for the given reason.
func Dropped(r Reason) Fate { return firstDropped + Fate(r) }

// Reason is why the frame was dropped; ok is false for every other fate.
func (f Fate) Reason() (r Reason, ok bool) {
	if f < firstDropped {
		return 0, false
	}
	return Reason(f - firstDropped), true
}

// Ledger books the frames that come in, once when they are received and once when it is decided what becomes of them. It
// says nothing about frames that go out. The zero value is ready. Safe for concurrent use; no method blocks.
type Ledger struct {
	received, delivered, consumed, dropped, straggled atomic.Uint64
}

// Receive books a frame as it is decoded.
func (l *Ledger) Receive() { l.received.Add(1) }

// Settle books its fate.
func (l *Ledger) Settle(fate Fate) {
	switch fate {
	case Delivered:
		l.delivered.Add(1)
	case Consumed:
		l.consumed.Add(1)
	case Straggled:
		l.straggled.Add(1)
	default:
		l.dropped.Add(1)
	}
}

// Snapshot reads the ledger. Read while frames arrive, more may be received than are settled; never less.
func (l *Ledger) Snapshot() LedgerSnapshot {
	s := LedgerSnapshot{Delivered: l.delivered.Load(), Consumed: l.consumed.Load(), Dropped: l.dropped.Load(), Straggled: l.straggled.Load()}
	s.Received = l.received.Load() // last: a frame is received before it is settled
	return s
}

// LedgerSnapshot is a copy of a [Ledger], in frames. At rest Received is the sum of the others; frames that a reorder stage holds
// back are not settled yet.
type LedgerSnapshot struct {
	Received  uint64 `json:"received"`
	Delivered uint64 `json:"delivered"`
	Consumed  uint64 `json:"consumed"`
	Dropped   uint64 `json:"dropped"`   // the part of Snapshot.Drops that came in
	Straggled uint64 `json:"straggled"` // the part of Snapshot.Stragglers that came in
}

// Settled is the number of frames whose fate is decided.
func (s LedgerSnapshot) Settled() uint64 { return s.Delivered + s.Consumed + s.Dropped + s.Straggled }
