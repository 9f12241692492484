package bifaci_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

type runKey struct{}

func TestRequestIsWhatTheHandlerSees(t *testing.T) {
	t.Run("R-6.1 id, cap, pattern, peer, network, context of the run", func(t *testing.T) {
		type seen struct {
			id           frame.ID
			cap, pattern string
			run          any
			peer         bifaci.PeerInvoker
			network      error
			same         bool
		}
		got := make(chan seen, 2)
		c := cartridgetest.Serving(t, `cap:out="media:enc=utf-8";in="media:enc=utf-8";work`, func(ctx context.Context, r *bifaci.Request) error {
			got <- seen{r.ID(), r.CapURN(), r.Pattern(), ctx.Value(runKey{}), r.Peer(), r.Network().Allow(bifaci.ReachTelemetry), ctx == r.Context()}
			return nil
		})
		h := cartridgetest.Start(t, c, cartridgetest.WithContext(context.WithValue(t.Context(), runKey{}, "this run")))
		spelled := `cap:work;in="media:enc=utf-8";out="media:enc=utf-8"`
		for _, id := range []frame.ID{frame.NewUUID(), frame.UintID(7)} {
			h.Request(spelled, cartridgetest.WithID(id)).End().WantEnd()
			s := <-got
			assert.Equal(t, id, s.id)
			assert.Equal(t, spelled, s.cap, "the cap as the requester wrote it")
			assert.Equal(t, workCap, s.pattern, "the pattern in canonical form")
			assert.Equal(t, "this run", s.run)
			assert.NotNil(t, s.peer)
			assert.NoError(t, s.network)
			assert.True(t, s.same)
		}
	})
}

func TestTakeInput(t *testing.T) {
	t.Run("R-6.2 exactly one of many callers wins", func(t *testing.T) {
		var won, lost atomic.Int32
		h := worker(t, 4, func(_ context.Context, r *bifaci.Request) error {
			var callers sync.WaitGroup
			for range 64 {
				callers.Go(func() {
					switch p, err := r.TakeInput(); {
					case err == nil && p != nil:
						won.Add(1)
					case errors.Is(err, bifaci.ErrInputTaken) && p == nil:
						lost.Add(1)
					}
				})
			}
			callers.Wait()
			return nil
		})
		h.Request(workCap).End().WantEnd()
		assert.EqualValues(t, 1, won.Load())
		assert.EqualValues(t, 63, lost.Load())
	})
	t.Run("R-6.2 also when the first result was never read, and after Input", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			if _, err := r.Input(ctx, textMedia); err != nil {
				return err
			}
			if _, err := r.Input(ctx, textMedia); err != nil {
				return err // Input may be asked again
			}
			_, err := r.TakeInput()
			return err
		})
		got := h.Request(workCap).Chunk("x").End().WantErr("HANDLER_ERROR", failure.Internal)
		assert.Contains(t, got.Message, "taken")
	})
	virtual(t, "R-6.3 R-10.27 an input that nobody takes is held back while the handler runs and dropped afterwards", func(t *testing.T) {
		done := make(chan struct{})
		h := worker(t, 4, func(context.Context, *bifaci.Request) error {
			<-done
			return nil
		})
		req := h.Request(workCap)
		s := req.Stream("body", textMedia)
		for range 4 {
			s.Chunk("unread")
		}
		wantStill(t, req)
		assert.Empty(t, req.Grants("body"), "nobody reads, so nothing is granted")
		close(done)
		req.WantEnd()
		h.WantIdle()
	})
	virtual(t, "R-6.3 R-10.24 what a finished handler has not read is credited until its terminal", func(t *testing.T) {
		h := worker(t, 2, func(ctx context.Context, r *bifaci.Request) error {
			out := r.Output()
			for range 2 {
				if err := out.EmitCBOR(ctx, 1); err != nil {
					return err
				}
			}
			_, err := out.Write([]byte("the close waits for credit"))
			return err
		})
		req := h.Request(workCap)
		s := req.Stream("body", textMedia)
		for range 20 { // ten windows: only credit for dropped chunks lets them through
			s.Chunk("unread")
		}
		wantStill(t, req)
		assert.EqualValues(t, 20, sum(req.Grants("body")), "each dropped chunk is granted back once")
		req.Grant(1)
		req.WantItems(uint64(1), uint64(1), "the close waits for credit")
		req.WantEnd()
		h.WantIdle()
	})
}

