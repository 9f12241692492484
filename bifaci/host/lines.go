package host

import (
	"fmt"
	"sync"
)

// Bounds of the lines of standard error that wait for a slow callback.
const (
	maxWaitingLines     = 1024
	maxWaitingLineBytes = 1 << 20 // bytes
)

// lineQueue hands lines to a callback, on a goroutine of its own, so that a slow callback never holds back the process. What
// does not fit is lost and said to be.
type lineQueue struct {
	f    func(string)
	done chan struct{} // closed when the callback has got everything

	mu     sync.Mutex
	lines  []string
	bytes  int // in lines
	lost   int
	closed bool
	wake   chan struct{} // capacity 1
}

func newLineQueue(f func(string)) *lineQueue {
	q := &lineQueue{f: f, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go q.run() // ends after close
	return q
}

// put never waits.
func (q *lineQueue) put(line string) {
	q.mu.Lock()
	if len(q.lines) >= maxWaitingLines || q.bytes+len(line) > maxWaitingLineBytes {
		q.lost++
	} else {
		q.lines = append(q.lines, line)
		q.bytes += len(line)
	}
	q.mu.Unlock()
	q.poke()
}

func (q *lineQueue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close waits for the callback to get what was put, as long as it does not hang. On a nil queue it does nothing.
func (q *lineQueue) close() {
	if q == nil {
		return
	}
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.poke()
	await(q.done, drainGrace)
}

func (q *lineQueue) run() {
	defer close(q.done)
	for {
		q.mu.Lock()
		lines, lost, closed := q.lines, q.lost, q.closed
		q.lines, q.bytes, q.lost = nil, 0, 0
		q.mu.Unlock()
		for _, line := range lines {
			q.f(line)
		}
		if lost > 0 {
			q.f(fmt.Sprintf("(%d lines were lost here: they came faster than they were taken)", lost))
		}
		if len(lines) > 0 || lost > 0 {
			continue
		}
		if closed {
			return
		}
		<-q.wake
	}
}
