package bifaci_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// peerCap is what handlers call elsewhere.
const peerCap = `cap:in="media:enc=utf-8";out="media:enc=utf-8";elsewhere`

// caller serves a handler that makes one peer call and works on it with f. It returns the request and, as the test is the callee,
// the call. The host grants nothing by itself.
func caller(t *testing.T, window uint64, f func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error) (*cartridgetest.Host,
	*cartridgetest.Request, *cartridgetest.PeerCall) {
	t.Helper()
	h := worker(t, window, func(ctx context.Context, r *bifaci.Request) error {
		c, err := r.Peer().Call(ctx, peerCap)
		if err != nil {
			return err
		}
		return f(ctx, r, c)
	})
	req := h.Request(workCap)
	return h, req, h.WantPeerCall(peerCap)
}

// bodyTypes are the types of the frames of a call's body so far, joined by spaces.
func bodyTypes(p *cartridgetest.PeerCall) string {
	var names []string
	for _, f := range p.Frames() {
		names = append(names, f.Type().String())
	}
	return strings.Join(names, " ")
}

// answered reads an answer of which only the end matters.
func answered(ctx context.Context, c *bifaci.PeerCall) error {
	_, err := c.Response().CollectBytes(ctx)
	return err
}

func TestPeerCallRequest(t *testing.T) {
	for _, c := range []struct {
		name   string
		parent frame.ID
	}{{"a uuid", frame.NewUUID()}, {"an integer", frame.UintID(7)}} {
		t.Run("R-7.1 REQ goes out at once and names "+c.name+" as its parent", func(t *testing.T) {
			h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
				call, err := r.Peer().Call(ctx, peerCap)
				if err != nil {
					return err
				}
				return answered(ctx, call)
			})
			req := h.Request(workCap, cartridgetest.WithID(c.parent))
			call := h.WantPeerCall(peerCap)
			f := call.Req()
			assert.Equal(t, c.parent, call.Parent())
			assert.Len(t, f[frame.KeyID], 16, "a new uuid")
			assert.NotEqual(t, c.parent, call.ID())
			assert.False(t, f.Has(frame.KeyRoutingID))
			assert.Equal(t, []byte{}, f.Payload())
			assert.Equal(t, "application/cbor", f.Text(frame.KeyContentType))
			assert.Len(t, f.Meta(), 1)
			call.End()
			req.WantEnd()
		})
	}
	virtual(t, "R-7.1 a cap URN that does not parse sends nothing", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			_, err := r.Peer().Call(ctx, "media:no-cap")
			if err == nil {
				return errors.New("it was called")
			}
			return nil
		})
		h.Request(workCap).WantEnd()
	})
	t.Run("R-7.1 a context that has ended sends nothing", func(t *testing.T) {
		enough := errors.New("enough")
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			ended, cancel := context.WithCancelCause(ctx)
			cancel(enough)
			if _, err := r.Peer().Call(ended, peerCap); !errors.Is(err, enough) {
				return errors.New("it was called")
			}
			return nil
		})
		h.Request(workCap).WantEnd()
	})
}

