package stream_test

import (
	"context"
	"io"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/stream"
)

// witness remembers how sources and stages were ended.
type witness struct {
	mu     sync.Mutex
	causes map[string]error
}

func (w *witness) saw(name string, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.causes == nil {
		w.causes = map[string]error{}
	}
	w.causes[name] = cause
}

// stage starts a stage that passes values on.
func (w *witness) stage(s *stream.Stream[int], name string) *stream.Stream[int] {
	return stream.Then(s, name, stream.Stage[int, int](&passing{w, name}))
}

type passing struct {
	w    *witness
	name string
}

func (s *passing) Step(v int, emit func(int) error) error { return emit(v) }
func (s *passing) End(err error)                          { s.w.saw(s.name, err) }

// source starts a source of n values that then waits for its context.
func (w *witness) source(p *stream.Pipeline, n int) *stream.Stream[int] {
	next := 0
	return stream.FromFunc(p, "source", func(ctx context.Context) (int, error) {
		if next == n {
			<-ctx.Done()
		}
		if ctx.Err() != nil {
			w.saw("source", context.Cause(ctx))
			return 0, context.Cause(ctx)
		}
		next++
		return next - 1, nil
	})
}

// ways are the ways in which a consumer leaves after one item. Each returns the cause that the stages must see.
var ways = map[string]func(t *testing.T, cancel context.CancelCauseFunc, s *stream.Stream[int]) error{
	"F1 it returns an error": func(t *testing.T, _ context.CancelCauseFunc, s *stream.Stream[int]) error {
		require.Equal(t, errBoom, stream.Each(s, func(context.Context, int) error { return errBoom }))
		return errBoom
	},
	"F1 it wants no more": func(t *testing.T, _ context.CancelCauseFunc, s *stream.Stream[int]) error {
		require.NoError(t, stream.Each(s, func(context.Context, int) error { return stream.ErrStopped }))
		return stream.ErrStopped
	},
	"F1 it breaks out of the loop": func(t *testing.T, _ context.CancelCauseFunc, s *stream.Stream[int]) error {
		for v, err := range s.All() {
			require.NoError(t, err)
			require.Zero(t, v)
			break
		}
		return stream.ErrStopped
	},
	"F1 it returns out of the loop": func(t *testing.T, _ context.CancelCauseFunc, s *stream.Stream[int]) error {
		func() {
			for range s.All() {
				return
			}
		}()
		return stream.ErrStopped
	},
	"F1 its context ends": func(t *testing.T, cancel context.CancelCauseFunc, s *stream.Stream[int]) error {
		var last error
		for _, err := range s.All() {
			last = err
			cancel(errBoom)
		}
		require.Equal(t, errBoom, last)
		return errBoom
	},
}

// Four stages, 10 000 items, the consumer takes one: all have ended when the loop is left, and all know why.
func TestF1_TheConsumerLeavesFirst(t *testing.T) {
	for name, leave := range ways {
		t.Run(name, func(t *testing.T) {
			for _, items := range []int{1, 10_000} { // the source waits for input, or the stages wait in their sends
				before := goleak.IgnoreCurrent()
				ctx, cancel := context.WithCancelCause(t.Context())
				p := stream.NewPipeline(ctx, stream.WithQueueItems(2))
				var w witness
				s := w.source(p, items)
				for _, stage := range []string{"one", "two", "three"} {
					s = w.stage(s, stage)
				}
				want := leave(t, cancel, s)
				require.NoError(t, goleak.Find(before), "joined, without waiting for the pipeline")
				if err := p.Wait(); want == stream.ErrStopped {
					require.NoError(t, err)
				} else {
					require.Equal(t, want, err)
				}
				stages := []string{"one", "two", "three"}
				if items == 1 {
					stages = append(stages, "source") // it was blocked in its read; else it may be in its Put
				}
				for _, stage := range stages {
					require.Contains(t, w.causes, stage)
					assert.Equal(t, want, w.causes[stage], "%s with %d items", stage, items)
				}
				cancel(nil)
			}
		})
	}
}

