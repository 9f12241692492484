package stream

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"
)

// ErrClosed is what a Put gets from a queue whose end was clean.
var ErrClosed = errors.New("queue is closed")

// Queue is a bounded hand-off between goroutines: values are put in runs and taken all at once. Where a channel
// wakes its receiver for each value, a queue wakes it when it stops being empty and then not again until it has been
// emptied, so a busy pair of goroutines hardly ever meets in the scheduler.
//
// It is bounded in items and, if it was given a way to weigh them, in weight (bytes, usually). What has been taken no
// longer counts: behind a queue with a bound of n there may be a consumer with n more in hand.
//
// A queue ends once, by Close or Fail, and both sides learn why: ends travel downstream as values. All methods but
// Init are safe for concurrent use by any number of goroutines. Put, TakeAll and the goroutine of Chan wait; their
// context and the end of the queue release them.
//
// NewQueue makes one; a Queue that is part of a larger struct is made ready by Init. It must not be copied. An idle
// queue holds no buffer.
type Queue[T any] struct {
	maxItems  int           // constant after Init
	maxWeight int64         // constant after Init
	weigh     func(T) int64 // constant after Init; nil: items have no weight

	mu      sync.Mutex
	items   []T     // guarded by mu
	weight  int64   // guarded by mu; of items
	takers  line    // guarded by mu; who waits for items
	putters line    // guarded by mu; who waits for room, the first of them alone may put
	spare   *waiter // guarded by mu; kept from the last wait, so that waiting does not allocate
	end     error   // guarded by mu; nil while open, io.EOF after a clean end
}

// NewQueue returns an empty queue; see Init.
func NewQueue[T any](maxItems int, maxWeight int64, weigh func(T) int64) *Queue[T] {
	q := new(Queue[T])
	q.Init(maxItems, maxWeight, weigh)
	return q
}

// Init makes q an empty queue of at most maxItems items, which must be at least 1, else it panics. If weigh is not
// nil, the items also weigh at most maxWeight together, in the unit of weigh; one item that is heavier alone is let
// in when the queue is empty, as it could never pass otherwise. weigh runs under the lock of the queue: it must be
// quick, must not return less than 0, must always return the same for an item, and must not use the queue.
//
// Init must be called before q is shared.
func (q *Queue[T]) Init(maxItems int, maxWeight int64, weigh func(T) int64) {
	if maxItems < 1 {
		panic(fmt.Sprintf("stream: queue of %d items, want at least 1", maxItems))
	}
	q.maxItems, q.maxWeight, q.weigh = maxItems, maxWeight, weigh
}

// TryPut puts one item if there is room for it and nobody waits to put; it never waits. False means that there is no
// room now, or that the queue has ended.
func (q *Queue[T]) TryPut(v T) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end != nil || q.putters.first != nil {
		return false
	}
	return q.add([]T{v}) == 1 // the slice stays on the stack
}

// Put puts a run of items in order and without an item of another Put in between. It waits for room, in order of
// arrival, until ctx ends or the queue does. Items that fit are put while it waits for the rest, so after an error a
// first part of the run may be in the queue. The run itself is not kept.
//
// The error is the cause of ctx, ErrClosed after a clean end, or what the queue was closed or failed with. A context
// that has already ended puts nothing.
func (q *Queue[T]) Put(ctx context.Context, run ...T) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	q.mu.Lock()
	if q.end != nil {
		defer q.mu.Unlock()
		return q.refusal()
	}
	if q.putters.first == nil {
		run = run[q.add(run):]
	}
	if len(run) == 0 {
		q.mu.Unlock()
		return nil
	}
	w := q.newWaiter()
	q.putters.append(w)
	for {
		q.mu.Unlock()
		var cause error
		select {
		case <-w.wake:
		case <-ctx.Done():
			cause = context.Cause(ctx)
		}
		q.mu.Lock()
		w.settle(cause == nil)
		switch {
		case q.end != nil:
			cause = q.refusal()
		case cause == nil:
			run = run[q.add(run):]
			if len(run) > 0 { // still the first in the line: the next taker wakes us again
				continue
			}
		}
		q.putters.remove(w)
		q.keep(w)
		q.wakePutter() // what room is left, or was meant for us, is the next one's
		q.mu.Unlock()
		return cause
	}
}

// TakeAll waits until something is in the queue and takes all of it. buf is a slice the caller has done with, often
// the one it got last time; the queue takes it over and fills it next, so that two buffers go back and forth and
// nothing is allocated. nil will do. The returned slice belongs to the caller, who passes it in again when it has
// dealt with the items.
//
// After Close it gives what is left first, then the end: io.EOF if it was clean. After Fail it gives the error at
// once. A context that has ended gives its cause and takes nothing. With an error the returned slice is buf, emptied.
func (q *Queue[T]) TakeAll(ctx context.Context, buf []T) ([]T, error) {
	return q.takeAll(ctx, buf, nil)
}

// TryTakeAll takes what is in the queue without waiting; see TakeAll for buf. False means that it was empty: then it
// returns buf, emptied, and Err tells whether more can come.
func (q *Queue[T]) TryTakeAll(buf []T) ([]T, bool) {
	clear(buf)
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return buf[:0], false
	}
	return q.swap(buf), true
}

