package stream

import (
	"context"
	"iter"
	"time"
)

// Stage is one step of a pipeline: a synchronous core that a test can call directly. Step deals with one input and
// emits any number of outputs. It may block, under a context it has been given; see [Blocking]. An error of
// emit must be returned, or at least ends the stage; emit must not be called after Step has returned, nor from another
// goroutine.
//
// An error ends the stage; ErrStopped ends it cleanly, as if the input had ended, without a flush.
//
// A stage usually has state, so it belongs to one Run. What it emits is not touched again by it or the pipeline.
type Stage[I, O any] interface {
	Step(in I, emit func(O) error) error
}

// Flusher is a Stage that has something to say at the clean end of its input. It is not called after an error.
type Flusher[O any] interface {
	Flush(emit func(O) error) error
}

// Timed is a Stage that acts on its own when time passes. Deadline is asked before the stage waits for input; at that
// time, if no input came, Expire is called. The zero time means never. While input is there, Expire is not called: a
// stage that must be exact looks at the clock in Step as well.
type Timed[O any] interface {
	Deadline() time.Time
	Expire(now time.Time, emit func(O) error) error
}

// Ender is a Stage that holds something to be released, or wants to know. End is called once, after everything else,
// however its Run ends: with nil after a clean end, else with the error or the cause that ended it.
type Ender interface {
	End(err error)
}

// Blocking is a Stage that waits in Step for something else than emit, as for credit that comes back for what it has
// emitted. Run gives it the context that must end such a wait, before the first Step, and hands its outputs over one by
// one: gathered ones would wait for a step that may be waiting for them.
type Blocking interface {
	Begin(ctx context.Context)
}

// StageFunc is a function as a Stage.
type StageFunc[I, O any] func(in I, emit func(O) error) error

// Step calls f.
func (f StageFunc[I, O]) Step(in I, emit func(O) error) error { return f(in, emit) }

// Map is a stage with one output per input.
func Map[I, O any](f func(I) (O, error)) Stage[I, O] {
	return StageFunc[I, O](func(in I, emit func(O) error) error {
		out, err := f(in)
		if err != nil {
			return err
		}
		return emit(out)
	})
}

// Filter is a stage that lets through what keep says yes to.
func Filter[T any](keep func(T) bool) Stage[T, T] {
	return StageFunc[T, T](func(in T, emit func(T) error) error {
		if !keep(in) {
			return nil
		}
		return emit(in)
	})
}

// FlatMap is a stage with any number of outputs per input, up to the first error of the sequence.
func FlatMap[I, O any](f func(I) iter.Seq2[O, error]) Stage[I, O] {
	return StageFunc[I, O](func(in I, emit func(O) error) error {
		for out, err := range f(in) {
			if err != nil {
				return err
			}
			if err := emit(out); err != nil {
				return err
			}
		}
		return nil
	})
}

// Take is a stage that lets through the first n values and then ends the stream cleanly; what is in front of it is
// stopped at once, not at the next value.
func Take[T any](n int) Stage[T, T] {
	return StageFunc[T, T](func(in T, emit func(T) error) error {
		if n > 0 {
			n--
			if err := emit(in); err != nil {
				return err
			}
		}
		if n <= 0 {
			return ErrStopped
		}
		return nil
	})
}
