package host

import (
	"fmt"
	"sync"
)

// Bounds of what waits for a slow callback.
const (
	maxWaiting      = 1024    // items
	maxWaitingBytes = 1 << 20 // bytes
)

// callbackQueue hands items to a callback, on a goroutine of its own, so that a slow callback never holds anybody back. What does not
// fit is lost, and the next call of take is told how many were.
type callbackQueue[T any] struct {
	take func(item *T, lost int) // item is nil when only losses are to be told
	done chan struct{}           // closed when the callback has got everything

	mu     sync.Mutex
	items  []T
	size   int // of items, bytes
	lost   int
	closed bool
	wake   chan struct{} // capacity 1
}

func newCallbackQueue[T any](take func(item *T, lost int)) *callbackQueue[T] {
	q := &callbackQueue[T]{take: take, done: make(chan struct{}), wake: make(chan struct{}, 1)}
	go q.run() // ends after close
	return q
}

// newLineQueue is a queue of lines of text.
func newLineQueue(f func(string)) *callbackQueue[string] {
	return newCallbackQueue(func(line *string, lost int) {
		if line != nil {
			f(*line)
		}
		if lost > 0 {
			f(fmt.Sprintf("(%d lines were lost here: they came faster than they were taken)", lost))
		}
	})
}

// put never waits.
func (q *callbackQueue[T]) put(item T, size int) {
	q.mu.Lock()
	if len(q.items) >= maxWaiting || q.size+size > maxWaitingBytes {
		q.lost++
	} else {
		q.items = append(q.items, item)
		q.size += size
	}
	q.mu.Unlock()
	q.poke()
}

func (q *callbackQueue[T]) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// close waits for the callback to get what was put, as long as it does not hang. On a nil queue it does nothing.
func (q *callbackQueue[T]) close() {
	if q == nil {
		return
	}
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.poke()
	await(q.done, drainGrace)
}

func (q *callbackQueue[T]) run() {
	defer close(q.done)
	for {
		q.mu.Lock()
		items, lost, closed := q.items, q.lost, q.closed
		q.items, q.size, q.lost = nil, 0, 0
		q.mu.Unlock()
		for i := range items {
			told := 0
			if i == len(items)-1 { // what was lost came behind the last of them
				told = lost
			}
			q.take(&items[i], told)
		}
		if len(items) == 0 && lost > 0 {
			q.take(nil, lost)
		}
		if len(items) > 0 || lost > 0 {
			continue
		}
		if closed {
			return
		}
		<-q.wake
	}
}
