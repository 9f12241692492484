package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// steps serves a handler that takes one step at a time, when the test says so, with the window of the default.
func steps(t *testing.T, opts []bifaci.Option, list ...func(context.Context, *bifaci.OutputStream) error) (req *cartridgetest.Request, step func()) {
	t.Helper()
	next := make(chan struct{})
	h := worker(t, 32, func(ctx context.Context, r *bifaci.Request) error {
		for i, s := range list {
			select {
			case <-next:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			if err := s(ctx, r.Output()); err != nil {
				return fmt.Errorf("step %d: %w", i, err)
			}
		}
		<-next
		return nil
	}, opts...)
	req = h.Request(workCap).End()
	return req, func() {
		t.Helper()
		next <- struct{}{}
		synctest.Wait()
	}
}

// writes is a step that writes a text.
func writes(text string) func(context.Context, *bifaci.OutputStream) error {
	return func(_ context.Context, o *bifaci.OutputStream) error {
		n, err := o.Write([]byte(text))
		if err == nil && n != len(text) {
			err = fmt.Errorf("wrote %d of %d", n, len(text))
		}
		return err
	}
}

// emits is a step that emits a value on a scalar stream.
func emits(v any) func(context.Context, *bifaci.OutputStream) error {
	return func(ctx context.Context, o *bifaci.OutputStream) error { return o.EmitCBOR(ctx, v) }
}

// wantChunks compares the payloads that have been sent so far, each a byte string unless it is given encoded.
func wantChunks(t *testing.T, req *cartridgetest.Request, want ...any) {
	t.Helper()
	synctest.Wait()
	var wantBytes [][]byte
	for _, w := range want {
		if text, ok := w.(string); ok {
			wantBytes = append(wantBytes, cartridgetest.Bytes(text))
		} else {
			wantBytes = append(wantBytes, encoded(t, w))
		}
	}
	require.Equal(t, wantBytes, chunks(req))
}

func TestCoalescing(t *testing.T) {
	virtual(t, "R-6.37 two small writes, a pause of 30 ms, a third: one CHUNK; the fourth goes at close", func(t *testing.T) {
		req, step := steps(t, nil, writes("one "), writes("two "), writes("three"), writes("four"))
		step()
		step()
		time.Sleep(30 * time.Millisecond)
		wantChunks(t, req)
		step()
		wantChunks(t, req, "one two three")
		step()
		wantChunks(t, req, "one two three")
		step()
		wantChunks(t, req, "one two three", "four")
		req.WantItems("one two three", "four")
		req.WantEnd()
	})
	virtual(t, "R-6.37 the oldest byte counts: 19 ms are not enough, 20 ms are", func(t *testing.T) {
		req, step := steps(t, nil, writes("a"), writes("b"), writes("c"), writes("d"))
		step()
		time.Sleep(15 * time.Millisecond)
		step()
		time.Sleep(4 * time.Millisecond)
		step()
		wantChunks(t, req)
		time.Sleep(time.Millisecond)
		step()
		wantChunks(t, req, "abcd")
		step()
		req.Collect()
		req.WantEnd()
	})
	virtual(t, "R-6.37 a batch goes out when it reaches 4096 bytes", func(t *testing.T) {
		small := strings.Repeat("x", 1365)
		req, step := steps(t, nil, writes(small), writes(small), writes(small), writes("y"), writes("tail"))
		step()
		step()
		step() // 4095 bytes
		wantChunks(t, req)
		step()
		wantChunks(t, req, small+small+small+"y")
		step()
		wantChunks(t, req, small+small+small+"y")
		step()
		wantChunks(t, req, small+small+small+"y", "tail")
	})
	virtual(t, "R-6.37 a large write goes out at once, behind what was buffered, in the same batch", func(t *testing.T) {
		large := strings.Repeat("L", 5000)
		req, step := steps(t, nil, writes("small"), writes(large))
		step()
		step()
		wantChunks(t, req, "small"+large)
		step()
		req.Collect()
		req.WantEnd()
	})
	virtual(t, "R-6.37 R-6.43 Flush sends the tail, and nothing when there is none", func(t *testing.T) {
		flush := func(ctx context.Context, o *bifaci.OutputStream) error { return o.Flush(ctx) }
		req, step := steps(t, nil, flush, writes("a"), flush, flush, writes("b"))
		step()
		step()
		wantChunks(t, req)
		step()
		wantChunks(t, req, "a")
		step()
		step()
		wantChunks(t, req, "a")
		step()
		wantChunks(t, req, "a", "b")
	})
	for name, c := range map[string]struct {
		emit func(context.Context, *bifaci.OutputStream) error
		want []any
	}{
		"text":   {emits("text"), []any{cborText("text")}},
		"number": {emits(7), []any{7}},
		"null":   {emits(nil), []any{nil}},
		"array":  {emits([]any{1, 2}), []any{1, 2}},
		"map":    {emits(map[string]any{"k": 1}), []any{[]any{cborText("k"), 1}}},
	} {
		virtual(t, "R-6.37 R-6.40 bytes go before a "+name, func(t *testing.T) {
			req, step := steps(t, nil, writes("bytes"), c.emit)
			step()
			step()
			wantChunks(t, req, append([]any{"bytes"}, c.want...)...)
			step()
			req.Collect()
			req.WantEnd()
		})
	}
	virtual(t, "R-6.37 R-6.40 a byte string that is emitted is a write", func(t *testing.T) {
		type named []byte
		req, step := steps(t, nil, writes("a"), emits([]byte("b")), emits(named("c")), emits([]byte{}))
		step()
		step()
		step()
		step()
		wantChunks(t, req)
		step()
		wantChunks(t, req, "abc")
	})
	virtual(t, "R-6.37 sequence streams never coalesce", func(t *testing.T) {
		item := func(ctx context.Context, o *bifaci.OutputStream) error { return o.EmitItem(ctx, []byte("i"), nil) }
		req, step := steps(t, nil, item, item)
		step()
		wantChunks(t, req, "i")
		step()
		wantChunks(t, req, "i", "i")
		step()
		req.Collect()
		req.WantEnd()
	})
	virtual(t, "R-6.37 a LOG flushes nothing", func(t *testing.T) {
		req, step := steps(t, nil, writes("a"), func(_ context.Context, o *bifaci.OutputStream) error {
			return o.Log("info", failure.Internal, "between")
		}, writes("b"))
		step()
		step()
		wantChunks(t, req)
		assert.Equal(t, "log", settled(req), "not even the start goes out for it")
		step()
		step()
		wantChunks(t, req, "ab")
	})
	virtual(t, "R-6.37 R-10.1 a batch costs one credit however many writes it had", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			for range 1000 {
				if _, err := r.Output().Write([]byte("abcd")); err != nil {
					return err
				}
			}
			return nil
		})
		req := h.Request(workCap).End()
		assert.Equal(t, strings.Repeat("abcd", 1000), req.Collect())
		req.WantEnd()
		assert.Len(t, chunks(req), 1)
	})
}

