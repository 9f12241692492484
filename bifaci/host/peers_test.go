package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

// through is a handler that calls another cap with its own input, piece by piece, and answers with that cap's answer.
func through(capURN string) bifaci.Handler {
	return func(ctx context.Context, r *bifaci.Request) error {
		in, err := r.Input(ctx, "media:")
		if err != nil {
			return err
		}
		call, err := r.Peer().Call(ctx, capURN)
		if err != nil {
			return err
		}
		var sending sync.WaitGroup
		sending.Go(func() {
			out := call.Arg("media:")
			for p, err := range in.Pieces(ctx) {
				if err != nil || out.Forward(ctx, p) != nil {
					return
				}
			}
			_ = call.Finish(ctx)
		})
		defer sending.Wait()
		for it, err := range call.Response().Items(ctx) {
			if err != nil {
				return err
			}
			if it.Log != nil {
				continue
			}
			if _, err := r.Output().WriteContext(ctx, it.Data.Bytes); err != nil {
				return err
			}
			if err := r.Output().Flush(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// limited serves a cartridge with limits of its own.
func (th *theatre) limited(path string, l frame.Limits, caps ...capability) host.Spec {
	spec := th.cartridge(path, caps...)
	th.on(path, serve(func() *bifaci.Cartridge { return testCartridge(path, caps, bifaci.WithLimits(l)) }))
	return spec
}

func window(n uint64) frame.Limits {
	l := frame.DefaultLimits()
	l.InitialCredit = n
	return l
}

// chunksOf is a body of n chunks for a link with that max_chunk, each different.
func chunksOf(n, size int) []byte {
	var b bytes.Buffer
	for i := range n {
		line := fmt.Sprintf("%08d", i)
		b.WriteString(strings.Repeat(line, size/len(line)))
	}
	return b.Bytes()
}

func TestPeerCalls(t *testing.T) {
	virtual(t, "R-12.65 one cartridge calls another; an unknown cap is answered at once", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		b := register(t, h, th.cartridge("b", capability{urn: named("echo"), handler: echo}))
		a := register(t, h, th.cartridge("a", capability{urn: named("through"), handler: through(named("echo"))},
			capability{urn: named("lost"), handler: through(named("nobody"))}))
		got, err := h.CallBytes(t.Context(), named("through"), host.Argument{MediaURN: "media:", Value: []byte("over and back")})
		require.NoError(t, err)
		assert.Equal(t, "over and back", string(got))
		_, err = h.CallBytes(t.Context(), named("lost"), host.Argument{MediaURN: "media:", Value: []byte("x")})
		wantFailure(t, err, failure.NoHandler, failure.Environment)
		synctest.Wait()
		for _, id := range []host.ID{a, b} {
			r := record(t, h, id)
			assert.Zero(t, r.Stats.ActiveRequests, "R-12.63: nothing is left of a request")
			assert.Zero(t, r.Stats.PeerRequests)
		}
	})
	virtual(t, "R-12.65 R-12.14 the callee is started for a peer call, whose frames wait within the window", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		spec := th.cartridge("b", capability{urn: named("echo"), handler: echo})
		good := th.plays["b"]
		th.on("b", func(ctx context.Context, r *run) int { time.Sleep(10 * time.Second); return good(ctx, r) })
		register(t, h, spec)
		register(t, h, th.cartridge("a", capability{urn: named("through"), handler: through(named("echo"))}))
		want := chunksOf(20, 4096)
		got, err := h.CallBytes(t.Context(), named("through"), host.Argument{MediaURN: "media:", Value: want})
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got))
	})
	virtual(t, "R-12.65 R-12.15 a callee that cannot be started fails the peer call", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host()
		spec := th.cartridge("b", capability{urn: named("echo"), handler: echo})
		th.on("b", func(context.Context, *run) int { return 3 })
		register(t, h, spec)
		register(t, h, th.cartridge("a", capability{urn: named("through"), handler: through(named("echo"))}))
		_, err := h.CallBytes(t.Context(), named("through"), host.Argument{MediaURN: "media:", Value: []byte("x")})
		wantFailure(t, err, failure.SpawnFailed, failure.Environment)
	})
	for _, w := range []uint64{1, 4} {
		virtual(t, fmt.Sprintf("R-12.66 R-7.50 a cap calls a cap of its own process, 200 chunks each way, window %d", w), func(t *testing.T) {
			th := newTheatre(t)
			h := th.host(smallWindow(w, 512))
			id := register(t, h, th.cartridge("a", capability{urn: named("echo"), handler: echo}, capability{urn: named("through"), handler: through(named("echo"))}))
			want := chunksOf(200, 512)
			got, err := h.CallBytes(t.Context(), named("through"), host.Argument{MediaURN: "media:", Value: want})
			require.NoError(t, err)
			assert.True(t, bytes.Equal(want, got), "%d bytes came back, %d were sent", len(got), len(want))
			assert.Equal(t, 1, th.count("a"))
			synctest.Wait()
			assert.Zero(t, record(t, h, id).Stats.ActiveRequests)
		})
	}
	for _, w := range [][3]uint64{{32, 4, 1000}, {4, 32, 200}, {32, 1, 200}, {1, 32, 200}} {
		virtual(t, fmt.Sprintf("R-12.68 R-12.67 windows %d and %d, %d chunks", w[0], w[1], w[2]), func(t *testing.T) {
			th := newTheatre(t)
			h := th.host(smallWindow(32, 256))
			register(t, h, th.limited("b", window(w[1]), capability{urn: named("echo"), handler: echo}))
			register(t, h, th.limited("a", window(w[0]), capability{urn: named("through"), handler: through(named("echo"))}))
			want := chunksOf(int(w[2]), 256)
			got, err := h.CallBytes(t.Context(), named("through"), host.Argument{MediaURN: "media:", Value: want})
			require.NoError(t, err)
			assert.True(t, bytes.Equal(want, got), "%d bytes came back, %d were sent", len(got), len(want))
		})
	}
	virtual(t, "R-12.65 R-12.68 A calls B calls A, 200 chunks, windows 32 and 4", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host(smallWindow(32, 512))
		register(t, h, th.limited("a", window(32), capability{urn: named("outer"), handler: through(named("middle"))}, capability{urn: named("echo"), handler: echo}))
		register(t, h, th.limited("b", window(4), capability{urn: named("middle"), handler: through(named("echo"))}))
		want := chunksOf(200, 512)
		got, err := h.CallBytes(t.Context(), named("outer"), host.Argument{MediaURN: "media:", Value: want})
		require.NoError(t, err)
		assert.True(t, bytes.Equal(want, got), "%d bytes came back, %d were sent", len(got), len(want))
	})
}

