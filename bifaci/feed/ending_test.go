package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestStopConditions(t *testing.T) {
	for limit, want := range map[uint64]int{0: 0, 1: 1, 5: 5, 8: 8, 9: 9, 100: 20} {
		t.Run(fmt.Sprintf("R-9.40 max_items %d", limit), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := openSynthetic(t.Context(), t, `{"items":20}`, Stop{MaxItems: &limit})
				items, end := readAll(t.Context(), f)
				assert.Equal(t, io.EOF, end)
				assert.Equal(t, span(0, want), seqs(items))
				<-f.Done()
			})
		})
	}
	t.Run("R-9.40 lost items count towards max_items", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{Params: params(t, `{"ring":1}`), Stop: Stop{MaxItems: count(handOver + 4)}})
			require.True(t, b.push(0, handOver+3))
			require.False(t, b.push(handOver+3, 1), "the last one that is wanted")
			items, end := readAll(t.Context(), b.Feed)
			assert.Equal(t, io.EOF, end)
			assert.Equal(t, append(span(0, handOver), handOver+3), seqs(items))
		})
	})
	t.Run("R-9.40 an item behind max_items is not taken", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{Stop: Stop{MaxItems: count(4)}})
			require.True(t, b.push(0, 2))
			require.False(t, b.sink.Push(Sample{Lost: 2}), "it would be the fifth")
			items, end := readAll(t.Context(), b.Feed)
			assert.Equal(t, io.EOF, end)
			assert.Equal(t, span(0, 2), seqs(items))
		})
	})
	for ms, want := range map[uint64]int{0: 0, 1: 1, 49: 5, 50: 5, 51: 6} {
		t.Run(fmt.Sprintf("R-9.40 duration_ms %d", ms), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := openSynthetic(t.Context(), t, `{"items":1000}`, Stop{DurationMS: &ms})
				opened := time.Now()
				items, end := readAll(t.Context(), f)
				assert.Equal(t, io.EOF, end)
				assert.Equal(t, span(0, want), seqs(items))
				assert.LessOrEqual(t, time.Since(opened), time.Duration(ms)*time.Millisecond)
				<-f.Done()
			})
		})
	}
	t.Run("R-9.40 duration_ms while the reader stalls", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := openSynthetic(t.Context(), t, `{"items":100000,"ring":4}`, Stop{DurationMS: count(1000)})
			opened := time.Now()
			<-f.Done()
			assert.Equal(t, time.Second, time.Since(opened))
			assert.Equal(t, uint64(100-handOver-4), f.Overruns())
			time.Sleep(time.Hour) // virtual: the reader is that late
			items, end := readAll(t.Context(), f)
			assert.Equal(t, io.EOF, end)
			assert.Equal(t, append(span(0, handOver), 96, 97, 98, 99), seqs(items))
		})
	})
	t.Run("R-9.40 duration_ms of a device that is silent", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{Stop: Stop{DurationMS: count(1000)}})
			_, err := b.Next(t.Context())
			assert.Equal(t, io.EOF, err)
			assert.Equal(t, time.Second, time.Since(b.started))
			synctest.Wait()
			wantDone(t, b)
		})
	})
	t.Run("R-9.40 whichever comes first", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			items, _ := readAll(t.Context(), openSynthetic(t.Context(), t, `{}`, Stop{DurationMS: count(35), MaxItems: count(6)}))
			assert.Len(t, items, 4)
			items, _ = readAll(t.Context(), openSynthetic(t.Context(), t, `{}`, Stop{DurationMS: count(65), MaxItems: count(6)}))
			assert.Len(t, items, 6)
		})
	})
	t.Run("R-9.40 the longest duration is no overflow", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			items, end := readAll(t.Context(), openSynthetic(t.Context(), t, `{}`, Stop{DurationMS: count(1<<64 - 1)}))
			assert.Equal(t, io.EOF, end)
			assert.Len(t, items, 10)
		})
	})
	t.Run("R-9.40 R-9.52 a device is opened and released even if nothing is to be captured", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{Stop: Stop{MaxItems: count(0)}})
			synctest.Wait()
			wantDone(t, b)
			assert.False(t, b.push(0, 1))
		})
	})
}