func TestPeerCallArguments(t *testing.T) {
	t.Run("R-7.2 R-7.5 an answer streams while the arguments do: 200 chunks each way with a window of 2", func(t *testing.T) {
		const n, size = 200, 4096
		want := strings.Repeat("0123456789abcdef", n*size/16)
		c := cartridgetest.Serving(t, workCap, func(ctx context.Context, r *bifaci.Request) error {
			resp, err := bifaci.CallBytes(ctx, r.Peer(), peerCap, bifaci.BytesArg{MediaURN: textMedia, Value: []byte(want)})
			if err != nil {
				return err
			}
			got, err := resp.CollectBytes(ctx)
			if err == nil && string(got) != want {
				err = errors.New("other bytes came back")
			}
			return err
		})
		h := cartridgetest.Start(t, c, cartridgetest.WithLimits(limitsWith(func(l *frame.Limits) { l.InitialCredit, l.MaxChunk = 2, size })))
		req := h.Request(workCap)
		call := h.WantPeerCall(peerCap)
		for i := range n {
			piece := want[i*size : (i+1)*size]
			call.WantItems(piece)
			call.Chunk(piece)
		}
		call.WantBody()
		call.End()
		req.WantEnd()
	})
	virtual(t, "R-7.3 several arguments are open and written at the same time, each with a window of its own", func(t *testing.T) {
		_, req, call := caller(t, 2, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			var all sync.WaitGroup
			for _, name := range []string{"media:a", "media:b"} {
				arg := c.Arg(name)
				all.Go(func() {
					for range 3 {
						if _, err := arg.Write([]byte(strings.Repeat(name[6:], 4096))); err != nil {
							return
						}
					}
				})
			}
			all.Wait()
			if err := c.Finish(ctx); err != nil {
				return err
			}
			return answered(ctx, c)
		})
		synctest.Wait()
		seen := map[string]string{}
		for range 2 {
			s := call.WantStream()
			seen[s.MediaURN] = s.ID
			assert.False(t, s.Sequence)
			assert.Equal(t, uint64(2), chunksOf(call, s.ID), "as many as the window of %s holds", s.MediaURN)
		}
		require.Len(t, seen, 2)
		require.NotEqual(t, seen["media:a"], seen["media:b"])
		for _, f := range call.Frames() {
			require.Equal(t, call.ID(), f.ID())
			require.False(t, f.Has(frame.KeyRoutingID))
		}
		for _, id := range seen {
			call.Send(cartridgetest.CreditFrame(frame.CreditRequest, id, 1))
		}
		synctest.Wait()
		for _, id := range seen {
			assert.Equal(t, uint64(3), chunksOf(call, id))
		}
		assert.True(t, strings.HasSuffix(bodyTypes(call), "stream_end stream_end end"), bodyTypes(call))
		call.End()
		req.WantEnd()
	})
	virtual(t, "R-7.3 an argument that is never written is sent empty by Finish", func(t *testing.T) {
		_, req, call := caller(t, 2, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			c.Arg("media:empty")
			if err := c.Finish(ctx); err != nil {
				return err
			}
			return answered(ctx, c)
		})
		call.WantBody()
		require.Equal(t, "stream_start stream_end end", bodyTypes(call))
		f := call.Frames()
		assert.Equal(t, "media:empty", f[0].Text(frame.KeyMediaURN))
		assert.Equal(t, f[0].Stream(), f[1].Stream())
		assert.True(t, f[1].Has(frame.KeyChunkCount))
		assert.Equal(t, uint64(0), f[1].Uint(frame.KeyChunkCount))
		call.End()
		req.WantEnd()
	})
	virtual(t, "R-7.4 Finish closes what is open and ends the body once; nothing can be sent after it", func(t *testing.T) {
		type attempt struct {
			what string
			err  error
		}
		attempts := make(chan attempt, 8)
		_, req, call := caller(t, 2, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			open := c.Arg("media:open")
			if _, err := open.Write([]byte("coalesced")); err != nil {
				return err
			}
			if err := c.Finish(ctx); err != nil {
				return err
			}
			late := c.Arg("media:late")
			_, written := open.Write([]byte("more"))
			_, lateWritten := late.Write([]byte("more"))
			for _, a := range []attempt{{"a second Finish", c.Finish(ctx)}, {"a write", written}, {"a write of an argument after Finish", lateWritten},
				{"its start", late.Start()}, {"its item", late.EmitItem(ctx, 1, nil)}, {"its close", late.Close(ctx)}, {"its flush", late.Flush(ctx)}} {
				attempts <- a
			}
			close(attempts)
			return answered(ctx, c)
		})
		call.WantItems("coalesced").WantBody()
		for a := range attempts {
			assert.ErrorIs(t, a.err, bifaci.ErrFinished, a.what)
		}
		synctest.Wait()
		f := call.Frames()
		require.Equal(t, "stream_start chunk stream_end end", bodyTypes(call))
		assert.False(t, f[3].Has(frame.KeyMeta), "a body's END needs no exit_code")
		call.End()
		req.WantEnd()
	})
	virtual(t, "R-7.5 CallBytes sends each argument as one scalar stream with its meta, in order", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			resp, err := bifaci.CallBytes(ctx, r.Peer(), peerCap, bifaci.BytesArg{MediaURN: "media:a", Value: []byte("one"),
				Meta: frame.Meta{"name": "first"}}, bifaci.BytesArg{MediaURN: "media:b", Value: []byte("two")})
			if err != nil {
				return err
			}
			_, err = resp.CollectBytes(ctx)
			return err
		})
		req := h.Request(workCap)
		call := h.WantPeerCall(peerCap).WantItems("one", "two").WantBody()
		first, second := call.WantStream(), call.WantStream()
		assert.Equal(t, "media:a", first.MediaURN)
		assert.Equal(t, map[string]any{"name": "first"}, first.Meta)
		assert.Equal(t, "media:b", second.MediaURN)
		assert.Nil(t, second.Meta)
		assert.False(t, first.Sequence || second.Sequence)
		call.End()
		req.WantEnd()
	})
	virtual(t, "R-7.5 an argument that cannot be sent fails the answer and cancels the call", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			resp, err := bifaci.CallBytes(ctx, r.Peer(), peerCap, bifaci.BytesArg{MediaURN: "media:" + strings.Repeat("x", 4<<20)})
			if err != nil {
				return err
			}
			if _, err = resp.CollectBytes(ctx); err == nil || !strings.Contains(err.Error(), "max_frame") {
				return errors.New("the answer did not fail for the argument")
			}
			return nil
		})
		req := h.Request(workCap)
		assert.Equal(t, failure.Aborted, h.WantPeerCall(peerCap).WantCancel().Code)
		req.WantEnd()
	})
}

