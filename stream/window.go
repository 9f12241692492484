package stream

import "time"

// Tumbling is a stage that groups values by the time they reach it: time is cut into windows of the given period,
// counted from the first value, and every window in which something came becomes a group when it is over. The last one
// goes out at the end of the input without waiting. A group of maxItems goes out early; 0 means no limit, and then what
// comes in one period has to fit in memory. A group belongs to its receiver. A period that is not positive panics.
func Tumbling[T any](period time.Duration, maxItems int) Stage[T, []T] {
	if period <= 0 {
		panic("stream: tumbling window without a period")
	}
	return &tumbling[T]{batch: batch[T]{n: maxItems}, period: period}
}

type tumbling[T any] struct {
	batch[T]
	period time.Duration
	origin time.Time // of the grid of windows: when the first value came
}

func (w *tumbling[T]) Step(in T, emit func([]T) error) error {
	now := time.Now()
	if w.origin.IsZero() {
		w.origin = now
	}
	if len(w.group) > 0 && !now.Before(w.deadline) { // came after its window, while the stage was busy
		if err := w.Flush(emit); err != nil {
			return err
		}
	}
	if len(w.group) == 0 {
		w.deadline = w.origin.Add((now.Sub(w.origin)/w.period + 1) * w.period)
	}
	w.group = append(w.group, in)
	if len(w.group) == w.n {
		return w.Flush(emit)
	}
	return nil
}

// Session is a stage that groups values that follow each other closely: a group is over when nothing came for the gap,
// and at the end of the input. The stage sees values when it is free to take them: one that came during a long emit
// continues the session, however long that took. A group of maxItems goes out early; 0 means no limit, and then a session
// has to fit in memory. A group belongs to its receiver. A gap that is not positive panics.
func Session[T any](gap time.Duration, maxItems int) Stage[T, []T] {
	if gap <= 0 {
		panic("stream: session window without a gap")
	}
	return &session[T]{batch: batch[T]{n: maxItems}, gap: gap}
}

type session[T any] struct {
	batch[T]
	gap time.Duration
}

func (s *session[T]) Step(in T, emit func([]T) error) error {
	s.group = append(s.group, in)
	if len(s.group) == s.n {
		return s.Flush(emit)
	}
	s.deadline = time.Now().Add(s.gap)
	return nil
}