func TestHandlerContext(t *testing.T) {
	// blocked is a handler that starts its output, waits for the end of its context and hands the cause out. A request that is
	// stopped before its handler has started gets none, so the tests wait for the stream.
	blocked := func() (bifaci.Handler, chan error) {
		causes := make(chan error, 1)
		return func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().Start(); err != nil {
				causes <- err
				return err
			}
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return errors.New("the handler's own error")
		}, causes
	}
	t.Run("R-6.4 R-8.20 a cancel is the cause, with its reason", func(t *testing.T) {
		handler, causes := blocked()
		h := worker(t, 4, handler)
		req := h.Request(workCap)
		req.WantStream()
		req.Cancel(failure.UserCancel())
		var cancelled *failure.CancelledError
		require.ErrorAs(t, <-causes, &cancelled)
		assert.Equal(t, failure.UserCancel(), cancelled.Reason)
		req.WantErr("CANCELLED", failure.User)
	})
	t.Run("R-6.4 a poison is the cause", func(t *testing.T) {
		handler, causes := blocked()
		h := worker(t, 4, handler)
		req := h.Request(workCap)
		req.WantStream()
		req.Send(cartridgetest.ChunkFrame("never started", 0, cartridgetest.Bytes("x")))
		var fault *failure.Failure
		require.ErrorAs(t, <-causes, &fault)
		assert.Equal(t, "PROTOCOL_ERROR", fault.Code)
		req.WantErr("PROTOCOL_ERROR", failure.Internal)
	})
	t.Run("R-6.4 R-2.33 a write failure is the cause", func(t *testing.T) {
		handler, causes := blocked()
		h := worker(t, 4, handler)
		h.Request(workCap).WantStream()
		gone := errors.New("the host is gone")
		h.BreakOutput(gone)
		h.Send(cartridgetest.HeartbeatFrame(nil)) // its answer is the write that fails
		cause := <-causes
		assert.ErrorIs(t, cause, bifaci.ErrOutputClosed)
		assert.ErrorIs(t, cause, gone)
		assert.ErrorIs(t, h.Wait(), gone)
	})
	t.Run("R-6.4 R-2.32 broken input is the cause", func(t *testing.T) {
		handler, causes := blocked()
		h := worker(t, 4, handler)
		req := h.Request(workCap)
		req.WantStream()
		h.SendBytes([]byte{0, 0, 0, 0})
		var fault *failure.Failure
		require.ErrorAs(t, <-causes, &fault)
		assert.Equal(t, "PROTOCOL_ERROR", fault.Code)
		req.WantErr("PROTOCOL_ERROR", failure.Internal)
		assert.Error(t, h.Wait())
	})
	t.Run("R-6.4 R-2.34 the end of the run is the cause", func(t *testing.T) {
		handler, causes := blocked()
		h := worker(t, 4, handler)
		req := h.Request(workCap)
		stop := errors.New("shutting down")
		req.WantStream()
		h.Stop(stop)
		cause := <-causes
		assert.ErrorIs(t, cause, stop)
		req.WantErr("ABORTED", failure.Environment)
		assert.ErrorIs(t, h.Wait(), stop)
	})
	virtual(t, "R-6.4 it ends after the terminal", func(t *testing.T) {
		kept := make(chan context.Context, 1)
		h := worker(t, 4, func(ctx context.Context, _ *bifaci.Request) error {
			kept <- ctx
			return nil
		})
		h.Request(workCap).End().WantEnd()
		synctest.Wait()
		assert.Error(t, (<-kept).Err())
	})
	virtual(t, "R-6.5 R-6.36 the handler starts with the REQ and answers before any of the body has come", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().EmitItem(ctx, "before the body", nil); err != nil {
				return err
			}
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			it, err := s.Next(ctx)
			if err != nil {
				return err
			}
			return r.Output().EmitItem(ctx, it.Bytes, nil)
		})
		req := h.Request(workCap)
		req.WantItems("before the body")
		req.Chunk("during the body")
		req.WantItems("during the body")
		req.WantEnd() // before the body's end
	})
}
