package feed

// fifo is a first-in first-out queue in a circular buffer that grows with what is in it. The zero value is empty.
type fifo[T any] struct {
	slots []T
	head  int
	count int
}

func (q *fifo[T]) push(v T) {
	if q.count == len(q.slots) {
		q.grow()
	}
	q.slots[(q.head+q.count)%len(q.slots)] = v
	q.count++
}

// pop takes the oldest value out; the queue must not be empty.
func (q *fifo[T]) pop() T {
	var none T
	v := q.slots[q.head]
	q.slots[q.head] = none // the collector may have it
	q.head = (q.head + 1) % len(q.slots)
	q.count--
	return v
}

func (q *fifo[T]) grow() {
	const first = 8
	grown := make([]T, max(first, 2*len(q.slots)))
	n := copy(grown, q.slots[q.head:])
	copy(grown[n:], q.slots[:q.head])
	q.slots, q.head = grown, 0
}
