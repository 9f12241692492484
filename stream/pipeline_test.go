package stream_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/stream"
)

// count is the sequence 0 … n-1.
func count(n int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for v := range n {
			if !yield(v, nil) {
				return
			}
		}
	}
}

// same lets values through.
func same(v int) (int, error) { return v, nil }

// collect reads a stream to its end.
func collect[T any](s *stream.Stream[T]) (all []T, err error) {
	for v, err := range s.All() {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

func TestPipelineCarriesEverythingInOrder(t *testing.T) {
	for _, size := range []int{1, 2, 64} {
		p := stream.NewPipeline(t.Context(), stream.WithQueueItems(size))
		numbers := stream.FromSeq(p, "numbers", count(10_000))
		even := stream.Then(numbers, "even", stream.Filter(func(v int) bool { return v%2 == 0 }))
		twice := stream.Then(even, "twice", stream.FlatMap(func(v int) iter.Seq2[int, error] {
			return func(yield func(int, error) bool) { _ = yield(v, nil) && yield(v+1, nil) }
		}))
		text := stream.Then(twice, "text", stream.Map(func(v int) (string, error) { return fmt.Sprint(v), nil }))
		got, err := collect(text)
		require.NoError(t, err)
		require.NoError(t, p.Wait())
		require.Len(t, got, 10_000)
		for i, v := range got {
			require.Equal(t, fmt.Sprint(i), v)
		}
	}
}

func TestPipelineErrors(t *testing.T) {
	t.Run("R-4.29 an error of a stage comes after what was emitted before it", func(t *testing.T) {
		in, out := weightless(8), weightless(8)
		require.NoError(t, in.Put(t.Context(), 0, 1, 2, 3, 4))
		err := stream.Run(t.Context(), stream.Map(func(v int) (int, error) {
			if v == 3 {
				return 0, errBoom
			}
			return v, nil
		}), in, out)
		require.Equal(t, errBoom, err)
		got, err := out.TakeAll(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, []int{0, 1, 2}, got)
		_, err = out.TakeAll(t.Context(), nil)
		require.Equal(t, errBoom, err)
		require.Equal(t, errBoom, in.Err(), "upstream learns")
	})
	t.Run("R-4.29 an error of the input passes through, after the rest and without a flush", func(t *testing.T) {
		in, out := weightless(8), stream.NewQueue[[]int](8, 0, nil)
		require.NoError(t, in.Put(t.Context(), 0, 1, 2))
		in.Close(errBoom)
		require.Equal(t, errBoom, stream.Run(t.Context(), stream.Batch[int](2, 0), in, out))
		got, err := out.TakeAll(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, [][]int{{0, 1}}, got)
		require.Equal(t, errBoom, out.Err())
	})
	t.Run("the first error ends everything with itself as the cause and names its stage", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := stream.NewPipeline(t.Context())
			var cause error
			p.Go("bystander", func(ctx context.Context) error {
				<-ctx.Done()
				cause = context.Cause(ctx)
				return errors.New("a consequence")
			})
			numbers := stream.FromSeq(p, "numbers", count(1<<40))
			bad := stream.Then(numbers, "bad", stream.Map(func(v int) (int, error) {
				if v == 500 {
					return 0, errBoom
				}
				return v, nil
			}))
			_, err := collect(stream.Then(bad, "after", stream.Map(same)))
			require.ErrorIs(t, err, errBoom)
			err = p.Wait()
			require.EqualError(t, err, "stage bad: boom")
			require.Equal(t, err, cause)
		})
	})
	t.Run("a sink reports through Wait", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		stream.Sink(stream.FromSeq(p, "numbers", count(1<<40)), "sink", func(_ context.Context, v int) error {
			if v == 100 {
				return errBoom
			}
			return nil
		})
		require.EqualError(t, p.Wait(), "stage sink: boom")
	})
	t.Run("an error of the loop ends the pipeline", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		s := stream.FromSeq(p, "numbers", count(1<<40))
		require.Equal(t, errBoom, stream.Each(s, func(context.Context, int) error { return errBoom }))
		require.Equal(t, errBoom, p.Wait())
	})
	t.Run("the end of the parent context is the result", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		p := stream.NewPipeline(ctx)
		s := stream.FromSeq(p, "numbers", count(1<<40))
		n := 0
		err := stream.Each(s, func(context.Context, int) error {
			if n++; n == 100 {
				cancel(errBoom)
			}
			return nil
		})
		require.Equal(t, errBoom, err)
		require.Equal(t, errBoom, p.Wait())
	})
}