// chain is two attached fakes: A has been called by the host, and has called B.
type chain struct {
	h          *host.Host
	a, b       *fake
	call       *host.Call
	outer      Frame // the host's REQ to A
	peer, body Frame // A's REQ, as A has sent it and as B has got it
}

// newChain begins a chain whose links have windows of their own.
func newChain(t *testing.T, a, b frame.Limits) *chain {
	t.Helper()
	c := &chain{h: closing(t, host.WithHeartbeat(0, 0))}
	c.a, _ = attachLimited(t, c.h, a, plainCap("outer"))
	c.b, _ = attachLimited(t, c.h, b, plainCap("inner"))
	var err error
	c.call, err = c.h.Call(t.Context(), named("outer"))
	require.NoError(t, err)
	c.outer = c.a.want(frame.TypeReq)
	c.peer = c.invoke(t, named("inner"))
	c.body = c.b.want(frame.TypeReq)
	return c
}

// invoke makes A call a cap on behalf of the host's request.
func (c *chain) invoke(t *testing.T, capURN string) Frame {
	t.Helper()
	req := cartridgetest.ReqFrame(capURN).With(frame.KeyID, idBytes(frame.NewUUID())).With(frame.KeyMeta, map[string]any{"parent_rid": c.outer[frame.KeyID]})
	c.a.answer(req, req)
	return req
}

