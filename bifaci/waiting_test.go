package bifaci_test

import (
	"context"
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

// queue brings a request of capNamed("one") into line behind one that runs; body sends what it has to say before its notice is
// awaited. admit lets it go.
func queue(t *testing.T, window uint64, h bifaci.Handler, body func(*cartridgetest.Request)) (host *cartridgetest.Host, req *cartridgetest.Request, admit func()) {
	t.Helper()
	busy := newGate()
	c := cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"one", h}, served{"busy", busy.handle})
	host = cartridgetest.Start(t, c, cartridgetest.WithWindow(window))
	front := host.Request(capNamed("busy")).End()
	<-busy.started
	req = host.Request(capNamed("one"))
	body(req)
	req.WantLog("queued")
	host.Probe()
	synctest.Wait()
	return host, req, func() {
		t.Helper()
		busy.open()
		front.WantEnd()
	}
}

func TestWaitingRequests(t *testing.T) {
	read := func(ctx context.Context, r *bifaci.Request) error {
		return r.Output().EmitItem(ctx, transcript(ctx, r), nil)
	}
	virtual(t, "R-3.22 what came in line is seen in order, and nothing is granted meanwhile", func(t *testing.T) {
		h, req, admit := queue(t, 3, read, func(r *cartridgetest.Request) {
			one, two := r.Stream("1", "media:a"), r.Stream("2", "media:b", cartridgetest.Sequence)
			one.Chunk("a")
			two.Item("x", nil)
			one.Chunk("b").Chunk("c").End()
			two.Item("y", nil).Item("z", nil)
			r.End()
		})
		assert.Empty(t, req.Grants("1"))
		assert.Empty(t, req.Grants("2"))
		admit()
		req.WantItems("[media:a a b c eof][media:b x y z eof] eof").WantEnd()
		h.WantIdle()
	})
	virtual(t, "R-3.22 the window is enforced on arrival", func(t *testing.T) {
		h, req, admit := queue(t, 2, read, func(r *cartridgetest.Request) { r.Chunk("a").Chunk("b") })
		assert.Nil(t, req.Terminal(), "exactly the window is fine")
		req.Send(cartridgetest.ChunkFrame("body", 2, cartridgetest.Bytes("c")))
		req.WantErr(failure.CreditViolation, failure.Internal)
		admit()
		h.WantIdle()
	})
	virtual(t, "R-3.22 continuation fragments are credited on admission, not before", func(t *testing.T) {
		_, req, admit := queue(t, 2, read, func(r *cartridgetest.Request) {
			enc := cartridgetest.Bytes(strings.Repeat("x", 10))
			r.Send(cartridgetest.StartFrame("s", "media:").With(frame.KeyIsSequence, true),
				cartridgetest.ChunkFrame("s", 0, enc[:4]), cartridgetest.ChunkFrame("s", 1, enc[4:8]))
		})
		assert.Empty(t, req.Grants("s"))
		admit()
		req.WantGrants("s", 1) // of the second fragment, although the item is not complete
		req.Send(cartridgetest.ChunkFrame("s", 2, cartridgetest.Bytes(strings.Repeat("x", 10))[8:]), cartridgetest.StreamEndFrame("s", 3),
			cartridgetest.EndFrame(false))
		req.WantItems("[media: xxxxxxxxxx eof] eof").WantEnd()
	})
	virtual(t, "R-3.22 the ERR of a body waits in its place", func(t *testing.T) {
		_, req, admit := queue(t, 2, read, func(r *cartridgetest.Request) { r.Fail("GONE", failure.Input, "no more") })
		assert.Nil(t, req.Terminal())
		admit()
		req.WantItems(" error remote GONE: no more").WantEnd()
	})
	for _, v := range violations() {
		virtual(t, "R-3.23 found in line it is answered at once: "+v.name, func(t *testing.T) {
			g := newGate()
			h, req, admit := queue(t, 2, g.handle, func(*cartridgetest.Request) {})
			req.Send(v.frames...)
			if v.late {
				assert.Nil(t, req.Terminal(), "a large payload is verified when it is admitted, or after a while")
			}
			req.WantErr(v.code, v.class)
			assert.EqualValues(t, 0, poolOf(t, h, "all").Queued)
			admit()
			h.WantIdle()
			assert.Empty(t, g.started, "its handler was never made")
			g.open()
		})
	}
}

