package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// cancelsOf counts the CANCELs that the cartridge has sent for a call, when everybody waits.
func cancelsOf(p *cartridgetest.PeerCall) int {
	synctest.Wait()
	return strings.Count(bodyTypes(p), "cancel")
}

func TestCancelReachesPeerCalls(t *testing.T) {
	for name, reason := range map[string]failure.CancelReason{
		"a user's":    failure.UserCancel(),
		"collateral":  failure.Collateral(failure.Resource, "out of memory"),
		"with a code": {Code: "SUPERSEDED", Class: failure.User, Message: "a newer take"},
		"no reason":   failure.Unattributed(),
	} {
		virtual(t, "R-7.40 "+name+" cancel goes to each unfinished call once, with the same words", func(t *testing.T) {
			errs := make(chan error, 4)
			h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
				done, err := r.Peer().Call(ctx, peerCap)
				if err != nil {
					return err
				}
				if err := answered(ctx, done); err != nil {
					return err
				}
				for range 2 {
					c, err := r.Peer().Call(ctx, peerCap)
					if err != nil {
						return err
					}
					arg := c.Arg(textMedia)
					go func() { // ends with the cancel
						var err error
						for err == nil {
							_, err = arg.Write(make([]byte, 4096))
						}
						errs <- err
					}()
					go func() { errs <- answered(context.WithoutCancel(ctx), c) }() // ends with the cancel
				}
				<-ctx.Done()
				return context.Cause(ctx)
			})
			req := h.Request(workCap)
			done := h.WantPeerCall(peerCap).End()
			calls := []*cartridgetest.PeerCall{h.WantPeerCall(peerCap), h.WantPeerCall(peerCap)}
			synctest.Wait()
			killing := reason
			killing.ForceKill = true
			req.Cancel(killing)
			want := reason.Terminal()
			for range 4 {
				wantFailure(t, <-errs, want.Code, want.Class)
			}
			for _, c := range calls {
				assert.Equal(t, reason, c.WantCancel(), "with force_kill false")
				assert.Equal(t, 1, cancelsOf(c))
			}
			assert.Zero(t, cancelsOf(done))
			req.WantErr(want.Code, want.Class)
			h.WantIdle()
		})
	}
	virtual(t, "R-7.40 R-3.50 a request that breaks the protocol takes its calls with it, as collateral", func(t *testing.T) {
		_, req, call := caller(t, 2, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			return answered(ctx, c)
		})
		req.Send(cartridgetest.ChunkFrame("never started", 0, cartridgetest.Bytes("x")))
		reason := call.WantCancel()
		assert.Equal(t, failure.AbortedCollateral, reason.Code)
		assert.Equal(t, failure.Internal, reason.Class)
		req.WantErr(failure.ProtocolError, failure.Internal)
		assert.Equal(t, 1, cancelsOf(call))
	})
	virtual(t, "R-7.40 the end of a context of the handler's own cancels one call without attribution", func(t *testing.T) {
		enough := errors.New("enough")
		result := make(chan error, 1)
		h := worker(t, 2, func(ctx context.Context, r *bifaci.Request) error {
			limited, cancel := context.WithCancelCause(ctx)
			c, err := r.Peer().Call(limited, peerCap)
			cancel(enough)
			if err != nil {
				return err
			}
			result <- answered(ctx, c)
			return nil
		})
		req := h.Request(workCap)
		call := h.WantPeerCall(peerCap)
		require.ErrorIs(t, <-result, enough)
		assert.Equal(t, failure.Unattributed(), call.WantCancel())
		req.WantEnd()
	})
}

