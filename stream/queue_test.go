package stream_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/stream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errBoom = errors.New("boom")

// weightless is a queue of ints bounded in items only.
func weightless(maxItems int) *stream.Queue[int] { return stream.NewQueue[int](maxItems, 0, nil) }

// byValue is a queue of ints that weigh what they are.
func byValue(maxItems int, maxWeight int64) *stream.Queue[int] {
	return stream.NewQueue(maxItems, maxWeight, func(v int) int64 { return int64(v) })
}

// later runs f on a goroutine and gives its error; synctest.Wait has been called, so f has got as far as it can.
func later(f func() error) <-chan error {
	done := make(chan error, 1)
	go func() { done <- f() }()
	synctest.Wait()
	return done
}

// pending says that later's function still waits.
func pending(t *testing.T, done <-chan error) {
	t.Helper()
	synctest.Wait()
	select {
	case err := <-done:
		require.Failf(t, "did not wait", "returned %v", err)
	default:
	}
}

func TestQueueHandsOver(t *testing.T) {
	t.Run("everything at once and in order", func(t *testing.T) {
		q := weightless(10)
		require.NoError(t, q.Put(t.Context(), 1, 2, 3))
		require.True(t, q.TryPut(4))
		require.NoError(t, q.Put(t.Context()))
		require.Equal(t, 4, q.Len())
		got, err := q.TakeAll(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, []int{1, 2, 3, 4}, got)
		require.Zero(t, q.Len())
	})
	t.Run("an item limit", func(t *testing.T) {
		q := weightless(2)
		assert.True(t, q.TryPut(1))
		assert.True(t, q.TryPut(2))
		assert.False(t, q.TryPut(3))
		got, ok := q.TryTakeAll(nil)
		assert.True(t, ok)
		assert.Equal(t, []int{1, 2}, got)
		got, ok = q.TryTakeAll(got)
		assert.False(t, ok)
		assert.Empty(t, got)
		assert.True(t, q.TryPut(3))
	})
	t.Run("a weight limit", func(t *testing.T) {
		q := byValue(100, 10)
		assert.True(t, q.TryPut(6))
		assert.False(t, q.TryPut(5))
		assert.True(t, q.TryPut(4))
		assert.False(t, q.TryPut(1))
		assert.EqualValues(t, 10, q.Weight())
		_, _ = q.TryTakeAll(nil)
		assert.Zero(t, q.Weight())
		assert.True(t, q.TryPut(11), "too heavy for any queue but an empty one")
		assert.False(t, q.TryPut(1))
	})
	t.Run("both buffers are used again and old items are forgotten", func(t *testing.T) {
		q := stream.NewQueue[*int](4, 0, nil)
		v := new(int)
		require.NoError(t, q.Put(t.Context(), v, v))
		first, err := q.TakeAll(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, q.Put(t.Context(), v))
		_, err = q.TakeAll(t.Context(), first)
		require.NoError(t, err)
		require.Equal(t, []*int{nil, nil}, first)
		require.True(t, q.TryPut(v))
		require.Same(t, v, first[0], "the emptied buffer is filled next")
	})
	t.Run("zero items is a mistake", func(t *testing.T) {
		assert.PanicsWithValue(t, "stream: queue of 0 items, want at least 1", func() { weightless(0) })
	})
}