func TestRelay(t *testing.T) {
	l := frame.DefaultLimits()
	virtual(t, "R-12.62 R-12.65 the host gives the call a routing id, passes every frame on in order, and answers on the caller's id", func(t *testing.T) {
		c := newChain(t, l, l)
		assert.True(t, c.body.Has(frame.KeyRoutingID))
		assert.NotEqual(t, c.outer[frame.KeyRoutingID], c.body[frame.KeyRoutingID])
		assert.Equal(t, named("inner"), c.body.Text(frame.KeyCap))
		meta := map[string]any{"tone": "dry"}
		c.a.answer(c.peer, cartridgetest.StartFrame("s", "media:x").With(frame.KeyMeta, meta), cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes("one")),
			cartridgetest.StreamEndFrame("s", 1), Frame{frame.KeyVersion: uint64(6), frame.KeyType: uint64(frame.TypeEnd), frame.KeyEOF: true})
		start := c.b.want(frame.TypeStreamStart)
		assert.Equal(t, meta, start.Meta())
		assert.Equal(t, "media:x", start.Text(frame.KeyMediaURN))
		assert.Equal(t, c.body[frame.KeyRoutingID], start[frame.KeyRoutingID])
		assert.Equal(t, cartridgetest.Bytes("one"), c.b.want(frame.TypeChunk).Payload())
		c.b.want(frame.TypeStreamEnd)
		assert.Equal(t, uint64(4), c.b.want(frame.TypeEnd).Seq())
		c.b.answer(c.body, cartridgetest.LogFrame("info", failure.Internal, "working"))
		c.b.answer(c.body, answerBytes("back")...)
		log := c.a.want(frame.TypeLog)
		assert.Equal(t, c.peer.ID(), log.ID())
		for _, want := range []frame.Type{frame.TypeStreamStart, frame.TypeChunk, frame.TypeStreamEnd, frame.TypeEnd} {
			assert.Equal(t, c.peer.ID(), c.a.want(want).ID())
		}
		// what still comes changes nothing.
		c.a.answer(c.peer, cartridgetest.ChunkFrame("s", 1, cartridgetest.Bytes("late")))
		c.b.answer(c.body, cartridgetest.EndFrame(true))
		c.a.answer(c.outer, answerBytes("whole")...)
		got, err := c.call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "whole", string(got))
	})
	virtual(t, "R-12.67 grants are passed on unchanged, to whom they are for, and none are made", func(t *testing.T) {
		c := newChain(t, l, l)
		c.a.answer(c.peer, cartridgetest.StartFrame("s", "media:"), cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes("one")))
		c.b.want(frame.TypeStreamStart)
		c.b.want(frame.TypeChunk)
		c.b.answer(c.body, cartridgetest.CreditFrame(frame.CreditRequest, "s", 1))
		g := c.a.want(frame.TypeCredit)
		assert.Equal(t, c.peer.ID(), g.ID())
		assert.Equal(t, uint64(1), g.Uint(frame.KeyCredit))
		assert.Equal(t, "request", g.Meta()["credit_dir"])
		c.b.answer(c.body, cartridgetest.StartFrame("r", "media:"), cartridgetest.ChunkFrame("r", 0, cartridgetest.Bytes("two")))
		c.a.want(frame.TypeStreamStart)
		c.a.want(frame.TypeChunk)
		c.a.send(cartridgetest.CreditFrame(frame.CreditResponse, "r", 1).With(frame.KeyID, c.peer[frame.KeyID]))
		g = c.b.want(frame.TypeCredit)
		assert.Equal(t, c.body.ID(), g.ID())
		assert.Equal(t, "response", g.Meta()["credit_dir"])
		assert.Equal(t, c.body[frame.KeyRoutingID], g[frame.KeyRoutingID])
		synctest.Wait()
		assert.Empty(t, c.a.got)
		assert.Empty(t, c.b.got)
	})
	virtual(t, "R-12.68 what the smaller window does not take is held back, ends wait behind it, CANCEL does not", func(t *testing.T) {
		c := newChain(t, window(8), window(2))
		frames := []Frame{cartridgetest.StartFrame("s", "media:")}
		for i := range uint64(8) {
			frames = append(frames, cartridgetest.ChunkFrame("s", i, cartridgetest.Bytes("x")))
		}
		frames = append(frames, cartridgetest.StreamEndFrame("s", 8), Frame{frame.KeyVersion: uint64(6), frame.KeyType: uint64(frame.TypeEnd), frame.KeyEOF: true})
		c.a.answer(c.peer, frames...)
		c.b.want(frame.TypeStreamStart)
		c.b.want(frame.TypeChunk)
		c.b.want(frame.TypeChunk)
		synctest.Wait()
		assert.Empty(t, c.b.got, "no more than the window")
		c.b.answer(c.body, cartridgetest.CreditFrame(frame.CreditRequest, "s", 3))
		for i := range uint64(3) {
			assert.Equal(t, 2+i, c.b.want(frame.TypeChunk).Uint(frame.KeyChunkIndex))
		}
		synctest.Wait()
		assert.Empty(t, c.b.got)
		c.a.want(frame.TypeCredit)
		c.b.answer(c.body, cartridgetest.CreditFrame(frame.CreditRequest, "s", 3))
		for range 3 {
			c.b.want(frame.TypeChunk)
		}
		c.b.want(frame.TypeStreamEnd)
		c.b.want(frame.TypeEnd)

		c = newChain(t, window(8), window(2))
		c.a.answer(c.peer, frames[:5]...)
		c.a.send(cartridgetest.CancelFrame(failure.UserCancel()).With(frame.KeyID, c.peer[frame.KeyID]))
		c.b.want(frame.TypeStreamStart)
		c.b.want(frame.TypeChunk)
		c.b.want(frame.TypeChunk)
		c.b.want(frame.TypeCancel)
	})
	virtual(t, "R-12.68 R-12.71 a source that exceeds its own window fails the call, so that no more than the difference is ever held", func(t *testing.T) {
		c := newChain(t, window(8), window(2))
		c.a.answer(c.peer, cartridgetest.StartFrame("s", "media:"))
		for i := range uint64(9) {
			c.a.answer(c.peer, cartridgetest.ChunkFrame("s", i, cartridgetest.Bytes("x")))
		}
		e := c.a.want(frame.TypeErr)
		assert.Equal(t, "CREDIT_VIOLATION", e.Meta()["code"])
		c.b.want(frame.TypeStreamStart)
		c.b.want(frame.TypeChunk)
		c.b.want(frame.TypeChunk)
		assert.Equal(t, "ABORTED", c.b.want(frame.TypeCancel).Meta()["code"])
	})
	virtual(t, "R-12.69 a frame that the other link does not take ends that request only", func(t *testing.T) {
		small := frame.DefaultLimits()
		small.MaxFrame = 4096
		c := newChain(t, l, small)
		c.a.answer(c.peer, cartridgetest.StartFrame("s", "media:"), cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes(strings.Repeat("x", 5000))))
		e := c.a.want(frame.TypeErr)
		assert.Equal(t, "FRAME_TOO_LARGE", e.Meta()["code"])
		assert.Equal(t, "environment", e.Meta()["attribution_class"])
		c.b.want(frame.TypeStreamStart)
		c.b.want(frame.TypeCancel)
		second := c.invoke(t, named("inner"))
		again := c.b.want(frame.TypeReq)
		c.b.answer(again, answerBytes("fine")...)
		for _, want := range []frame.Type{frame.TypeStreamStart, frame.TypeChunk, frame.TypeStreamEnd, frame.TypeEnd} {
			assert.Equal(t, second.ID(), c.a.want(want).ID())
		}
	})
	virtual(t, "R-12.69 the same for an answer", func(t *testing.T) {
		small := frame.DefaultLimits()
		small.MaxFrame = 4096
		c := newChain(t, small, l)
		c.b.answer(c.body, cartridgetest.StartFrame("s", "media:"), cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes(strings.Repeat("x", 5000))))
		c.a.want(frame.TypeStreamStart)
		assert.Equal(t, "FRAME_TOO_LARGE", c.a.want(frame.TypeErr).Meta()["code"])
		c.b.want(frame.TypeCancel)
	})
	virtual(t, "R-12.80 R-12.63 a cancel goes down to the calls below, once, with the reason and never by force", func(t *testing.T) {
		c := newChain(t, l, l)
		third, _ := attachLimited(t, c.h, l, plainCap("third"))
		deep := cartridgetest.ReqFrame(named("third")).With(frame.KeyID, idBytes(frame.NewUUID())).With(frame.KeyMeta, map[string]any{"parent_rid": c.body[frame.KeyID]})
		c.b.answer(deep, deep)
		third.want(frame.TypeReq)
		reason := failure.CancelReason{Code: "SUPERSEDED", Class: failure.User, Message: "a newer take"}
		c.call.Cancel(reason)
		c.a.want(frame.TypeCancel)
		assert.Equal(t, "SUPERSEDED", c.a.want(frame.TypeErr).Meta()["code"], "the caller of the peer call gets the reason at once")
		for _, f := range []*fake{c.b, third} {
			got := f.want(frame.TypeCancel)
			assert.Equal(t, "SUPERSEDED", got.Meta()["code"])
			assert.Equal(t, "user", got.Meta()["attribution_class"])
			assert.Equal(t, "a newer take", got.Meta()["message"])
			assert.False(t, got.Flag(frame.KeyForceKill))
			if f == c.b {
				c.b.want(frame.TypeErr)
			}
		}
		// A, as every good cartridge, cancels its calls itself.
		c.a.send(cartridgetest.CancelFrame(reason).With(frame.KeyID, c.peer[frame.KeyID]))
		// And what it calls in that moment is cancelled as well.
		late := c.invoke(t, named("inner"))
		e := c.a.want(frame.TypeErr)
		assert.Equal(t, late.ID(), e.ID())
		assert.Equal(t, "SUPERSEDED", e.Meta()["code"])
		synctest.Wait()
		assert.Empty(t, c.b.got, "once")
	})
	virtual(t, "R-12.84 R-12.80 a cartridge cancels its own call: its handler gets it with the routing id, by nobody's force", func(t *testing.T) {
		c := newChain(t, l, l)
		reason := failure.UserCancel()
		reason.ForceKill = true
		c.a.send(cartridgetest.CancelFrame(reason).With(frame.KeyID, c.peer[frame.KeyID]))
		got := c.b.want(frame.TypeCancel)
		assert.Equal(t, c.body[frame.KeyRoutingID], got[frame.KeyRoutingID])
		assert.False(t, got.Flag(frame.KeyForceKill))
		assert.Equal(t, "CANCELLED", c.a.want(frame.TypeErr).Meta()["code"])
		c.b.answer(c.body, cartridgetest.ErrFrame("CANCELLED", failure.User, "Cancelled by user"))
		synctest.Wait()
		assert.Empty(t, c.a.got, "one terminal")
		require.Len(t, c.h.Cartridges(), 2)
	})
	virtual(t, "R-12.54 R-12.50 R-12.55 a dead callee ends the call at its caller, with the next seq", func(t *testing.T) {
		c := newChain(t, l, l)
		c.b.answer(c.body, cartridgetest.StartFrame("r", "media:"), cartridgetest.ChunkFrame("r", 0, cartridgetest.Bytes("two")))
		require.NoError(t, c.b.out.Close())
		c.a.want(frame.TypeStreamStart)
		assert.Equal(t, uint64(1), c.a.want(frame.TypeChunk).Seq())
		e := c.a.want(frame.TypeErr)
		assert.Equal(t, "CARTRIDGE_DIED", e.Meta()["code"])
		assert.Equal(t, "environment", e.Meta()["attribution_class"])
		assert.Equal(t, uint64(2), e.Seq())
	})
	virtual(t, "R-12.51 R-12.68 an answer that had come whole is still passed on when its cartridge has died", func(t *testing.T) {
		c := newChain(t, window(1), window(8))
		c.b.answer(c.body, answerBytes("one", "two", "three")...)
		require.NoError(t, c.b.out.Close())
		c.a.want(frame.TypeStreamStart)
		c.a.want(frame.TypeChunk)
		synctest.Wait()
		assert.Empty(t, c.a.got)
		c.a.send(cartridgetest.CreditFrame(frame.CreditResponse, "answer", 2).With(frame.KeyID, c.peer[frame.KeyID]))
		c.a.want(frame.TypeChunk)
		c.a.want(frame.TypeChunk)
		c.a.want(frame.TypeStreamEnd)
		c.a.want(frame.TypeEnd)
	})
	virtual(t, "R-12.54 calls of a dead cartridge are cancelled at their handlers as collateral", func(t *testing.T) {
		c := newChain(t, l, l)
		require.NoError(t, c.a.out.Close())
		got := c.b.want(frame.TypeCancel)
		assert.Equal(t, "ABORTED_COLLATERAL", got.Meta()["code"])
		assert.Equal(t, "environment", got.Meta()["attribution_class"])
		_, err := c.call.Response().Next(t.Context())
		wantFailure(t, err, failure.CartridgeDied, failure.Environment)
	})
	virtual(t, "R-12.81 R-12.54 by force: the process is killed, peer children elsewhere are cancelled", func(t *testing.T) {
		c := newChain(t, l, l)
		reason := failure.UserCancel()
		reason.ForceKill = true
		c.call.Cancel(reason)
		_, err := c.call.Response().Next(t.Context())
		wantFailure(t, err, failure.Cancelled, failure.User)
		assert.Equal(t, "CANCELLED", c.b.want(frame.TypeCancel).Meta()["code"])
		synctest.Wait()
		require.Len(t, c.h.Cartridges(), 1)
	})
	virtual(t, "R-12.70 a cartridge that reads slowly is no dead one, and its callers wait within their windows", func(t *testing.T) {
		c := newChain(t, l, l)
		c.b.stopReading()
		c.a.answer(c.peer, cartridgetest.StartFrame("s", "media:"))
		for i := range uint64(32) {
			c.a.answer(c.peer, cartridgetest.ChunkFrame("s", i, cartridgetest.Bytes(strings.Repeat("x", 100_000))))
		}
		time.Sleep(time.Hour)
		require.Len(t, c.h.Cartridges(), 2)
		assert.Empty(t, c.a.got, "no ERR")
		// Meanwhile A is heard, and the host's own caller waits under its context.
		c.a.answer(c.outer, answerBytes("whole")...)
		got, err := c.call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "whole", string(got))
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("enough"))
		defer cancel()
		_, err = c.h.Call(ctx, named("inner"))
		require.ErrorContains(t, err, "enough")
	})
	virtual(t, "R-12.63 a second REQ with a live id fails the call", func(t *testing.T) {
		c := newChain(t, l, l)
		c.a.send(c.peer)
		assert.Equal(t, "PROTOCOL_ERROR", c.a.want(frame.TypeErr).Meta()["code"])
		c.b.want(frame.TypeCancel)
	})
	virtual(t, "R-12.21 at the shutdown no ERR is made up", func(t *testing.T) {
		c := newChain(t, l, l)
		ended := inBackground(func() error { return c.h.Shutdown(t.Context()) })
		c.a.wantEnd()
		c.b.wantEnd()
		require.NoError(t, <-ended)
	})
}