func TestHandlerLeavesCallsBehind(t *testing.T) {
	for _, c := range []struct {
		name string
		do   func(ctx context.Context, c *bifaci.PeerCall) error
	}{
		{"a body that is not finished", func(ctx context.Context, c *bifaci.PeerCall) error {
			_, err := c.Arg(textMedia).Write(make([]byte, 4096))
			return err
		}},
		{"an answer that was not read", func(ctx context.Context, c *bifaci.PeerCall) error { return c.Finish(ctx) }},
		{"an answer that was not read to its end", func(ctx context.Context, c *bifaci.PeerCall) error {
			if err := c.Finish(ctx); err != nil {
				return err
			}
			_, err := c.Response().Next(ctx)
			return err
		}},
	} {
		virtual(t, "R-7.41 "+c.name+" is cancelled when the handler returns", func(t *testing.T) {
			h, req, call := caller(t, 2, func(ctx context.Context, r *bifaci.Request, pc *bifaci.PeerCall) error { return c.do(ctx, pc) })
			call.Stream("a", textMedia).Chunk("1")
			reason := call.WantCancel()
			assert.Equal(t, failure.Aborted, reason.Code)
			assert.Equal(t, failure.Internal, reason.Class)
			req.WantEnd()
			assert.Equal(t, 1, cancelsOf(call))
			h.WantIdle()
		})
	}
	virtual(t, "R-7.41 an answer whose terminal came is not, read or not", func(t *testing.T) {
		release := make(chan struct{})
		h, req, call := caller(t, 2, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			<-release
			return nil
		})
		call.Chunk("unread").End()
		synctest.Wait()
		close(release)
		req.WantEnd()
		assert.Zero(t, cancelsOf(call))
		h.WantIdle()
	})
	virtual(t, "R-7.41 Close of an answer cancels its call, once", func(t *testing.T) {
		_, req, call := caller(t, 2, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			if err := errors.Join(c.Response().Close(), c.Response().Close()); err != nil {
				return err
			}
			if _, err := c.Response().Next(ctx); !errors.Is(err, bifaci.ErrClosed) {
				return fmt.Errorf("a read after Close: %w", err)
			}
			if err := c.Finish(ctx); !errors.Is(err, bifaci.ErrClosed) {
				return fmt.Errorf("Finish after Close: %w", err)
			}
			return nil
		})
		reason := call.WantCancel()
		assert.Equal(t, failure.Aborted, reason.Code)
		assert.Equal(t, failure.Internal, reason.Class)
		req.WantEnd()
		assert.Equal(t, 1, cancelsOf(call))
	})
	virtual(t, "R-7.41 Close after the end cancels nothing", func(t *testing.T) {
		_, req, call := caller(t, 2, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			if err := answered(ctx, c); err != nil {
				return err
			}
			return c.Response().Close()
		})
		call.End()
		req.WantEnd()
		assert.Zero(t, cancelsOf(call))
	})
	virtual(t, "R-7.41 a goroutine that outlives its handler can call nobody", func(t *testing.T) {
		result := make(chan error, 2)
		over := make(chan struct{})
		h := worker(t, 2, func(ctx context.Context, r *bifaci.Request) error {
			go func() { // outlives the handler on purpose
				<-over
				_, err := r.Peer().Call(context.Background(), peerCap)
				result <- err
				_, err = bifaci.CallBytes(context.Background(), r.Peer(), peerCap)
				result <- err
			}()
			return nil
		})
		h.Request(workCap).WantEnd()
		synctest.Wait()
		close(over)
		require.Error(t, <-result)
		require.Error(t, <-result)
	})
	virtual(t, "R-7.41 nor can it while the request waits for credit for its last bytes", func(t *testing.T) {
		result := make(chan error, 1)
		returned := make(chan struct{})
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			go func() { // outlives the handler on purpose
				<-returned
				_, err := r.Peer().Call(context.Background(), peerCap)
				result <- err
			}()
			if _, err := r.Output().Write(make([]byte, 4096)); err != nil {
				return err
			}
			_, err := r.Output().Write([]byte("the tail"))
			return err
		})
		req := h.Request(workCap)
		wantStill(t, req)
		close(returned)
		require.Error(t, <-result)
		req.Grant(1)
		req.WantItems(string(make([]byte, 4096)), "the tail")
		req.WantEnd()
	})
	virtual(t, "R-7.41 a feeder of CallBytes ends before the request's terminal", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			_, err := bifaci.CallBytes(ctx, r.Peer(), peerCap, bifaci.BytesArg{MediaURN: textMedia, Value: make([]byte, 1<<20)})
			return err
		})
		req := h.Request(workCap)
		call := h.WantPeerCall(peerCap)
		req.WantEnd()
		h.WantIdle()
		assert.Equal(t, 1, cancelsOf(call))
		assert.NotContains(t, bodyTypes(call), "end stream", "nothing of the body behind the cancel")
	})
}

func TestLateFramesOfPeerCalls(t *testing.T) {
	late := func(p *cartridgetest.PeerCall) {
		p.Send(cartridgetest.LogFrame("info", failure.Internal, "late"), cartridgetest.StartFrame("late", textMedia),
			cartridgetest.ChunkFrame("late", 0, cartridgetest.Bytes("x")), cartridgetest.StreamEndFrame("late", 1),
			cartridgetest.CreditFrame(frame.CreditRequest, "", 1), cartridgetest.EndFrame(true))
	}
	virtual(t, "R-7.42 frames of an ended call are stragglers", func(t *testing.T) {
		h, req, call := caller(t, 2, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error { return answered(ctx, c) })
		call.End()
		req.WantEnd()
		before := h.Probe()
		late(call)
		after := h.Probe()
		assert.Equal(t, before.Stragglers+6, after.Stragglers)
		assert.Equal(t, before.Drops, after.Drops)
	})
	virtual(t, "R-7.42 frames of a cancelled call are stragglers while the request goes on", func(t *testing.T) {
		release := make(chan struct{})
		h, req, call := caller(t, 2, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			if err := c.Response().Close(); err != nil {
				return err
			}
			<-release
			return nil
		})
		call.WantCancel()
		before := h.Probe()
		late(call)
		after := h.Probe()
		assert.Equal(t, before.Stragglers+6, after.Stragglers)
		assert.Equal(t, before.Drops, after.Drops)
		close(release)
		req.WantEnd()
	})
}