// cborText is a text that wantChunks takes as a text, not as a byte string.
type cborText string

func TestFlushByAge(t *testing.T) {
	aged := []bifaci.Option{bifaci.WithAgeFlush(true)}
	virtual(t, "R-6.38 no timer by default", func(t *testing.T) {
		req, step := steps(t, nil, writes("tail"))
		step()
		time.Sleep(time.Hour)
		wantChunks(t, req)
		step()
		wantChunks(t, req, "tail")
	})
	virtual(t, "R-6.38 with the option a batch goes 20 ms after its oldest byte", func(t *testing.T) {
		req, step := steps(t, aged, writes("a"), writes("b"), writes("c"))
		step()
		time.Sleep(19 * time.Millisecond)
		step()
		wantChunks(t, req)
		time.Sleep(time.Millisecond)
		wantChunks(t, req, "ab")
		time.Sleep(time.Hour)
		wantChunks(t, req, "ab")
		step()
		time.Sleep(20 * time.Millisecond)
		wantChunks(t, req, "ab", "c")
		step()
		req.WantItems("ab", "c")
		req.WantEnd()
	})
	virtual(t, "R-6.38 bytes that came after an early flush have their own 20 ms", func(t *testing.T) {
		flush := func(ctx context.Context, o *bifaci.OutputStream) error { return o.Flush(ctx) }
		req, step := steps(t, aged, writes("a"), flush, writes("b"))
		step()
		time.Sleep(5 * time.Millisecond)
		step()
		time.Sleep(10 * time.Millisecond)
		step() // "b" at 15 ms
		time.Sleep(19 * time.Millisecond)
		wantChunks(t, req, "a")
		time.Sleep(time.Millisecond)
		wantChunks(t, req, "a", "b")
		step()
		req.Collect()
		req.WantEnd()
	})
	virtual(t, "R-6.38 emitted byte strings too", func(t *testing.T) {
		type named []byte
		req, step := steps(t, aged, emits([]byte("a")), emits(named("b")))
		step()
		time.Sleep(20 * time.Millisecond)
		wantChunks(t, req, "a")
		step()
		time.Sleep(20 * time.Millisecond)
		wantChunks(t, req, "a", "b")
		step()
		req.Collect()
		req.WantEnd()
	})
	virtual(t, "R-6.38 L13 a flush that waits for credit ends with the request", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().EmitCBOR(ctx, 1); err != nil {
				return err
			}
			if _, err := r.Output().Write([]byte("waits")); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}, aged...)
		req := h.Request(workCap)
		time.Sleep(time.Second)
		wantStill(t, req)
		req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
		h.WantIdle()
	})
	virtual(t, "R-6.38 R-6.42 a flush that fails breaks the stream for the handler", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().EmitCBOR(ctx, 1); err != nil {
				return err
			}
			_, err := r.Output().Write([]byte("waits"))
			return errors.Join(err, <-after(time.Second))
		}, aged...)
		req := h.Request(workCap).End()
		h.CloseInput()
		req.WantErr("CONNECTION_CLOSED", failure.Environment)
		require.NoError(t, h.Wait())
	})
	virtual(t, "R-6.38 nothing is left of the timer when the request ends before it", func(t *testing.T) {
		h := worker(t, 4, func(_ context.Context, r *bifaci.Request) error {
			_, err := r.Output().Write([]byte("tail"))
			return err
		}, aged...)
		for range 10 {
			req := h.Request(workCap).End()
			req.WantItems("tail").WantEnd()
		}
		h.WantIdle()
		time.Sleep(time.Minute)
		h.WantIdle()
	})
	virtual(t, "R-6.38 R-7.3 arguments of a peer call too", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(ctx, workCap)
			if err != nil {
				return err
			}
			if _, err := call.Arg(textMedia).Write([]byte("small")); err != nil {
				return err
			}
			_, err = call.Response().CollectBytes(ctx) // no Finish: only age sends the bytes
			return err
		}, aged...)
		req := h.Request(workCap)
		call := h.WantPeerCall(workCap)
		start := time.Now()
		call.WantItems("small")
		assert.Equal(t, 20*time.Millisecond, time.Since(start))
		call.End()
		req.WantEnd()
		h.WantIdle()
	})
}

// after gives nil when d is over.
func after(d time.Duration) <-chan error {
	done := make(chan error)
	time.AfterFunc(d, func() { close(done) })
	return done
}
