package stages

import "sync/atomic"

// Activity is what one request's code does with its receiver and senders: how often it has been there, and how many of its
// goroutines wait there. Code that neither comes nor waits computes, or waits for something of its own. A nil Activity
// counts nothing. Safe for concurrent use.
type Activity struct {
	visits  atomic.Uint32
	waiting atomic.Int32
}

// Visits grows with every call that reached the stages; it starts at 0 and may wrap around.
func (a *Activity) Visits() uint32 { return a.visits.Load() }

// Waits reports whether a goroutine is in a call that may wait.
func (a *Activity) Waits() bool { return a.waiting.Load() > 0 }

// Visit counts a call that does not wait.
func (a *Activity) Visit() {
	if a != nil {
		a.visits.Add(1)
	}
}

func (a *Activity) enter() {
	if a != nil {
		a.waiting.Add(1)
	}
}

func (a *Activity) leave() {
	if a != nil {
		a.visits.Add(1)
		a.waiting.Add(-1)
	}
}
