package stream

// line is who waits at one side of a queue, in order of arrival. It is guarded by the lock of the queue.
type line struct {
	first, last *waiter
}

// waiter is one call that waits. All fields are guarded by the lock of its queue; the channel is received from without
// it.
type waiter struct {
	previous, next *waiter
	notified       bool          // a token is in wake, or was taken from it by a waiter that has not got the lock yet
	wake           chan struct{} // holds one token
}

// notify wakes the waiter unless that was done already. It never blocks: there is room for the one token.
func (w *waiter) notify() {
	if !w.notified {
		w.notified = true
		w.wake <- struct{}{}
	}
}

// settle is called by the waiter when it has the lock again. received says that it took the token; if it stopped
// waiting for another reason, a token that came meanwhile is taken out, so that the waiter can be used again.
func (w *waiter) settle(received bool) {
	if w.notified && !received {
		<-w.wake
	}
	w.notified = false
}

func (l *line) append(w *waiter) {
	w.previous = l.last
	if l.last == nil {
		l.first = w
	} else {
		l.last.next = w
	}
	l.last = w
}

func (l *line) remove(w *waiter) {
	if w.previous == nil {
		l.first = w.next
	} else {
		w.previous.next = w.next
	}
	if w.next == nil {
		l.last = w.previous
	} else {
		w.next.previous = w.previous
	}
	w.previous, w.next = nil, nil
}