// Close ends the queue after what is in it: takers get the rest, then err, or io.EOF if err is nil. Who waits to put
// fails at once. Only the first Close counts.
func (q *Queue[T]) Close(err error) {
	if err == nil {
		err = io.EOF
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.end == nil {
		q.end = err
		q.wakeAll()
	}
}

// Fail ends the queue at once: what is in it is discarded and both sides fail with err, or with ErrClosed if err is
// nil. The discarded items are returned, for the caller to release what they hold. After a Close it still discards and
// replaces the end, as long as something was left to take.
func (q *Queue[T]) Fail(err error) (discarded []T) {
	if err == nil {
		err = ErrClosed
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	discarded = q.items
	q.items, q.weight = nil, 0
	if q.end == nil || len(discarded) > 0 {
		q.end = err
	}
	q.wakeAll()
	return discarded
}

// Err returns nil while the queue is open, io.EOF after a clean end, and otherwise what it was closed or failed with.
// Something may still be left to take.
func (q *Queue[T]) Err() error {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.end
}

// Chan gives the items through a channel, for code that selects. The channel is closed when the queue has ended and
// is empty, or when ctx ends; a closed channel cannot say which, so ask ctx first and then Err, which is io.EOF only
// after a clean end. A goroutine feeds the channel until then: the caller either receives until it is closed or ends
// ctx. It takes all there is at a time; when ctx ends, what it had taken and not delivered is lost.
func (q *Queue[T]) Chan(ctx context.Context) <-chan T {
	items := make(chan T)
	go func() { // ends with ctx, which the caller owns, or with the queue
		defer close(items)
		var buf []T
		for {
			var err error
			if buf, err = q.TakeAll(ctx, buf); err != nil {
				return
			}
			for _, v := range buf {
				select {
				case items <- v:
				case <-ctx.Done():
					return
				}
			}
		}
	}()
	return items
}

// Len returns the number of items in the queue.
func (q *Queue[T]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// Weight returns what the items in the queue weigh together; 0 if they are not weighed.
func (q *Queue[T]) Weight() int64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.weight
}

// errAlarm is how takeAll says that its timer came first.
var errAlarm = errors.New("timer came first")

// takeAll is TakeAll that also stops waiting, with errAlarm, when alarm delivers; a nil alarm never does.
func (q *Queue[T]) takeAll(ctx context.Context, buf []T, alarm <-chan time.Time) ([]T, error) {
	clear(buf) // outside of the lock; the collector must not see what the consumer is done with
	if ctx.Err() != nil {
		return buf[:0], context.Cause(ctx)
	}
	q.mu.Lock()
	if len(q.items) > 0 || q.end != nil {
		return q.takeAndUnlock(buf)
	}
	w := q.newWaiter()
	q.takers.append(w)
	for {
		q.mu.Unlock()
		var cause error
		select {
		case <-w.wake:
		case <-ctx.Done():
			cause = context.Cause(ctx)
		case <-alarm:
			cause = errAlarm
		}
		q.mu.Lock()
		w.settle(cause == nil)
		if cause == nil && len(q.items) == 0 && q.end == nil {
			continue // somebody else was quicker
		}
		q.takers.remove(w)
		q.keep(w)
		if cause != nil {
			q.wakeTaker() // the wake-up may have been the only one: pass it on
			q.mu.Unlock()
			return buf[:0], cause
		}
		return q.takeAndUnlock(buf)
	}
}

// takeAndUnlock takes what is there, or else the end. The caller holds mu, and one of the two is there.
func (q *Queue[T]) takeAndUnlock(buf []T) ([]T, error) {
	defer q.mu.Unlock()
	if len(q.items) > 0 {
		return q.swap(buf), nil
	}
	return buf[:0], q.end
}

// swap hands out the items and keeps buf to be filled next. The caller holds mu.
func (q *Queue[T]) swap(buf []T) []T {
	items := q.items
	q.items, q.weight = buf[:0], 0
	q.wakePutter()
	return items
}

// add puts as many items of run as there is room for, and returns their number. The caller holds mu.
func (q *Queue[T]) add(run []T) int {
	n := min(len(run), q.maxItems-len(q.items))
	if q.weigh != nil {
		n = q.fitting(run[:n])
	}
	if n == 0 {
		return 0
	}
	wasEmpty := len(q.items) == 0
	q.items = append(q.items, run[:n]...)
	if wasEmpty {
		q.wakeTaker()
	}
	return n
}

// fitting returns how many items of run may be added by weight, and adds their weight. The caller holds mu.
func (q *Queue[T]) fitting(run []T) int {
	for i, v := range run {
		heavier := q.weight + q.weigh(v)
		if heavier > q.maxWeight && len(q.items)+i > 0 {
			return i
		}
		q.weight = heavier
	}
	return len(run)
}

// refusal is the error of a Put into a queue that has ended. The caller holds mu.
func (q *Queue[T]) refusal() error {
	if q.end == io.EOF {
		return ErrClosed
	}
	return q.end
}

func (q *Queue[T]) wakeTaker() {
	if q.takers.first != nil && len(q.items) > 0 {
		q.takers.first.notify()
	}
}

func (q *Queue[T]) wakePutter() {
	if q.putters.first != nil && len(q.items) < q.maxItems && (q.weight < q.maxWeight || q.weigh == nil || len(q.items) == 0) {
		q.putters.first.notify()
	}
}

func (q *Queue[T]) wakeAll() {
	for w := q.takers.first; w != nil; w = w.next {
		w.notify()
	}
	for w := q.putters.first; w != nil; w = w.next {
		w.notify()
	}
}

func (q *Queue[T]) newWaiter() *waiter {
	if w := q.spare; w != nil {
		q.spare = nil
		return w
	}
	return &waiter{wake: make(chan struct{}, 1)}
}

func (q *Queue[T]) keep(w *waiter) { q.spare = w }
