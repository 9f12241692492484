package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// manyRequests is how many requests a leak test makes: 10 000, and fewer when only the machinery is tried out.
func manyRequests() int {
	if testing.Short() {
		return 500
	}
	return 10_000
}

// TestCreditComesBack is field case F10: data of requests that nobody reads must give its credit back.
func TestCreditComesBack(t *testing.T) {
	requests := manyRequests()
	virtual(t, "F10 R-10.24 R-6.25 10 000 requests that read 2 of 12 chunks, then one of 1 000", func(t *testing.T) {
		// The label of the stream tells the handler how to end.
		c := cartridgetest.Serving(t, workCap, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			if s.MediaURN() == "media:all" {
				b, err := s.CollectBytes(ctx)
				if err != nil {
					return err
				}
				return r.Output().EmitItem(ctx, fmt.Sprint(len(b)), nil)
			}
			for range 2 {
				if _, err := s.Next(ctx); err != nil {
					return err
				}
			}
			switch s.MediaURN() {
			case "media:return":
				return nil
			case "media:fail":
				return errors.New("failed")
			case "media:close":
				if err := s.Close(); err != nil {
					return err
				}
				fallthrough
			default:
				<-ctx.Done()
				return context.Cause(ctx)
			}
		})
		h := cartridgetest.Start(t, c, cartridgetest.WithWindow(4))
		kinds := []string{"media:return", "media:fail", "media:cancel", "media:close"}
		for i := range requests {
			kind := kinds[i%len(kinds)]
			req := h.Request(workCap)
			s := req.Stream("body", kind)
			sent := 0
			for ; sent < 12; sent++ {
				if s.Credit() == 0 {
					synctest.Wait()
					if s.Credit() == 0 {
						break
					}
				}
				s.Chunk("x")
			}
			switch kind {
			case "media:return":
				req.WantEnd()
			case "media:fail":
				req.WantErr("HANDLER_ERROR", failure.Internal)
			case "media:cancel":
				// A window and what was read; one of it may be pending, as the handler waits for something else.
				require.Contains(t, []int{5, 6}, sent)
				req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
			case "media:close":
				require.Equal(t, 12, sent, "a closed stream holds nobody back")
				req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
			}
		}
		last := h.Request(workCap)
		s := last.Stream("body", "media:all")
		for range 1000 {
			s.Chunk("1234567")
		}
		last.End()
		last.WantItems("7000")
		last.WantEnd()
		h.WantIdle()
		for name, p := range h.Probe().Pools {
			assert.Zero(t, p.Active+p.Queued, name)
		}
	})
}