func TestQueueWaits(t *testing.T) {
	t.Run("a taker until something is there", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q := weightless(4)
			var got []int
			done := later(func() (err error) { got, err = q.TakeAll(t.Context(), nil); return err })
			pending(t, done)
			require.True(t, q.TryPut(7))
			require.NoError(t, <-done)
			require.Equal(t, []int{7}, got)
		})
	})
	t.Run("putters in order of arrival, their runs in one piece", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q := weightless(2)
			first := later(func() error { return q.Put(t.Context(), 1, 2, 3, 4, 5) })
			second := later(func() error { return q.Put(t.Context(), 6, 7) })
			var all []int
			for range 4 {
				got, ok := q.TryTakeAll(nil)
				require.True(t, ok)
				require.False(t, len(all) == 0 && q.TryPut(99), "overtook the line")
				all = append(all, got...)
				synctest.Wait()
			}
			require.Equal(t, []int{1, 2, 3, 4, 5, 6, 7}, all)
			require.NoError(t, <-first)
			require.NoError(t, <-second)
		})
	})
	t.Run("a heavy item until the queue is empty enough", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q := byValue(10, 10)
			require.NoError(t, q.Put(t.Context(), 8))
			done := later(func() error { return q.Put(t.Context(), 5, 5, 1) })
			pending(t, done)
			got, _ := q.TryTakeAll(nil)
			require.Equal(t, []int{8}, got)
			pending(t, done) // 5 and 5 are in, 1 is not
			require.Equal(t, 2, q.Len())
			got, _ = q.TryTakeAll(nil)
			require.Equal(t, []int{5, 5}, got)
			require.NoError(t, <-done)
		})
	})
	t.Run("until the context ends, with its cause", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			q := weightless(1)
			ctx, cancel := context.WithCancelCause(t.Context())
			taking := later(func() error { _, err := q.TakeAll(ctx, nil); return err })
			cancel(errBoom)
			require.ErrorIs(t, <-taking, errBoom)

			ctx, cancel = context.WithCancelCause(t.Context())
			putting := later(func() error { return q.Put(ctx, 1, 2) })
			behind := later(func() error { return q.Put(t.Context(), 3) })
			cancel(errBoom)
			require.ErrorIs(t, <-putting, errBoom)
			pending(t, behind)
			got, _ := q.TryTakeAll(nil)
			require.Equal(t, []int{1}, got)
			require.NoError(t, <-behind, "the line moved on")

			require.ErrorIs(t, q.Put(ctx, 4), errBoom)
			_, err := q.TakeAll(ctx, nil)
			require.ErrorIs(t, err, errBoom, "although there is something to take")
			require.Equal(t, 1, q.Len())
		})
	})
}

func TestQueueF11CancelledWaiterPassesTheWakeUpOn(t *testing.T) {
	t.Run("F11 a taker", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for range 200 {
				q := weightless(4)
				ctx, cancel := context.WithCancelCause(t.Context())
				first := later(func() error { _, err := q.TakeAll(ctx, nil); return err })
				var got []int
				second := later(func() (err error) { got, err = q.TakeAll(t.Context(), nil); return err })
				cancel(errBoom)
				require.True(t, q.TryPut(1)) // wakes the first, which is on its way out
				require.ErrorIs(t, <-first, errBoom)
				require.NoError(t, <-second)
				require.Equal(t, []int{1}, got)
			}
		})
	})
	t.Run("F11 a putter", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for range 200 {
				q := weightless(1)
				require.True(t, q.TryPut(0))
				ctx, cancel := context.WithCancelCause(t.Context())
				first := later(func() error { return q.Put(ctx, 1) })
				second := later(func() error { return q.Put(t.Context(), 2) })
				cancel(errBoom)
				_, ok := q.TryTakeAll(nil)
				require.True(t, ok)
				require.ErrorIs(t, <-first, errBoom)
				require.NoError(t, <-second)
				got, ok := q.TryTakeAll(nil)
				require.True(t, ok)
				require.Equal(t, []int{2}, got)
			}
		})
	})
}