func TestErrOfABody(t *testing.T) {
	virtual(t, "R-3.24 open streams and the package fail with the remote identity", func(t *testing.T) {
		for _, withArg := range []bool{false, true} {
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
				if _, err := s.Next(ctx); err != nil {
					return err
				}
				close(reading)
				_, streamErr := s.Next(ctx)
				_, packageErr := input.Next(ctx)
				for _, err := range []error{streamErr, packageErr} {
					var remote *failure.Remote
					if !assert.ErrorAs(t, err, &remote) {
						continue
					}
					assert.Equal(t, "GONE", remote.Code)
					assert.Equal(t, failure.Input, remote.Class)
					assert.Equal(t, "no more", remote.Message)
				}
				return packageErr
			}}))
			req := h.Request(capNamed("one")).Chunk("a")
			<-reading
			f := cartridgetest.ErrFrame("GONE", failure.Input, "no more")
			if withArg {
				f = metaWith(f, "arg_urn", "media:a")
			}
			req.Send(f)
			got := req.WantErr("GONE", failure.Input)
			assert.Equal(t, "no more", got.Message)
			assert.Equal(t, withArg, got.ArgURN == "media:a")
		}
	})
	good := cartridgetest.ErrFrame("GONE", failure.Input, "no more")
	for name, f := range map[string]cartridgetest.Frame{
		"no meta":          good.Without(frame.KeyMeta),
		"no code":          metaWith(good, "code", nil),
		"a blank code":     metaWith(good, "code", " "),
		"no message":       metaWith(good, "message", nil),
		"an empty message": metaWith(good, "message", ""),
		"no class":         metaWith(good, "attribution_class", nil),
		"an unknown class": metaWith(good, "attribution_class", "nobody"),
		"a blank argument": metaWith(good, "arg_urn", " "),
	} {
		virtual(t, "R-3.24 a malformed ERR is a violation: "+name, func(t *testing.T) {
			h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, _ *bifaci.Request) error {
				<-ctx.Done()
				return nil
			}}))
			h.Request(capNamed("one")).Chunk("a").Send(f).WantErr(failure.ProtocolError, failure.Internal)
			h.WantIdle()
		})
	}
}

func TestPeerFramesAreRouted(t *testing.T) {
	const capPeer = "cap:effect=none"
	virtual(t, "R-3.25 frames of a live peer call go to its response in arrival order", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(ctx, capPeer)
			if err != nil {
				return err
			}
			said := ""
			for it, err := range call.Response().Items(ctx) {
				switch {
				case err != nil:
					said += " error " + err.Error()
				case it.Log != nil:
					said += " log " + it.Log.Message
				default:
					said += " " + string(it.Data.Bytes)
				}
			}
			return r.Output().EmitItem(ctx, said, nil)
		}}))
		req := h.Request(capNamed("one")).End()
		call := h.WantPeerCall(capPeer)
		call.Log("info", failure.Internal, "1").Chunk("a").Log("info", failure.Internal, "2").Chunk("b").End()
		req.WantItems(" log 1 a log 2 b").WantEnd()

		req = h.Request(capNamed("one")).End()
		call = h.WantPeerCall(capPeer)
		call.Chunk("a").Fail("GONE", failure.Input, "no more")
		req.WantItems(" a error remote GONE: no more").WantEnd()
		h.WantIdle()
	})
	virtual(t, "R-3.13 a request in R comes before a peer call of the same id, the call before a request in E", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"two", g.tells}, served{"one", func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(ctx, capPeer)
			if err != nil {
				return err
			}
			b, err := call.Response().CollectBytes(ctx)
			if err != nil {
				return err
			}
			return r.Output().EmitItem(ctx, b, nil)
		}}))
		caller := h.Request(capNamed("one")).End()
		call := h.WantPeerCall(capPeer)
		h.Check().Ignore(call.ID())
		same := h.RequestFrame(cartridgetest.ReqFrame(capNamed("two")), cartridgetest.WithID(call.ID()), cartridgetest.WithRouting(frame.ID{}))
		<-g.started
		body := []cartridgetest.Frame{cartridgetest.StartFrame("s", "media:"), cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes("x")),
			cartridgetest.StreamEndFrame("s", 1)}
		same.Send(append(body, cartridgetest.EndFrame(false))...)
		h.Probe()
		synctest.Wait()
		assert.Nil(t, caller.Terminal(), "none of it was for the call")
		call.Send(append(body, cartridgetest.EndFrame(true))...)
		caller.WantItems("x").WantEnd()
		g.open()
		same.WantItems("[media: x eof] eof").WantEnd()
		require.NotNil(t, same.Terminal())
	})
}
