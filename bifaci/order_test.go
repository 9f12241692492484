package bifaci_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
)

// numbered is a body with one stream of n chunks, "a", "b", …, numbered from 1 on, as the REQ has 0.
func numbered(n int) (frames []cartridgetest.Frame, items []any) {
	frames = append(frames, cartridgetest.StartFrame("s", "media:"))
	for i := range n {
		s := string(rune('a' + i))
		items = append(items, s)
		frames = append(frames, cartridgetest.ChunkFrame("s", uint64(i), cartridgetest.Bytes(s)))
	}
	frames = append(frames, cartridgetest.StreamEndFrame("s", uint64(n)), cartridgetest.EndFrame(false))
	for i := range frames {
		frames[i] = frames[i].With(frame.KeySeq, uint64(i+1))
	}
	return frames, items
}

func TestReorderOnALink(t *testing.T) {
	on := []bifaci.Option{bifaci.WithReorder(true)}
	virtual(t, "R-3.61 off by default: seq is not looked at", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", echoes}))
		frames, items := numbered(3)
		for i := range frames {
			frames[i] = frames[i].With(frame.KeySeq, uint64(7-i))
		}
		h.Request(capNamed("one")).Send(frames...).WantItems(items...).WantEnd()
	})
	virtual(t, "R-3.61 with the option frames are put into order between decode and route", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, on, served{"one", echoes}))
		random := rand.New(rand.NewPCG(1, 2))
		for range 50 {
			frames, items := numbered(20)
			random.Shuffle(len(frames), func(i, j int) { frames[i], frames[j] = frames[j], frames[i] })
			h.Request(capNamed("one")).Send(frames...).WantItems(items...).WantEnd()
		}
		h.WantIdle()
	})
	virtual(t, "R-3.61 a REQ that comes last", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, on, served{"one", echoes}))
		frames, items := numbered(3)
		req := h.Unsent()
		h.Check().Ignore(req.ID()) // it would have to put the frames into order itself
		req.Send(append(frames, cartridgetest.ReqFrame(capNamed("one")).With(frame.KeySeq, uint64(0)))...).WantItems(items...).WantEnd()
		h.WantIdle()
	})
	virtual(t, "R-3.61 the flows of two requests do not wait for each other", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, on, served{"one", echoes}))
		frames, items := numbered(3)
		late := h.Request(capNamed("one")).Send(frames[1:]...)
		h.Request(capNamed("one")).Send(frames...).WantItems(items...).WantEnd()
		late.Send(frames[0]).WantItems(items...).WantEnd()
	})
	for name, seqs := range map[string][]uint64{"a seq twice": {1, 1}, "a seq that is held already": {3, 3}, "a seq of the past": {0}} {
		virtual(t, "R-3.61 poisons the request and not the link: "+name, func(t *testing.T) {
			c := cartridgeOf(t, nil, on, answers("other"), served{"one", func(ctx context.Context, _ *bifaci.Request) error {
				<-ctx.Done()
				return nil
			}})
			h := cartridgetest.Start(t, c)
			req := h.Request(capNamed("one"))
			for _, n := range seqs {
				req.Send(cartridgetest.LogFrame("info", failure.Internal, "x").With(frame.KeySeq, n))
			}
			req.WantErr(failure.ProtocolError, failure.Internal)
			h.Request(capNamed("other")).End().WantItems("other").WantEnd()
			h.WantIdle()
		})
	}
	virtual(t, "R-3.61 more than max_reorder_buffer to hold", func(t *testing.T) {
		limits := frame.DefaultLimits()
		limits.MaxReorderBuffer = 4
		g := newGate()
		c := cartridgeOf(t, nil, on, served{"one", g.handle})
		h := cartridgetest.Start(t, c, cartridgetest.WithLimits(limits))
		req := h.Request(capNamed("one"))
		r := <-g.started
		frames, _ := numbered(8)
		req.Send(frames[1:6]...)
		<-r.Context().Done()
		h.Probe()
		synctest.Wait()
		assert.EqualValues(t, 5, c.Drops().ByReason[stats.Cancelled], "those that were held and the one too many")
		g.open()
		assert.Contains(t, req.WantErr(failure.ProtocolError, failure.Internal).Message, "overflow")
	})
	virtual(t, "R-3.61 an answer to a peer call that breaks its order fails the call", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, on, served{"one", func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(ctx, "cap:effect=none")
			if err != nil {
				return err
			}
			_, err = call.Response().Next(ctx)
			return err
		}}))
		req := h.Request(capNamed("one")).End()
		call := h.WantPeerCall("cap:effect=none")
		call.Send(cartridgetest.StartFrame("s", "media:").With(frame.KeySeq, uint64(0)), cartridgetest.StartFrame("t", "media:").With(frame.KeySeq, uint64(0)))
		assert.Equal(t, failure.Aborted, call.WantCancel().Code)
		req.WantErr(failure.ProtocolError, failure.Internal)
		h.WantIdle()
	})
	virtual(t, "R-3.61 a REQ that cannot be put into its flow is answered", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, on, answers("one")))
		req := h.Unsent().Send(cartridgetest.LogFrame("info", failure.Internal, "x").With(frame.KeySeq, uint64(0)),
			cartridgetest.ReqFrame(capNamed("one")).With(frame.KeySeq, uint64(0)))
		req.WantErr(failure.ProtocolError, failure.Internal)
	})
	virtual(t, "R-3.61 what is held at the end of the input is counted", func(t *testing.T) {
		c := cartridgeOf(t, nil, on, served{"one", echoes})
		h := cartridgetest.Start(t, c)
		frames, _ := numbered(3)
		req := h.Request(capNamed("one")).Send(frames[1:]...)
		h.CloseInput()
		req.WantErr(failure.ConnectionClosed, failure.Environment)
		require.NoError(t, h.Wait())
		assert.EqualValues(t, 5, c.Drops().Total)
	})
}