func TestQueueEnds(t *testing.T) {
	t.Run("R-4.29 a clean end comes after the rest", func(t *testing.T) {
		q := weightless(4)
		require.NoError(t, q.Err())
		require.NoError(t, q.Put(t.Context(), 1, 2))
		q.Close(nil)
		q.Close(errBoom) // the first counts
		require.ErrorIs(t, q.Put(t.Context(), 3), stream.ErrClosed)
		require.False(t, q.TryPut(3))
		got, err := q.TakeAll(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, []int{1, 2}, got)
		_, err = q.TakeAll(t.Context(), got)
		require.Equal(t, io.EOF, err)
		require.Equal(t, io.EOF, q.Err())
	})
	t.Run("R-4.29 an error comes after the rest", func(t *testing.T) {
		q := weightless(4)
		require.True(t, q.TryPut(1))
		q.Close(errBoom)
		require.ErrorIs(t, q.Put(t.Context(), 3), errBoom)
		got, err := q.TakeAll(t.Context(), nil)
		require.NoError(t, err)
		require.Equal(t, []int{1}, got)
		_, err = q.TakeAll(t.Context(), got)
		require.ErrorIs(t, err, errBoom)
	})
	t.Run("R-4.29 a failure comes at once and gives back what it discards", func(t *testing.T) {
		q := byValue(4, 100)
		require.NoError(t, q.Put(t.Context(), 1, 2))
		require.Equal(t, []int{1, 2}, q.Fail(errBoom))
		require.Empty(t, q.Fail(io.ErrUnexpectedEOF), "the first failure counts")
		require.Zero(t, q.Weight())
		_, err := q.TakeAll(t.Context(), nil)
		require.ErrorIs(t, err, errBoom)
		require.ErrorIs(t, q.Put(t.Context(), 3), errBoom)
	})
	t.Run("a failure after a close cuts off what is left, and only that", func(t *testing.T) {
		q := weightless(4)
		require.True(t, q.TryPut(1))
		q.Close(nil)
		require.Equal(t, []int{1}, q.Fail(nil))
		require.Equal(t, stream.ErrClosed, q.Err(), "the stream is not complete any more")
		done := weightless(4)
		done.Close(nil)
		require.Empty(t, done.Fail(errBoom))
		require.Equal(t, io.EOF, done.Err(), "everything had been taken")
	})
	t.Run("every waiter is released", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for name, end := range map[string]func(*stream.Queue[int]){
				"close": func(q *stream.Queue[int]) { q.Close(errBoom) },
				"fail":  func(q *stream.Queue[int]) { q.Fail(errBoom) },
			} {
				q := weightless(1)
				take := func() error { _, err := q.TakeAll(t.Context(), nil); return err }
				one, two := later(take), later(take)
				end(q)
				require.ErrorIs(t, <-one, errBoom, name)
				require.ErrorIs(t, <-two, errBoom, name)

				q = weightless(1)
				put := func() error { return q.Put(t.Context(), 1, 2) }
				one, two = later(put), later(put)
				end(q)
				require.ErrorIs(t, <-one, errBoom, name)
				require.ErrorIs(t, <-two, errBoom, name)
			}
		})
	})
}

func TestQueueChan(t *testing.T) {
	t.Run("delivers everything and is closed at the end", func(t *testing.T) {
		q := weightless(2)
		go func() {
			for v := range 100 {
				_ = q.Put(t.Context(), v)
			}
			q.Close(errBoom)
		}()
		next := 0
		for v := range q.Chan(t.Context()) {
			require.Equal(t, next, v)
			next++
		}
		require.Equal(t, 100, next)
		require.ErrorIs(t, q.Err(), errBoom)
	})
	t.Run("F1 ends with its context, while it waits and while it delivers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			for _, items := range []int{0, 3} {
				ctx, cancel := context.WithCancel(t.Context())
				q := weightless(4)
				for v := range items {
					q.TryPut(v)
				}
				c := q.Chan(ctx)
				synctest.Wait()
				cancel()
				synctest.Wait()
				_, ok := <-c
				require.False(t, ok)
			}
		})
	})
}

func TestQueueCostsLittle(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(stream.Queue[int]{}), uintptr(128), "bytes of an idle queue")
	q := byValue(64, 1<<20)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var buf []int
	run := []int{1, 2, 3, 4}
	step := func() {
		q.TryPut(1)
		_ = q.Put(ctx, 1)
		_ = q.Put(ctx, run...)
		buf, _ = q.TakeAll(ctx, buf)
	}
	step()
	step() // both buffers have their size
	assert.Zero(t, testing.AllocsPerRun(100, step))

	// Waiting does not allocate either: a pair of goroutines that wait for each other all the time.
	there, back := weightless(1), weightless(1)
	go func() {
		var buf []int
		var err error
		for err == nil {
			if buf, err = there.TakeAll(ctx, buf); err == nil {
				err = back.Put(ctx, buf...)
			}
		}
		back.Close(err)
	}()
	round := func() {
		_ = there.Put(ctx, 1)
		buf, _ = back.TakeAll(ctx, buf)
	}
	for range 10 {
		round()
	}
	assert.Zero(t, testing.AllocsPerRun(1000, round))
	there.Close(nil)
	_, err := back.TakeAll(ctx, buf)
	assert.Equal(t, io.EOF, err)
}
