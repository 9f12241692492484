package stream_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/stream"
)

func TestRunEnds(t *testing.T) {
	consequence := errors.New("a consequence")

	t.Run("a stage that stops ends both sides cleanly", func(t *testing.T) {
		in, out := weightless(8), weightless(8)
		require.NoError(t, in.Put(t.Context(), 1, 2, 3))
		require.NoError(t, stream.Run(t.Context(), stream.Take[int](2), in, out))
		require.Equal(t, stream.ErrStopped, in.Err())
		require.Equal(t, io.EOF, out.Err())
		got, _ := out.TryTakeAll(nil)
		require.Equal(t, []int{1, 2}, got)
	})
	t.Run("F1 no step follows a lost output, even if the stage keeps quiet about it", func(t *testing.T) {
		in, out := weightless(8), weightless(8)
		require.NoError(t, in.Put(t.Context(), 1, 2))
		out.Fail(errBoom)
		steps := 0
		deaf := stream.StageFunc[int, int](func(v int, emit func(int) error) error {
			steps++
			for range 1000 {
				_ = emit(v)
			}
			return nil
		})
		require.Equal(t, errBoom, stream.Run(t.Context(), deaf, in, out))
		require.Equal(t, 1, steps)
		require.Equal(t, errBoom, in.Err())
	})
	t.Run("F1 no step follows the end of the context, and its cause counts", func(t *testing.T) {
		for _, says := range []error{nil, consequence} {
			in, out := weightless(8), weightless(8)
			require.NoError(t, in.Put(t.Context(), 1, 2))
			ctx, cancel := context.WithCancelCause(t.Context())
			steps := 0
			require.Equal(t, errBoom, stream.Run(ctx, stream.StageFunc[int, int](func(int, func(int) error) error {
				steps++
				cancel(errBoom)
				return says
			}), in, out))
			require.Equal(t, 1, steps)
			require.Equal(t, errBoom, out.Err())
		}
	})
	t.Run("what a source says after its stop is a consequence", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		first := true
		source := stream.FromFunc(p, "source", func(ctx context.Context) (int, error) {
			if first {
				first = false
				return 1, nil
			}
			<-ctx.Done()
			return 0, consequence
		})
		sinkAll(stream.Then(source, "take", stream.Take[int](1)))
		require.NoError(t, p.Wait())
	})
	t.Run("F1 a loop that is left is left when everything in front of it has ended", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			p := stream.NewPipeline(t.Context())
			source := stream.FromSeq(p, "source", func(yield func(int, error) bool) {
				for yield(1, nil) {
				}
				time.Sleep(time.Hour) // takes its time to end
			})
			for range stream.Then(source, "same", stream.Map(same)).All() {
				break
			}
			require.Equal(t, time.Hour, time.Since(begin))
			require.NoError(t, p.Wait())
		})
	})
	t.Run("F1 a loop that is left fails the queue it read from", func(t *testing.T) {
		q := weightless(4)
		require.NoError(t, q.Put(t.Context(), 1, 2))
		p := stream.NewPipeline(t.Context())
		for range stream.FromQueue(p, q).All() {
			break
		}
		require.Equal(t, stream.ErrStopped, q.Put(t.Context(), 3))
		require.NoError(t, p.Wait())
	})
}

// ending tells its End what it was told.
type ending struct {
	stream.Stage[int, int]
	told []error
}

func (e *ending) End(err error) { e.told = append(e.told, err) }

func TestRunTellsTheStageOnceHowItEnded(t *testing.T) {
	fails := stream.Map(func(int) (int, error) { return 0, errBoom })
	for name, c := range map[string]struct {
		stage stream.Stage[int, int]
		end   error
		want  error
	}{
		"clean end":                 {stream.Map(same), nil, nil},
		"it stopped":                {stream.Take[int](1), nil, nil},
		"it failed":                 {fails, nil, errBoom},
		"the input ended badly":     {stream.Map(same), io.ErrUnexpectedEOF, io.ErrUnexpectedEOF},
		"it ended before the input": {fails, io.ErrUnexpectedEOF, errBoom},
	} {
		in, out := weightless(8), weightless(8)
		require.NoError(t, in.Put(t.Context(), 1))
		in.Close(c.end)
		e := &ending{Stage: c.stage}
		require.Equal(t, c.want, stream.Run(t.Context(), stream.Stage[int, int](e), in, out), name)
		require.Equal(t, []error{c.want}, e.told, name)
	}
}

func TestRunHandsOverWhatSlowStepsLeftBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in, out := weightless(20), weightless(20)
		for v := range 20 { // all in one hand
			require.True(t, in.TryPut(v))
		}
		in.Close(nil)
		done := make(chan error, 1)
		begin := time.Now()
		go func() {
			done <- stream.Run(t.Context(), stream.StageFunc[int, int](func(v int, emit func(int) error) error {
				if v < 2 {
					return emit(v) // the first is handed over at once, the second is not
				}
				time.Sleep(time.Second)
				return nil
			}), in, out)
		}()
		var got []int
		for len(got) < 2 {
			more, err := out.TakeAll(t.Context(), nil)
			require.NoError(t, err)
			got = append(got, more...)
		}
		require.Equal(t, time.Second, time.Since(begin), "waited for steps that had nothing to do with it")
		require.NoError(t, <-done)
	})
}