// Every stage that waits when the pipeline is cancelled sees the cause, whatever it waits for.
func TestF1_EveryStageSeesTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		p := stream.NewPipeline(ctx, stream.WithQueueItems(1))
		var w witness
		s := w.source(p, 10_000)
		names := []string{"one", "two", "three", "four"}
		for _, stage := range names {
			s = w.stage(s, stage)
		}
		stream.Sink(s, "sink", func(ctx context.Context, _ int) error {
			<-ctx.Done()
			w.saw("sink", context.Cause(ctx))
			return ctx.Err()
		})
		synctest.Wait() // all queues are full
		cancel(errBoom)
		require.Equal(t, errBoom, p.Wait())
		for _, stage := range append(names, "sink") {
			assert.Equal(t, errBoom, w.causes[stage], stage)
		}
	})
}

// stubborn is a reader that stays in Read until it is let go.
type stubborn struct{ letGo chan struct{} }

func (s stubborn) Read([]byte) (int, error) {
	<-s.letGo
	return 0, io.ErrUnexpectedEOF
}

type stubbornCloser struct{ stubborn }

func (stubbornCloser) Close() error { return nil }

func TestF1_ASourceBlockedInReadIsReleased(t *testing.T) {
	t.Run("F1 a pipe of the system is closed", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		defer w.Close()
		p := stream.NewPipeline(t.Context())
		s := stream.FromReader(p, "stdin", r, 4096)
		_, err = w.Write([]byte("first"))
		require.NoError(t, err)
		for b, err := range s.All() {
			require.NoError(t, err)
			require.Equal(t, "first", string(b))
			break
		}
		require.NoError(t, p.Wait())
		_, err = r.Read(make([]byte, 1))
		require.ErrorIs(t, err, os.ErrClosed)
	})
	t.Run("F1 a reader that cannot be closed costs its goroutine and nothing else", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, r := range []io.Reader{stubborn{make(chan struct{})}, stubbornCloser{stubborn{make(chan struct{})}}} {
				begin := time.Now()
				p := stream.NewPipeline(t.Context())
				sinkAll(stream.FromReader(p, "reader", r, 16))
				synctest.Wait()
				p.Stop()
				require.NoError(t, p.Wait())
				require.LessOrEqual(t, time.Since(begin), stream.Grace)
				switch r := r.(type) {
				case stubborn:
					close(r.letGo)
				case stubbornCloser:
					close(r.letGo)
				}
				synctest.Wait()
			}
		})
	})
	t.Run("a reader that reaches its end is left open", func(t *testing.T) {
		for end, want := range map[error]string{io.EOF: "", errBoom: "stage reader: boom"} {
			r := &oneRead{data: "0123456789", end: end}
			p := stream.NewPipeline(t.Context())
			var got []byte
			stream.Sink(stream.FromReader(p, "reader", r, 4), "sink", func(_ context.Context, b []byte) error {
				got = append(got, b...)
				return nil
			})
			err := p.Wait()
			if want == "" {
				require.NoError(t, err)
				require.Equal(t, "0123456789", string(got), "bytes that come with the end count")
			} else {
				require.EqualError(t, err, want)
			}
			require.False(t, r.closed)
		}
	})
}

// oneRead gives its last bytes together with the end.
type oneRead struct {
	data   string
	end    error
	closed bool
}

func (r *oneRead) Read(p []byte) (int, error) {
	n := copy(p, r.data)
	r.data = r.data[n:]
	if r.data == "" {
		return n, r.end
	}
	return n, nil
}

func (r *oneRead) Close() error {
	r.closed = true
	return nil
}

// F3: what a reader source has given away stays as it was.
func TestF3_ChunksOfAReaderAreNotTouchedAgain(t *testing.T) {
	r, w := io.Pipe()
	go func() {
		for v := range 5000 {
			_, _ = w.Write([]byte{byte(v), byte(v >> 8), 1, 2, 3, 4, 5, 6}[:2+v%7])
		}
		_ = w.Close()
	}()
	p := stream.NewPipeline(t.Context())
	all, err := collect(stream.FromReader(p, "reader", r, 8))
	require.NoError(t, err)
	require.NoError(t, p.Wait())
	require.Len(t, all, 5000)
	for v, b := range all {
		require.Equal(t, []byte{byte(v), byte(v >> 8), 1, 2, 3, 4, 5, 6}[:2+v%7], b)
	}
}