func TestPipelinePanics(t *testing.T) {
	explode := func(v int) (int, error) {
		if v == 5 {
			panic(errBoom)
		}
		return v, nil
	}
	t.Run("R-6.90 a panic becomes an error with a stack", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		_, err := collect(stream.Then(stream.FromSeq(p, "numbers", count(1<<40)), "bad", stream.Map(explode)))
		require.ErrorIs(t, err, errBoom)
		err = p.Wait()
		require.EqualError(t, err, "stage bad: panic: boom")
		var panicked *stream.PanicError
		require.ErrorAs(t, err, &panicked)
		assert.Contains(t, string(panicked.Stack), "TestPipelinePanics")
	})
	t.Run("in every kind of function", func(t *testing.T) {
		for name, start := range map[string]func(*stream.Pipeline){
			"go": func(p *stream.Pipeline) { p.Go("bad", func(context.Context) error { panic("text") }) },
			"seq": func(p *stream.Pipeline) {
				sinkAll(stream.FromSeq(p, "bad", func(func(int, error) bool) { panic("text") }))
			},
			"func": func(p *stream.Pipeline) {
				sinkAll(stream.FromFunc(p, "bad", func(context.Context) (int, error) { panic("text") }))
			},
			"sink": func(p *stream.Pipeline) {
				stream.Sink(stream.FromSeq(p, "numbers", count(3)), "bad", func(context.Context, int) error { panic("text") })
			},
			"reader": func(p *stream.Pipeline) { sinkAll(stream.FromReader(p, "bad", panicReader{}, 16)) },
			"expire": func(p *stream.Pipeline) {
				sinkAll(stream.Then(stream.FromFunc(p, "silence", silence), "bad", stream.Stage[int, int](panicStage{})))
			},
		} {
			p := stream.NewPipeline(t.Context())
			start(p)
			require.EqualError(t, p.Wait(), "stage bad: panic: text", name)
		}
	})
	t.Run("a stage that ends its goroutine is an error too", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		_, err := collect(stream.Then(stream.FromSeq(p, "numbers", count(100)), "bad", stream.Map(func(int) (int, error) {
			runtime.Goexit()
			return 0, nil
		})))
		require.ErrorIs(t, err, stream.ErrGoexit)
		require.EqualError(t, p.Wait(), "stage bad: goroutine was ended by runtime.Goexit")
	})
	t.Run("a panic after the stop is not kept quiet", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		p.Go("bad", func(ctx context.Context) error {
			<-ctx.Done()
			panic("late")
		})
		p.Stop()
		require.EqualError(t, p.Wait(), "stage bad: panic: late")
	})
	t.Run("F1 a panic in the loop goes on after everything has ended", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		s := stream.FromSeq(p, "numbers", count(1<<40))
		require.PanicsWithValue(t, "mine", func() {
			for range s.All() {
				panic("mine")
			}
		})
		require.NoError(t, p.Wait())
	})
	t.Run("a second consumer", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		s := stream.FromSeq(p, "numbers", count(1))
		sinkAll(s)
		require.PanicsWithValue(t, "stream: a second consumer of one stream", func() { sinkAll(s) })
		require.NoError(t, p.Wait())
	})
	t.Run("impossible sizes", func(t *testing.T) {
		require.Panics(t, func() { stream.WithQueueItems(0) })
		require.Panics(t, func() { stream.FromReader(stream.NewPipeline(t.Context()), "r", strings.NewReader(""), 0) })
		require.Panics(t, func() { stream.Tumbling[int](0, 1) })
		require.Panics(t, func() { stream.Session[int](0, 1) })
	})
}

