package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
)

// poisonous is a frame that breaks a rule: a CHUNK of a stream that was never started.
func poisonous() cartridgetest.Frame {
	return cartridgetest.ChunkFrame("never started", 0, cartridgetest.Bytes("x"))
}

// isPoison makes sure that an error is that of the poisonous frame.
func isPoison(t *testing.T, err error) {
	t.Helper()
	var f *failure.Failure
	if assert.ErrorAs(t, err, &f) {
		assert.Equal(t, failure.ProtocolError, f.Code)
		assert.Equal(t, failure.Internal, f.Class)
	}
}

func TestPoison(t *testing.T) {
	virtual(t, "R-3.50 the context ends with the cause and input and output fail with it", func(t *testing.T) {
		reading := make(chan struct{})
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			s, err := input.Next(ctx)
			if err != nil {
				return err
			}
			close(reading)
			// Its own context, so that it is not the request's that ends the call.
			own := context.Background()
			_, err = s.Next(own)
			isPoison(t, err)
			_, err = s.Next(own)
			isPoison(t, err)
			_, err = input.Next(own)
			isPoison(t, err)
			isPoison(t, context.Cause(ctx))
			isPoison(t, r.Output().EmitItem(own, "late", nil))
			_, err = r.Peer().Call(own, "cap:effect=none")
			isPoison(t, err)
			return nil
		}}))
		req := h.Request(capNamed("one"))
		req.Stream("s", "media:")
		<-reading
		synctest.Wait()
		req.Send(poisonous()).WantErr(failure.ProtocolError, failure.Internal)
		h.WantIdle()
	})
	virtual(t, "R-3.50 one who waits for credit is released", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(_ context.Context, r *bifaci.Request) error {
			for {
				if err := r.Output().EmitItem(context.Background(), "x", nil); err != nil {
					isPoison(t, err)
					return err
				}
			}
		}}), cartridgetest.WithWindow(1), cartridgetest.WithManualCredit())
		req := h.Request(capNamed("one")).WantItems("x")
		synctest.Wait()
		req.Send(poisonous()).WantErr(failure.ProtocolError, failure.Internal)
	})
	virtual(t, "R-3.50 its peer calls are cancelled as collateral", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(context.WithoutCancel(ctx), "cap:effect=none") // so that the request's context does not end it
			if err != nil {
				return err
			}
			_, err = call.Response().Next(context.Background())
			isPoison(t, err)
			return err
		}}))
		req := h.Request(capNamed("one"))
		call := h.WantPeerCall("cap:effect=none")
		req.Send(poisonous())
		reason := call.WantCancel()
		assert.Equal(t, failure.AbortedCollateral, reason.Code)
		assert.Equal(t, failure.Internal, reason.Class)
		assert.False(t, reason.ForceKill)
		req.WantErr(failure.ProtocolError, failure.Internal)
		h.WantIdle()
	})
	for name, result := range map[string]error{"success": nil, "its own error": failure.New("OWN", failure.Input, "own")} {
		virtual(t, "R-3.50 whatever the handler returns the poison is the terminal, without STREAM_END: "+name, func(t *testing.T) {
			g := newGate()
			h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
				if err := r.Output().EmitItem(ctx, "x", nil); err != nil {
					return err
				}
				<-g.release
				return result
			}}))
			req := h.Request(capNamed("one")).WantItems("x")
			req.Send(poisonous())
			h.Probe()
			synctest.Wait()
			assert.Nil(t, req.Terminal(), "not before the handler has returned")
			g.open()
			req.WantErr(failure.ProtocolError, failure.Internal)
			assert.Equal(t, []frame.Type{frame.TypeStreamStart, frame.TypeChunk, frame.TypeErr}, typesOf(req))
		})
	}
	virtual(t, "R-3.50 further frames are discarded and counted", func(t *testing.T) {
		g := newGate()
		c := cartridgeOf(t, nil, nil, served{"one", g.handle})
		h := cartridgetest.Start(t, c)
		req := h.Request(capNamed("one"))
		<-g.started
		req.Send(poisonous(), cartridgetest.StartFrame("s", "media:"), cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes("x")), poisonous(), cartridgetest.EndFrame(false))
		h.Probe()
		synctest.Wait()
		assert.Equal(t, map[stats.Reason]map[string]uint64{stats.Cancelled: {"stream_start": 1, "chunk": 2}}, c.Drops().ByReasonFrameType)
		g.open()
		req.WantErr(failure.ProtocolError, failure.Internal)
	})
	virtual(t, "R-3.50 the first of result, cancel and poison stands", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", g.handle}, served{"fails", func(context.Context, *bifaci.Request) error {
			return errors.New("own")
		}}))
		cancelFirst := h.Request(capNamed("one")).Cancel(failure.UserCancel()).Send(poisonous())
		poisonFirst := h.Request(capNamed("one")).Send(poisonous(), cartridgetest.CancelFrame(failure.UserCancel()))
		h.Probe()
		g.open()
		cancelFirst.WantErr(failure.Cancelled, failure.User)
		poisonFirst.WantErr(failure.ProtocolError, failure.Internal)
		resultFirst := h.Request(capNamed("fails"))
		resultFirst.WantErr(failure.HandlerError, failure.Internal)
		resultFirst.Send(poisonous())
		h.Probe()
		assert.Len(t, resultFirst.Frames(), 1)
	})
	t.Run("R-3.50 only this request fails", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", echoes}))
		var good, bad []*cartridgetest.Request
		for i := range 50 {
			good = append(good, h.Request(capNamed("one")).Chunk(fmt.Sprint(i)))
			bad = append(bad, h.Request(capNamed("one")).Chunk("x").Send(poisonous()))
		}
		for i := range good {
			good[i].Chunk("more").End().WantItems(fmt.Sprint(i), "more").WantEnd()
			bad[i].WantErr(failure.ProtocolError, failure.Internal)
		}
		h.WantIdle()
	})
	virtual(t, "R-3.51 the slot is released when the handler returns, not before", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"one", g.handle}))
		req := h.Request(capNamed("one"))
		<-g.started
		next := h.Request(capNamed("one")).End()
		req.Send(poisonous())
		h.Probe()
		synctest.Wait()
		assert.EqualValues(t, 1, poolOf(t, h, "all").Active)
		assert.EqualValues(t, 1, poolOf(t, h, "all").Queued)
		assert.Empty(t, g.started)
		g.open()
		req.WantErr(failure.ProtocolError, failure.Internal)
		next.WantEnd()
		h.WantIdle()
	})
}