func TestEnds(t *testing.T) {
	broken := errors.New("unplugged")
	t.Run("R-9.41 a device that fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			require.True(t, b.push(0, 20))
			b.end <- broken
			synctest.Wait()
			wantDone(t, b)
			items, end := readAll(t.Context(), b.Feed)
			assert.Equal(t, span(0, 20), seqs(items), "what came before the failure is used first")
			wantFailure(t, end, failure.FeedFailed, failure.Environment, "unplugged")
			assert.ErrorIs(t, end, broken)
		})
	})
	t.Run("R-9.41 a device that fails with a classified error", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			b.sink.Fail(failure.New("X", failure.User, "y"))
			_, end := b.Next(t.Context())
			wantFailure(t, end, failure.FeedFailed, failure.Environment, "X: y")
			synctest.Wait()
			wantDone(t, b)
		})
	})
	t.Run("R-9.41 a device whose error wraps the end of something is no clean end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			b.end <- fmt.Errorf("the driver's pipe: %w", io.EOF)
			_, end := b.Next(t.Context())
			wantFailure(t, end, failure.FeedFailed, failure.Environment, "the driver's pipe: EOF")
			assert.NotErrorIs(t, end, io.EOF)
		})
	})
	for name, leave := range map[string]func(){"panics": func() { panic("unplugged") }, "ends its goroutine": runtime.Goexit} {
		t.Run("R-9.41 R-9.43 a backend that "+name, func(t *testing.T) {
			f, err := New(t.Context(), backendFunc(func(context.Context, Selector) (Capture, error) {
				return Capture{Run: func(_ context.Context, to *Sink) error {
					to.Push(Sample{Data: []byte("x")})
					leave()
					return nil
				}}, nil
			}), Selector{})
			require.NoError(t, err)
			items, end := readAll(t.Context(), f)
			assert.Len(t, items, 1)
			wantFailure(t, end, failure.FeedFailed, failure.Environment)
			<-f.Done()
		})
	}
	t.Run("R-9.41 the first end counts", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			b.sink.Finish()
			b.sink.Fail(broken)
			b.Close()
			_, end := b.Next(t.Context())
			assert.Equal(t, io.EOF, end)
		})
	})
	t.Run("R-9.42 close: what was captured is delivered, then EOF", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			require.True(t, b.push(0, 20))
			b.Close()
			b.Close()
			assert.False(t, b.push(20, 1))
			synctest.Wait()
			wantDone(t, b)
			items, end := readAll(t.Context(), b.Feed)
			assert.Equal(t, span(0, 20), seqs(items))
			assert.Equal(t, io.EOF, end)
			b.Close()
			_, end = b.Next(t.Context())
			assert.Equal(t, io.EOF, end)
		})
	})
	t.Run("R-9.42 close releases a waiting reader", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f := openSynthetic(t.Context(), t, `{"items":1000,"interval_ms":86400000}`, Stop{})
			_, err := f.Next(t.Context())
			require.NoError(t, err)
			opened := time.Now()
			time.AfterFunc(time.Minute, f.Close)
			_, err = f.Next(t.Context())
			assert.Equal(t, io.EOF, err)
			assert.Equal(t, time.Minute, time.Since(opened), "not with the next item")
			<-f.Done()
			assert.Equal(t, time.Minute, time.Since(opened))
		})
	})
	t.Run("R-9.42 cancel: everything is discarded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cause := &failure.CancelledError{Reason: failure.UserCancel()}
			b := openBench(t.Context(), t, Selector{})
			require.True(t, b.push(0, 20))
			b.Cancel(cause)
			assert.False(t, b.push(20, 1))
			_, err := b.Next(t.Context())
			assert.Equal(t, error(cause), err)
			synctest.Wait()
			wantDone(t, b)
			b.Cancel(errors.New("too late"))
			_, err = b.Next(t.Context())
			assert.Equal(t, error(cause), err)
		})
	})
	t.Run("R-9.42 cancel without a cause", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			b.Cancel(nil)
			_, err := b.Next(t.Context())
			assert.Equal(t, context.Canceled, err)
		})
	})
	t.Run("R-9.42 cancel behind a close that is not read yet", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			require.True(t, b.push(0, 20))
			b.Close()
			b.Cancel(broken)
			_, err := b.Next(t.Context())
			assert.Equal(t, broken, err)
		})
	})
	t.Run("R-9.42 cancel behind an end that is read", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			b.Close()
			_, err := b.Next(t.Context())
			require.Equal(t, io.EOF, err)
			b.Cancel(broken)
			_, err = b.Next(t.Context())
			assert.Equal(t, io.EOF, err)
		})
	})
	t.Run("R-9.42 the end of the context is a cancel", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			b := openBench(ctx, t, Selector{})
			require.True(t, b.push(0, 20))
			cancel(broken)
			synctest.Wait()
			wantDone(t, b)
			_, err := b.Next(t.Context())
			assert.Equal(t, broken, err)
			assert.Zero(t, b.buf.ring.count+b.buf.handed.count)
		})
	})
	t.Run("R-9.42 the end of the context behind the end of the capture", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			b := openBench(ctx, t, Selector{})
			require.True(t, b.push(0, 20))
			b.Close()
			synctest.Wait()
			cancel(broken)
			synctest.Wait()
			_, err := b.Next(t.Context())
			assert.Equal(t, broken, err)
		})
	})
	t.Run("R-9.42 a device that ends cleanly because of the context is no clean end", func(t *testing.T) {
		for range 200 { // either may be first: the watch, or the device
			ctx, cancel := context.WithCancelCause(t.Context())
			f := openSynthetic(ctx, t, `{"interval_ms":86400000}`, Stop{})
			_, err := f.Next(t.Context())
			require.NoError(t, err)
			cancel(broken)
			_, err = f.Next(t.Context())
			require.Equal(t, broken, err)
			<-f.Done()
		}
	})
	t.Run("R-9.42 a tap that was closed before the device was open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tap, closeTap := context.WithCancel(t.Context())
			closeTap()
			f := openSynthetic(t.Context(), t, `{"interval_ms":0}`, Stop{}, WithTap(tap))
			items, end := readAll(t.Context(), f)
			assert.Empty(t, items)
			assert.Equal(t, io.EOF, end)
			<-f.Done()
		})
	})
	t.Run("R-9.42 a tap that is closed later", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			tap, closeTap := context.WithCancel(t.Context())
			b := openBench(t.Context(), t, Selector{}, WithTap(tap))
			require.True(t, b.push(0, 20))
			closeTap()
			synctest.Wait()
			wantDone(t, b)
			items, end := readAll(t.Context(), b.Feed)
			assert.Len(t, items, 20)
			assert.Equal(t, io.EOF, end)
		})
	})
	t.Run("R-9.42 the reader's own context gives up waiting only", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, broken)
			defer cancel()
			_, err := b.Next(ctx)
			assert.Equal(t, broken, err)
			require.True(t, b.push(0, 1))
			_, err = b.Next(ctx)
			assert.Equal(t, broken, err, "a context that has ended takes nothing")
			it, err := b.Next(t.Context())
			require.NoError(t, err)
			assert.Equal(t, int64(0), it.Meta["seq"])
			b.Close()
		})
	})
	t.Run("R-9.42 an error is the last thing that Items gives", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			cause := fmt.Errorf("link: %w", io.EOF) // no clean end, though it wraps one
			b := openBench(t.Context(), t, Selector{})
			b.Cancel(cause)
			var got []error
			for _, err := range b.Items(t.Context()) {
				got = append(got, err)
			}
			assert.Equal(t, []error{cause}, got)
		})
	})
	t.Run("R-9.42 leaving Items leaves the feed open", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			require.True(t, b.push(0, 2))
			for range b.Items(t.Context()) {
				break
			}
			it, err := b.Next(t.Context())
			require.NoError(t, err)
			assert.Equal(t, int64(1), it.Meta["seq"])
			b.Close()
		})
	})
	t.Run("R-9.43 every reader is woken", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			const readers = 5
			got := make(chan error, 2*readers)
			read := func() {
				_, err := b.Next(t.Context())
				got <- err
			}
			for range readers {
				go read()
			}
			synctest.Wait()
			require.True(t, b.push(0, readers))
			synctest.Wait()
			require.Len(t, got, readers, "one token may stand for many items")
			for range readers {
				go read()
			}
			synctest.Wait()
			require.Len(t, got, readers)
			b.Close()
			synctest.Wait()
			assert.Len(t, got, 2*readers)
		})
	})
}