func TestManyPeerCalls(t *testing.T) {
	t.Run("R-7.40 a handler may make any number of calls in its life", func(t *testing.T) {
		const n = 300
		h := worker(t, 2, func(ctx context.Context, r *bifaci.Request) error {
			for range n {
				resp, err := bifaci.CallBytes(ctx, r.Peer(), peerCap, bifaci.BytesArg{MediaURN: textMedia, Value: []byte("x")})
				if err != nil {
					return err
				}
				if _, err := resp.CollectBytes(ctx); err != nil {
					return err
				}
			}
			if kept := bifaci.CallsKept(r); kept > 16 {
				return fmt.Errorf("%d of %d ended calls are still there", kept, n)
			}
			return nil
		})
		req := h.Request(workCap)
		for range n {
			h.WantPeerCall(peerCap).WantItems("x").WantBody().End()
		}
		req.WantEnd()
		h.WantIdle()
	})
}

func TestCallBack(t *testing.T) {
	const n = 200 // chunks each way, through a window of 4
	text := func(i int) string { return fmt.Sprintf("%03d ", i) }
	var want string
	for i := range n {
		want += text(i)
	}
	virtual(t, "R-7.50 R-7.2 a call of a cap of the same process streams both ways", func(t *testing.T) {
		c := cartridgeOf(t, nil, nil, served{"echo", echoes}, served{"caller", func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(ctx, capNamed("echo"))
			if err != nil {
				return err
			}
			r.Go(func(ctx context.Context) error {
				arg := call.Arg("media:")
				for i := range n {
					if _, err := arg.WriteContext(ctx, []byte(text(i))); err != nil {
						return err
					}
					if err := arg.Flush(ctx); err != nil {
						return err
					}
				}
				return call.Finish(ctx)
			})
			got, err := call.Response().CollectBytes(ctx)
			if err != nil {
				return err
			}
			return r.Output().EmitItem(ctx, got, nil)
		}})
		h := cartridgetest.Start(t, c, cartridgetest.WithWindow(4))
		outer := h.Request(capNamed("caller")).End()
		call := h.WantPeerCall(capNamed("echo"))
		inner := h.Request(capNamed("echo")) // the host's leg to the handler has an id of its own
		require.NotEqual(t, call.ID(), inner.ID())
		for i := range n {
			call.WantItems(text(i))
			inner.Chunk(text(i))
			inner.WantItems(text(i))
			call.Chunk(text(i))
		}
		call.WantBody()
		inner.End()
		inner.WantEnd()
		call.End()
		outer.WantItems(want).WantEnd()
		h.WantIdle()
	})
}

func TestNoPeer(t *testing.T) {
	t.Run("R-7.60 where there is no host a call is refused and has no effect", func(t *testing.T) {
		_, err := bifaci.NoPeer.Call(t.Context(), peerCap)
		require.ErrorIs(t, err, bifaci.ErrPeerUnsupported)
		_, err = bifaci.CallBytes(t.Context(), bifaci.NoPeer, peerCap, bifaci.BytesArg{MediaURN: textMedia, Value: []byte("x")})
		require.ErrorIs(t, err, bifaci.ErrPeerUnsupported)
	})
	t.Run("R-12.65 a host that serves no calls refuses at once, so the caller never hangs", func(t *testing.T) {
		c := cartridgetest.Connect(t, cartridgetest.Serving(t, workCap, func(ctx context.Context, r *bifaci.Request) error {
			resp, err := bifaci.CallBytes(ctx, r.Peer(), peerCap, bifaci.BytesArg{MediaURN: textMedia, Value: make([]byte, 1<<20)})
			if err != nil {
				return err
			}
			_, err = resp.CollectBytes(ctx)
			return err
		}))
		_, err := c.Call(t.Context(), workCap)
		got := wantFailure(t, err, failure.NoHandler, failure.Environment)
		assert.Contains(t, got.Message, "elsewhere")
	})
}