func sinkAll[T any](s *stream.Stream[T]) {
	stream.Sink(s, "sink", func(context.Context, T) error { return nil })
}

// silence is a source of nothing.
func silence(ctx context.Context) (int, error) {
	<-ctx.Done()
	return 0, context.Cause(ctx)
}

type panicReader struct{}

func (panicReader) Read([]byte) (int, error) { panic("text") }

// panicStage panics in Expire, which it asks for at once.
type panicStage struct{}

func (panicStage) Step(int, func(int) error) error         { return nil }
func (panicStage) Deadline() time.Time                     { return time.Now() }
func (panicStage) Expire(time.Time, func(int) error) error { panic("text") }

func TestPipelineHandsOverInTime(t *testing.T) {
	t.Run("an output waits for a slow step, not for the whole batch", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := stream.NewPipeline(t.Context())
			slow := stream.Then(stream.FromSeq(p, "numbers", count(20)), "slow", stream.Map(func(v int) (int, error) {
				time.Sleep(time.Second) // the work, in the clock of the test
				return v, nil
			}))
			begin := time.Now()
			for v, err := range slow.All() {
				require.NoError(t, err)
				require.Equal(t, time.Duration(v+1)*time.Second, time.Since(begin))
			}
			require.NoError(t, p.Wait())
		})
	})
	t.Run("an output of a long step does not wait for its end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := stream.NewPipeline(t.Context())
			long := stream.Then(stream.FromSeq(p, "one", count(1)), "long", stream.StageFunc[int, int](
				func(_ int, emit func(int) error) error {
					for v := range 20 {
						time.Sleep(time.Second)
						if err := emit(v); err != nil {
							return err
						}
					}
					return nil
				}))
			begin := time.Now()
			for v, err := range long.All() {
				require.NoError(t, err)
				require.Equal(t, time.Duration(v+1)*time.Second, time.Since(begin))
			}
			require.NoError(t, p.Wait())
		})
	})
}

func TestTakeStopsWhatIsInFront(t *testing.T) {
	for _, n := range []int{0, 1, 100} {
		p := stream.NewPipeline(t.Context())
		var cause error
		source := stream.FromFunc(p, "source", func(ctx context.Context) (int, error) {
			if ctx.Err() != nil {
				cause = context.Cause(ctx)
			}
			return 1, ctx.Err()
		})
		var got int
		stream.Sink(stream.Then(source, "take", stream.Take[int](n)), "sink", func(context.Context, int) error {
			got++
			return nil
		})
		require.NoError(t, p.Wait())
		require.Equal(t, n, got)
		if cause != nil { // it may have been stopped in its Put
			require.Equal(t, stream.ErrStopped, cause)
		}
	}
	t.Run("F1 also a source that waits for something else", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		r, w := io.Pipe()
		defer w.Close()
		s := stream.Then(stream.FromReader(p, "reader", r, 8), "take", stream.Take[[]byte](1))
		go func() { _, _ = w.Write([]byte("12345678")) }()
		var got []byte
		stream.Sink(s, "sink", func(_ context.Context, b []byte) error { got = b; return nil })
		require.NoError(t, p.Wait())
		require.Equal(t, "12345678", string(got))
	})
}

func TestFromQueue(t *testing.T) {
	q := weightless(4)
	p := stream.NewPipeline(t.Context())
	s := stream.Then(stream.FromQueue(p, q), "same", stream.Map(same))
	var putErr error
	var wg sync.WaitGroup
	wg.Go(func() {
		for putErr == nil {
			putErr = q.Put(t.Context(), 1)
		}
	})
	for _, err := range s.All() {
		require.NoError(t, err)
		break
	}
	require.NoError(t, p.Wait())
	wg.Wait()
	require.Equal(t, stream.ErrStopped, putErr)
}
