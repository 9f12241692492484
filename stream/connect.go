package stream

import (
	"cmp"
	"context"
	"errors"
	"io"
	"iter"
)

// Stream is the reading end of a source or stage that runs in a pipeline. It has one consumer: a stage, a sink, an
// adapter or a loop, chosen once. A second one is a mistake and panics.
type Stream[T any] struct {
	pipeline *Pipeline
	queue    *Queue[T]
	stop     context.CancelCauseFunc // ends the context of the stage that fills queue
	done     <-chan struct{}         // closed when that stage, and all in front of it, have ended
	consumed bool
}

// Then starts a stage behind s. When the stage ends, so does everything in front of it.
func Then[I, O any](s *Stream[I], name string, stage Stage[I, O]) *Stream[O] {
	return behind(s, name, func(ctx context.Context, in *Queue[I], out *Queue[O]) error {
		return run(ctx, name, stage, in, out)
	})
}

// Sink starts a stage at the end of s: f gets every item until it fails or the stream ends. Pipeline.Wait reports how
// it went. ErrStopped from f stops what is in front of s without an error.
func Sink[T any](s *Stream[T], name string, f func(context.Context, T) error) {
	atEnd(s, name, func(ctx context.Context, in *Queue[T]) error {
		return consume(ctx, in, func(v T) error { return named(name, f(ctx, v)) })
	})
}

// Each calls f for every item of s, on the calling goroutine, until f fails or the stream ends; then everything in
// front of s has ended. It returns the error of f, which also ends the pipeline, or that of the stream, or nil after a
// clean end. ErrStopped from f stops what is in front of s without an error.
func Each[T any](s *Stream[T], f func(context.Context, T) error) error {
	in := s.consume()
	reason := ErrStopped // stays if f panics
	defer func() { s.leave(reason) }()
	var refused error
	err := consume(s.pipeline.ctx, in, func(v T) error {
		refused = f(s.pipeline.ctx, v)
		return refused
	})
	if errors.Is(refused, ErrStopped) {
		return nil
	}
	s.pipeline.fail(refused)
	reason = cmp.Or(err, ErrStopped)
	return err
}

// All gives the items of s, to be ranged over once. An error is the last pair and has no item; without one the stream
// was complete. Whoever breaks out of the loop, returns or panics stops everything in front of s; the loop is left when
// all that has ended. The context of the pipeline ends the loop, too, with its cause as the error.
func (s *Stream[T]) All() iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		err := Each(s, func(_ context.Context, v T) error {
			if !yield(v, nil) {
				return ErrStopped
			}
			return nil
		})
		if err != nil {
			var none T
			yield(none, err)
		}
	}
}

// consume makes the caller the consumer of s.
func (s *Stream[T]) consume() *Queue[T] {
	if s.consumed {
		panic("stream: a second consumer of one stream")
	}
	s.consumed = true
	return s.queue
}

// leave stops what is in front of s, and waits for it. After a clean end there is nothing to stop.
func (s *Stream[T]) leave(reason error) {
	s.queue.Fail(reason)
	s.stop(reason)
	<-s.done
}

// produce starts a stage that fills a queue, and returns its reading end. f need not end the queue.
func produce[T any](p *Pipeline, name string, f func(ctx context.Context, out *Queue[T]) error) *Stream[T] {
	ctx, stop := context.WithCancelCause(p.ctx)
	done := make(chan struct{})
	out := NewQueue[T](p.queueItems, 0, nil)
	p.start(ctx, name, func(ctx context.Context) error { return f(ctx, out) }, func(err error) {
		out.Close(err)
		stop(ErrStopped)
		close(done)
	})
	return &Stream[T]{pipeline: p, queue: out, stop: stop, done: done}
}

// behind starts a stage between s and a new stream. It has ended when all in front of it has.
func behind[I, O any](s *Stream[I], name string, f func(context.Context, *Queue[I], *Queue[O]) error) *Stream[O] {
	in := s.consume()
	return produce(s.pipeline, name, func(ctx context.Context, out *Queue[O]) (err error) {
		defer func() { s.leave(cmp.Or(err, ErrStopped)) }()
		err = f(ctx, in, out)
		out.Close(err) // before leave waits: the consumer need not wait for it
		return err
	})
}

// atEnd starts a stage that only consumes.
func atEnd[T any](s *Stream[T], name string, f func(context.Context, *Queue[T]) error) {
	in := s.consume()
	s.pipeline.start(s.pipeline.ctx, name, func(ctx context.Context) (err error) {
		defer func() { s.leave(cmp.Or(err, ErrStopped)) }()
		return f(ctx, in)
	}, func(error) {})
}

// consume calls f for every item of in. It returns nil after a clean end.
func consume[T any](ctx context.Context, in *Queue[T], f func(T) error) error {
	var items []T
	for {
		var err error
		if items, err = in.TakeAll(ctx, items); err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		for _, v := range items {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			if err := f(v); err != nil {
				if ctx.Err() != nil {
					return context.Cause(ctx) // what f says now is a consequence
				}
				return err
			}
		}
	}
}
