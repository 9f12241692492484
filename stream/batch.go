package stream

import "time"

// Batch is a stage that joins values into groups of n. A group that is not full goes out when period has passed since
// its first value, and at the end of the input. n 0 or less means no limit of the size, period 0 or less none of the
// time; with neither there is one group in the end. A group belongs to its receiver.
func Batch[T any](n int, period time.Duration) Stage[T, []T] {
	return &batch[T]{n: n, period: period}
}

// batch also is the common part of the other groupings: they differ in when a group is over.
type batch[T any] struct {
	n        int
	period   time.Duration
	group    []T
	deadline time.Time // of group; zero for none
}

func (b *batch[T]) Step(in T, emit func([]T) error) error {
	if len(b.group) == 0 && b.period > 0 {
		b.deadline = time.Now().Add(b.period)
	}
	b.group = append(b.group, in)
	// A busy stage never waits, so it has to look at the clock here.
	if len(b.group) == b.n || !b.deadline.IsZero() && !time.Now().Before(b.deadline) {
		return b.Flush(emit)
	}
	return nil
}

func (b *batch[T]) Deadline() time.Time { return b.deadline }

func (b *batch[T]) Expire(_ time.Time, emit func([]T) error) error { return b.Flush(emit) }

// Flush emits the group if there is one, and begins anew.
func (b *batch[T]) Flush(emit func([]T) error) error {
	group := b.group
	b.group, b.deadline = nil, time.Time{}
	if len(group) == 0 {
		return nil
	}
	return emit(group)
}