// TestNothingIsLeft ends many requests in every way, and waits until the last of them is garbage.
func TestNothingIsLeft(t *testing.T) {
	requests := manyRequests()
	t.Run("R-4.29 R-6.91 L7 no goroutine, slot or buffer of 10 000 requests of every ending is left", func(t *testing.T) {
		var made, collected atomic.Int64
		handler := func(ctx context.Context, r *bifaci.Request) error {
			made.Add(1)
			runtime.AddCleanup(r, func(n int64) { collected.Add(n) }, 1)
			kind := strings.TrimPrefix(r.CapURN(), `cap:in="media:";out="media:";`)
			switch kind {
			case "end":
				return r.Output().EmitItem(ctx, "x", nil)
			case "error":
				return errors.New("failed")
			case "panic":
				panic("on purpose")
			case "goroutines":
				r.Go(func(ctx context.Context) error {
					_, err := firstStream(ctx, r)
					if errors.Is(err, io.EOF) {
						return nil
					}
					return err
				})
				return nil
			case "call":
				_, err := bifaci.CallBytes(ctx, r.Peer(), capNamed("far"), bifaci.BytesArg{MediaURN: "media:", Value: []byte("x")})
				return err // the call is given up
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}
		kinds := []string{"end", "error", "panic", "goroutines", "call", "cancelled", "poisoned", "refused", "body-failed"}
		var list []served
		for _, k := range kinds {
			if k != "refused" {
				list = append(list, served{k, handler})
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		h := cartridgetest.Start(t, cartridgeOf(t, nil, []bifaci.Option{bifaci.WithAgeFlush(true)}, list...), cartridgetest.WithContext(ctx))
		for i := range requests {
			kind := kinds[i%len(kinds)]
			req := h.Request(capNamed(kind))
			if i%3 == 0 {
				req.Chunk("unread")
			}
			switch kind {
			case "cancelled":
				req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
			case "poisoned":
				req.Send(cartridgetest.StreamEndFrame("unknown", 0)).WantErr("PROTOCOL_ERROR", failure.Internal)
			case "refused":
				req.WantErr(failure.NoHandler, failure.Environment)
			case "body-failed":
				req.Fail("UPSTREAM", failure.Input, "no more")
				h.Probe()
				req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
			default:
				req.End()
				req.Collect()
			}
		}
		h.WantIdle()
		require.Eventually(t, func() bool {
			runtime.GC()
			return made.Load()-collected.Load() <= 2 // the scratch frame of a lane may name the last one, and the reader another
		}, 20*time.Second, 10*time.Millisecond, "%d of %d requests are still reachable", made.Load()-collected.Load(), made.Load())
	})
}

func TestEndsAreTyped(t *testing.T) {
	endings := map[string]struct {
		end    func(*cartridgetest.Host, *cartridgetest.Request)
		stream string
		pack   string
	}{
		"complete":            {func(_ *cartridgetest.Host, r *cartridgetest.Request) { r.End() }, "EOF", "EOF"},
		"the requester's ERR": {func(_ *cartridgetest.Host, r *cartridgetest.Request) { r.Fail("UPSTREAM", failure.Input, "m") }, "UPSTREAM", "UPSTREAM"},
		"a cancel":            {func(_ *cartridgetest.Host, r *cartridgetest.Request) { r.Cancel(failure.UserCancel()) }, "CANCELLED", "CANCELLED"},
		"a violation": {func(_ *cartridgetest.Host, r *cartridgetest.Request) {
			r.Send(cartridgetest.StreamEndFrame("unknown", 0))
		}, "PROTOCOL_ERROR", "PROTOCOL_ERROR"},
		"the end of the input": {func(h *cartridgetest.Host, _ *cartridgetest.Request) { h.CloseInput() }, "CONNECTION_CLOSED", "CONNECTION_CLOSED"},
		"broken input":         {func(h *cartridgetest.Host, _ *cartridgetest.Request) { h.SendBytes([]byte{0, 0, 0, 0}) }, "PROTOCOL_ERROR", "PROTOCOL_ERROR"},
		"an END in mid-stream": {func(_ *cartridgetest.Host, r *cartridgetest.Request) { r.Send(cartridgetest.EndFrame(false)) }, "PROTOCOL_ERROR", "PROTOCOL_ERROR"},
		"the end of the run":   {func(h *cartridgetest.Host, _ *cartridgetest.Request) { h.Stop(errors.New("stop")) }, "ABORTED", "ABORTED"},
		"the end of one stream": {func(_ *cartridgetest.Host, r *cartridgetest.Request) {
			r.Send(cartridgetest.StreamEndFrame("body", 1))
			r.Send(cartridgetest.ErrFrame("LATER", failure.Input, "m"))
		}, "EOF", "LATER"},
	}
	for name, c := range endings {
		virtual(t, "R-4.29 R-6.21 a reader can tell complete from cut off: "+name, func(t *testing.T) {
			got := make(chan error, 2)
			h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
				free := context.WithoutCancel(ctx) // only the values themselves may tell
				input, err := r.TakeInput()
				if err != nil {
					return err
				}
				s, err := input.Next(free)
				if err != nil {
					return err
				}
				for err == nil {
					_, err = s.Next(free)
				}
				got <- err
				_, err = input.Next(free)
				got <- err
				return nil
			})
			req := h.Request(workCap).Chunk("read")
			synctest.Wait()
			c.end(h, req)
			for _, want := range []string{c.stream, c.pack} {
				err := <-got
				if want == "EOF" {
					assert.ErrorIs(t, err, io.EOF)
					continue
				}
				assert.NotErrorIs(t, err, io.EOF)
				assert.Equal(t, want, failure.From(err).Code, err)
			}
		})
	}
}

func TestLawsOfAccounting(t *testing.T) {
	virtual(t, "L8 R-11.1 each frame that is not delivered is counted once, in one family", func(t *testing.T) {
		c := cartridgetest.Serving(t, workCap, untilCancelled)
		h := cartridgetest.Start(t, c)
		ended := h.Request(workCap)
		synctest.Wait()
		ended.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
		frames := []cartridgetest.Frame{
			cartridgetest.StartFrame("s", textMedia), cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes("x")), cartridgetest.StreamEndFrame("s", 1),
			cartridgetest.EndFrame(false), cartridgetest.ErrFrame("E", failure.Input, "m"), cartridgetest.LogFrame("info", failure.User, "m"),
			cartridgetest.CreditFrame(frame.CreditResponse, "s", 1), cartridgetest.CancelFrame(failure.UserCancel()), cartridgetest.CloseStreamFrame("s"),
		}
		for i, f := range frames {
			before := h.Probe()
			for range i + 1 {
				ended.Send(f)
				h.Unsent().Send(f)
			}
			after := h.Probe()
			assert.EqualValues(t, i+1, after.Stragglers-before.Stragglers, f)
			assert.EqualValues(t, i+1, after.Drops-before.Drops, f)
		}
	})
	t.Run("L1 R-2.24 a HELLO of another version fails the handshake with both numbers", func(t *testing.T) {
		for name, hello := range map[string]cartridgetest.Frame{
			"key 0": cartridgetest.HelloFrame(frame.DefaultLimits()).With(frame.KeyVersion, uint64(4)),
			"meta": cartridgetest.HelloFrame(frame.DefaultLimits()).With(frame.KeyMeta, map[string]any{"version": uint64(4), "max_frame": uint64(1 << 20),
				"max_chunk": uint64(1 << 18), "max_reorder_buffer": uint64(64), "initial_credit": uint64(32)}),
		} {
			h := cartridgetest.Start(t, cartridgetest.Serving(t, workCap, untilCancelled), cartridgetest.WithoutHello())
			h.Check().ExcuseBytes()
			h.Send(hello)
			err := h.Wait()
			require.ErrorIs(t, err, bifaci.ErrHandshake, name)
			assert.ErrorContains(t, err, "4", name)
			assert.ErrorContains(t, err, "6", name)
		}
	})
	t.Run("L2 R-4.10 every flow counts 0, 1, 2, … on the wire", func(t *testing.T) {
		h := generous(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			return errors.Join(r.Output().Log("info", failure.User, "m"), r.Output().EmitItem(ctx, 1, nil), r.Output().Progress(0.5, ""))
		})
		for range 3 {
			req := h.Request(workCap).End()
			req.WantItems(uint64(1)).WantEnd()
			for i, f := range req.Frames() {
				assert.EqualValues(t, i, f.Seq(), f)
			}
		}
	})
}