// chunksOf counts the CHUNKs of one stream of a call's body.
func chunksOf(p *cartridgetest.PeerCall, stream string) (n uint64) {
	for _, f := range p.Frames() {
		if f.Type() == frame.TypeChunk && f.Stream() == stream {
			n++
		}
	}
	return n
}

func TestPeerCallCredit(t *testing.T) {
	virtual(t, "R-7.30 arguments take credit from the call's own gates", func(t *testing.T) {
		h, req, call := caller(t, 2, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			arg := c.Arg(textMedia)
			for range 6 {
				if _, err := arg.Write([]byte(strings.Repeat("x", 4096))); err != nil {
					return err
				}
			}
			if err := c.Finish(ctx); err != nil {
				return err
			}
			return answered(ctx, c)
		})
		stream := call.WantStream().ID
		sent := func() uint64 {
			synctest.Wait()
			return chunksOf(call, stream)
		}
		require.Equal(t, uint64(2), sent(), "the window")
		req.Grant(1)
		require.Equal(t, uint64(2), sent(), "a grant for the request's own answer is none for the call")
		call.Send(cartridgetest.CreditFrame(frame.CreditResponse, stream, 1))
		require.Equal(t, uint64(2), sent(), "neither is one of the other direction")
		call.Send(cartridgetest.CreditFrame(frame.CreditRequest, "another", 1))
		require.Equal(t, uint64(2), sent(), "nor one for another stream")
		call.Send(cartridgetest.CreditFrame(frame.CreditRequest, stream, 3))
		require.Equal(t, uint64(5), sent())
		call.Send(cartridgetest.CreditFrame(frame.CreditRequest, "", 1))
		require.Equal(t, uint64(6), sent(), "without a stream id it is the only stream's")
		call.End()
		req.WantEnd()
		h.WantIdle()
	})
	virtual(t, "R-7.30 consumed items of the answer are granted on its stream, without a routing id", func(t *testing.T) {
		read := make(chan int)
		h, req, call := caller(t, 8, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			for n := range read {
				for range n {
					if _, err := c.Response().Next(ctx); err != nil {
						return err
					}
				}
			}
			return answered(ctx, c)
		})
		s := call.Stream("theirs", textMedia)
		for range 8 {
			s.Chunk("x")
		}
		synctest.Wait() // all are there: a read that has to wait grants what it owes
		read <- 3
		synctest.Wait()
		require.Zero(t, s.Credit(), "less than half of the window")
		read <- 1
		synctest.Wait()
		require.Equal(t, uint64(4), s.Credit(), "half of the window")
		for _, f := range h.Check().Trace() {
			if strings.Contains(f, " credit id=") {
				assert.NotContains(t, f, "xid=")
				assert.Contains(t, f, "{credit_dir: response} stream_id=theirs credit=4")
			}
		}
		close(read)
		call.End()
		req.WantEnd()
	})
	for name, c := range map[string]struct {
		end  func(*cartridgetest.PeerCall)
		want func(*testing.T, error)
	}{
		"END": {func(p *cartridgetest.PeerCall) { p.End() },
			func(t *testing.T, err error) { assert.ErrorIs(t, err, bifaci.ErrRequestEnded) }},
		"ERR": {func(p *cartridgetest.PeerCall) { p.Fail("NO_ROOM", failure.Resource, "full") },
			func(t *testing.T, err error) {
				var remote *failure.Remote
				if assert.ErrorAs(t, err, &remote) {
					assert.Equal(t, failure.Failure{Code: "NO_ROOM", Class: failure.Resource, Message: "full"}, remote.Failure)
				}
			}},
	} {
		virtual(t, "R-7.31 "+name+" of the answer releases everybody who waits for credit", func(t *testing.T) {
			errs := make(chan error, 3)
			_, req, call := caller(t, 1, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
				var all sync.WaitGroup
				for range 2 {
					arg := c.Arg(textMedia)
					all.Go(func() {
						for {
							if _, err := arg.Write(make([]byte, 4096)); err != nil {
								errs <- err
								return
							}
						}
					})
				}
				all.Wait()
				errs <- c.Finish(ctx)
				return nil
			})
			synctest.Wait()
			c.end(call)
			for range 3 {
				c.want(t, <-errs)
			}
			req.WantEnd()
		})
	}
}
