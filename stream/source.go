package stream

import (
	"context"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"
)

// Grace is how long the package waits for foreign code after it has asked it to end: a reader that was closed, a
// go-streams topology whose source was stopped. After that the pipeline ends without it, and the foreign goroutines stay
// where they are.
const Grace = time.Second

// briefly is enough for a goroutine that is not blocked to end, and too short to be noticed if it is.
const briefly = 10 * time.Millisecond

// FromSeq starts a source that puts the values of a sequence, up to its end or its first error. A sequence that waits
// for something must itself watch the context of the pipeline: nobody else can end it.
func FromSeq[T any](p *Pipeline, name string, seq iter.Seq2[T, error]) *Stream[T] {
	return produce(p, name, func(ctx context.Context, out *Queue[T]) error {
		for v, err := range seq {
			if err != nil {
				return err
			}
			if err := out.Put(ctx, v); err != nil {
				return err
			}
		}
		return nil
	})
}

// FromFunc starts a source that puts what next returns, until it returns an error; io.EOF is a clean end. next gets the
// context of the source and must return when that ends.
func FromFunc[T any](p *Pipeline, name string, next func(context.Context) (T, error)) *Stream[T] {
	return produce(p, name, func(ctx context.Context, out *Queue[T]) error {
		for {
			v, err := next(ctx)
			if err == io.EOF {
				return nil
			}
			if err != nil {
				return err
			}
			if err := out.Put(ctx, v); err != nil {
				return err
			}
		}
	})
}

// FromQueue makes the reading end of a queue, that somebody else puts to, a stream of the pipeline. When the consumer
// leaves early, the queue fails with the cause, so the next Put tells whoever fills it.
func FromQueue[T any](p *Pipeline, q *Queue[T]) *Stream[T] {
	done := make(chan struct{})
	close(done) // nothing of ours runs in front of it
	return &Stream[T]{pipeline: p, queue: q, stop: func(error) {}, done: done}
}

// FromReader starts a source that puts what each Read gives, at most size bytes (at least 1, else it panics), as a slice
// that belongs to the consumer. Bytes that come with an error come before it; io.EOF is a clean end.
//
// A Read that waits is released by closing the reader, if it can be closed: when the stream is stopped before its end,
// a reader that is an io.Closer is closed, and only then. A reader that cannot be closed, or stays in Read for longer
// than Grace although it has been, costs its one goroutine until Read returns; the pipeline ends without it.
func FromReader(p *Pipeline, name string, r io.Reader, size int) *Stream[[]byte] {
	if size < 1 {
		panic(fmt.Sprintf("stream: reads of %d bytes, want at least 1", size))
	}
	return produce(p, name, func(ctx context.Context, out *Queue[[]byte]) error {
		result := background(func() error { return readAll(ctx, r, size, out) })
		select {
		case err := <-result:
			return err
		case <-ctx.Done():
		}
		patience := briefly
		if closer, ok := r.(io.Closer); ok {
			_ = closer.Close() // it is to release the Read; how it went does not matter
			patience = Grace
		}
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case <-result:
		case <-timer.C: // the reader does not let us join it
		}
		return context.Cause(ctx)
	})
}

// readAll puts everything r has.
func readAll(ctx context.Context, r io.Reader, size int, out *Queue[[]byte]) error {
	buf := make([]byte, size)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			chunk := buf[:n]
			if n < size { // copied, so that a small read does not keep a large buffer
				chunk = slices.Clone(chunk)
			} else {
				buf = make([]byte, size)
			}
			if err := out.Put(ctx, chunk); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