func TestOneTokenForManyItems(t *testing.T) {
	t.Run("R-9.43 a reader that takes one of several wakes the next", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			require.True(t, b.push(0, 3)) // nobody waits, so there is one token
			for left := 2; left >= 0; left-- {
				<-b.wake // as one of several readers that had all found nothing
				_, ok, _ := b.take()
				require.True(t, ok)
				assert.Len(t, b.wake, min(left, 1))
			}
			b.Close()
		})
	})
}

// TestNothingRemains: the bubble fails when a goroutine is left, the test when a timer is.
func TestNothingRemains(t *testing.T) {
	for name, end := range map[string]func(b *bench, cancel context.CancelFunc){
		"close":          func(b *bench, _ context.CancelFunc) { b.Close() },
		"cancel":         func(b *bench, _ context.CancelFunc) { b.Cancel(io.ErrClosedPipe) },
		"context":        func(_ *bench, cancel context.CancelFunc) { cancel() },
		"device ends":    func(b *bench, _ context.CancelFunc) { b.end <- nil },
		"device fails":   func(b *bench, _ context.CancelFunc) { b.end <- io.ErrClosedPipe },
		"overrun":        func(b *bench, _ context.CancelFunc) { b.push(0, handOver+2) },
		"max_items":      func(b *bench, _ context.CancelFunc) { b.push(0, 5) },
		"duration":       func(b *bench, _ context.CancelFunc) { time.Sleep(time.Minute) },
		"all of them":    func(b *bench, cancel context.CancelFunc) { b.push(0, 9); b.Close(); cancel(); b.end <- nil },
		"sink, at first": func(b *bench, _ context.CancelFunc) { b.sink.Finish() },
	} {
		t.Run("R-9.43 "+name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				tap, closeTap := context.WithCancel(t.Context())
				defer closeTap()
				s := Selector{OnOverrun: Fail, Params: params(t, `{"ring":1}`), Stop: Stop{DurationMS: count(60_000)}}
				if name == "max_items" {
					s.Stop.MaxItems = count(5)
				}
				b := openBench(ctx, t, s, WithTap(tap))
				end(b, cancel)
				synctest.Wait()
				wantDone(t, b)
				assert.Empty(t, b.timers)
			})
		})
	}
}
