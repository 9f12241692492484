package stages

import (
	"context"
)

// laneWaiter is a sender that waits for room.
type laneWaiter struct {
	ready      chan struct{} // capacity 1; told when it is this waiter's turn, or the lanes failed
	prev, next *laneWaiter
	number     uint64 // grows with the order of arrival
	queued     bool
}

// waiterList is a queue of senders, first come first.
type waiterList struct {
	first, last *laneWaiter
	count       uint64 // of all that ever waited
}

func (q *waiterList) pushBack(w *laneWaiter) {
	q.count++
	w.number = q.count
	w.prev, w.next, w.queued = q.last, nil, true
	if q.last == nil {
		q.first = w
	} else {
		q.last.next = w
	}
	q.last = w
}

// putBack puts w where it was, behind those that came before it and were put back as well.
func (q *waiterList) putBack(w *laneWaiter) {
	w.prev, w.next, w.queued = nil, q.first, true
	for w.next != nil && w.next.number < w.number {
		w.prev, w.next = w.next, w.next.next
	}
	if w.prev == nil {
		q.first = w
	} else {
		w.prev.next = w
	}
	if w.next == nil {
		q.last = w
	} else {
		w.next.prev = w
	}
}

// remove takes w out; it reports false when w is not in the queue.
func (q *waiterList) remove(w *laneWaiter) bool {
	if !w.queued {
		return false
	}
	if w.prev == nil {
		q.first = w.next
	} else {
		w.prev.next = w.next
	}
	if w.next == nil {
		q.last = w.prev
	} else {
		w.next.prev = w.prev
	}
	w.prev, w.next, w.queued = nil, nil, false
	return true
}

// waitRoom is entered and left with the lock held, except that it is released when an error is returned.
func (l *Lanes) waitRoom(ctx context.Context, wait func()) error {
	w := &laneWaiter{ready: make(chan struct{}, 1)}
	l.queue.pushBack(w)
	for {
		l.mu.Unlock()
		if wait != nil {
			wait()
			wait = nil
		}
		select {
		case <-w.ready:
		case <-ctx.Done():
			l.mu.Lock()
			if !l.queue.remove(w) {
				l.woken-- // it was its turn: somebody else's now
			}
			l.letIn()
			l.mu.Unlock()
			return context.Cause(ctx)
		}
		l.mu.Lock()
		l.woken--
		if l.err != nil || !l.full() {
			return nil
		}
		l.queue.putBack(w) // others have taken more room than was to be expected
	}
}

// letIn wakes waiters in order while there is room, a few at a time: each that enters lets in the next. One at a time would
// cost every sender a switch of its own once the lane has been full.
func (l *Lanes) letIn() {
	for l.queue.first != nil && (l.err != nil || l.woken < wakeAhead && l.roomAhead()) {
		w := l.queue.first
		l.queue.remove(w)
		l.woken++
		w.ready <- struct{}{}
	}
}

// roomAhead reports whether there is room beside those who are on their way, if each takes as much as the last run did.
func (l *Lanes) roomAhead() bool {
	return l.data.frames-l.data.own+l.woken*l.lastFrames < laneMaxFrames && l.data.bytes+l.woken*l.lastBytes < laneMaxBytes
}

func (l *Lanes) full() bool {
	return l.data.frames-l.data.own >= laneMaxFrames || l.data.bytes >= laneMaxBytes
}
