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
	"github.com/pipe-cartridge/pipe/bifaci/stats"
)

// emitsForever emits numbered items until an error.
func emitsForever(ctx context.Context, r *bifaci.Request) error {
	for i := 0; ; i++ {
		if err := r.Output().EmitItem(ctx, i, nil); err != nil {
			return err
		}
	}
}

func TestResponseWindow(t *testing.T) {
	for _, window := range []int{1, 2, 3, 32} {
		virtual(t, fmt.Sprintf("R-10.1 L9.1 L9.2 window %d: as many CHUNKs without a grant, and as many more as granted", window), func(t *testing.T) {
			h := worker(t, uint64(window), emitsForever)
			req := h.Request(workCap)
			want := window
			for _, grant := range []int{0, 1, 1, 5} {
				if grant > 0 {
					req.Grant(uint64(grant))
				}
				want += grant
				synctest.Wait()
				require.Len(t, chunks(req), want)
			}
			req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
		})
	}
	virtual(t, "R-10.1 one CHUNK of any size costs one", func(t *testing.T) {
		h := worker(t, 2, func(ctx context.Context, r *bifaci.Request) error {
			return errors.Join(r.Output().EmitItem(ctx, "", nil), r.Output().EmitItem(ctx, strings.Repeat("x", 200_000), nil), r.Output().EmitItem(ctx, 1, nil))
		})
		req := h.Request(workCap).End()
		wantStill(t, req)
		assert.Len(t, chunks(req), 2)
		req.Grant(1)
		synctest.Wait()
		require.NotNil(t, req.Terminal())
	})
	virtual(t, "R-10.2 L14 nothing but CHUNKs needs credit", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			out := r.Output()
			if err := errors.Join(out.Start(bifaci.Sequence), out.EmitItem(ctx, 1, nil)); err != nil {
				return err
			}
			call, err := r.Peer().Call(ctx, workCap) // REQ
			if err != nil {
				return err
			}
			if err := call.Arg(textMedia).Start(); err != nil { // STREAM_START
				return err
			}
			if err := call.Finish(ctx); err != nil { // STREAM_END, END
				return err
			}
			if _, err := call.Response().CollectBytes(ctx); err != nil {
				return err
			}
			return errors.Join(out.Log("info", failure.Internal, "m"), out.Close(ctx)) // LOG, STREAM_END; END
		})
		req := h.Request(workCap).End()
		h.WantPeerCall(workCap).WantBody().End()
		req.WantItems(uint64(1)).WantEnd()
		assert.Equal(t, "stream_start chunk log stream_end end", types(req))
	})
	virtual(t, "R-10.3 each argument of a peer call has a window, fed by grants of its own", func(t *testing.T) {
		h := worker(t, 3, func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(ctx, workCap)
			if err != nil {
				return err
			}
			for _, media := range []string{"media:one", "media:two"} {
				arg := call.Arg(media)
				for i := range 3 {
					if err := arg.EmitItem(ctx, fmt.Sprint(media, i), nil); err != nil {
						return err
					}
				}
				r.Go(func(ctx context.Context) error { // beyond the window
					for i := 3; ; i++ {
						if err := arg.EmitItem(ctx, fmt.Sprint(media, i), nil); err != nil {
							return nil // the call has ended
						}
					}
				})
			}
			_, err = call.Response().CollectBytes(ctx)
			return err
		})
		req := h.Request(workCap)
		call := h.WantPeerCall(workCap)
		call.WantItems("media:one0", "media:one1", "media:one2", "media:two0", "media:two1", "media:two2")
		call.WantStream()
		two := call.WantStream()
		synctest.Wait()
		call.Send(cartridgetest.CreditFrame(frame.CreditRequest, two.ID, 2)) // by stream id
		call.WantItems("media:two3", "media:two4")
		synctest.Wait()
		call.End()
		req.WantEnd()
	})
	virtual(t, "R-10.3 R-10.40 R-7.14 the answer of a peer call has a window", func(t *testing.T) {
		h := worker(t, 2, func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(ctx, workCap)
			if err != nil {
				return err
			}
			<-call.Context().Done() // nobody reads the answer
			return context.Cause(call.Context())
		})
		req := h.Request(workCap)
		call := h.WantPeerCall(workCap)
		call.Chunk("1").Chunk("2")
		synctest.Wait()
		require.Nil(t, req.Terminal(), "the window is not used up yet")
		call.Send(cartridgetest.ChunkFrame("body", 2, cartridgetest.Bytes("3")))
		assert.Equal(t, "ABORTED", call.WantCancel().Code)
		req.WantErr("CREDIT_VIOLATION", failure.Internal)
	})
}

func TestCreditRouting(t *testing.T) {
	// waiting is a request whose handler has used its window of 2 up.
	waiting := func(t *testing.T) (*cartridgetest.Host, *bifaci.Cartridge, *cartridgetest.Request, string) {
		t.Helper()
		c := cartridgetest.Serving(t, workCap, emitsForever)
		h := cartridgetest.Start(t, c, cartridgetest.WithWindow(2), cartridgetest.WithManualCredit())
		req := h.Request(workCap)
		synctest.Wait()
		require.Len(t, chunks(req), 2)
		return h, c, req, req.WantStream().ID
	}
	gone := func(t *testing.T, h *cartridgetest.Host, req *cartridgetest.Request) {
		t.Helper()
		req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
		h.WantIdle()
	}
	virtual(t, "R-10.12 an early grant finds the gate before the stream is started", func(t *testing.T) {
		start := make(chan struct{})
		h := worker(t, 2, func(ctx context.Context, r *bifaci.Request) error {
			<-start
			return emitsForever(ctx, r)
		})
		req := h.Request(workCap)
		req.Send(cartridgetest.CreditFrame(frame.CreditResponse, "", 3))
		synctest.Wait()
		close(start)
		synctest.Wait()
		assert.Len(t, chunks(req), 5)
		gone(t, h, req)
	})
	for name, c := range map[string]struct {
		credit func(stream string) cartridgetest.Frame
		chunks int
		drops  uint64
	}{
		"R-10.13 by its stream":                      {func(s string) cartridgetest.Frame { return cartridgetest.CreditFrame(frame.CreditResponse, s, 1) }, 3, 0},
		"R-10.13 without a stream id, the only gate": {func(string) cartridgetest.Frame { return cartridgetest.CreditFrame(frame.CreditResponse, "", 1) }, 3, 0},
		"R-10.13 R-10.15 another stream: spent":      {func(string) cartridgetest.Frame { return cartridgetest.CreditFrame(frame.CreditResponse, "other", 1) }, 2, 0},
		"R-10.13 R-10.15 the other direction: spent": {func(s string) cartridgetest.Frame { return cartridgetest.CreditFrame(frame.CreditRequest, s, 1) }, 2, 0},
		"R-10.14 without a direction: a drop": {func(s string) cartridgetest.Frame {
			return cartridgetest.CreditFrame(frame.CreditResponse, s, 1).Without(frame.KeyMeta)
		}, 2, 1},
		"R-10.14 an unknown direction: a drop":        {func(s string) cartridgetest.Frame { return withDirection(s, "sideways") }, 2, 1},
		"R-10.14 a direction that is no text: a drop": {func(s string) cartridgetest.Frame { return withDirection(s, 1) }, 2, 1},
		"R-10.14 zero: no effect":                     {func(s string) cartridgetest.Frame { return cartridgetest.CreditFrame(frame.CreditResponse, s, 0) }, 2, 0},
		"R-10.10 the largest number: no overflow":     {func(s string) cartridgetest.Frame { return cartridgetest.CreditFrame(frame.CreditResponse, s, 1<<64-1) }, -1, 0},
	} {
		virtual(t, name, func(t *testing.T) {
			h, cartridge, req, stream := waiting(t)
			if c.chunks < 0 {
				h.HoldOutput(true) // it may send for ever now
			}
			req.Send(c.credit(stream))
			if c.chunks < 0 {
				req.Send(c.credit(stream)) // saturates, and does not wrap to 0
			}
			synctest.Wait()
			if c.chunks >= 0 {
				assert.Len(t, chunks(req), c.chunks)
				assert.Equal(t, c.drops, h.Probe().Drops)
				assert.Equal(t, c.drops, cartridge.Drops().ByReason[stats.NoRoute])
			} else {
				h.HoldOutput(false)
				req.Cancel(failure.UserCancel())
				assert.Greater(t, len(chunks(req)), 0)
			}
			gone(t, h, req)
		})
	}
	virtual(t, "R-10.14 R-2.32 a grant without a count is no frame", func(t *testing.T) {
		h, _, req, stream := waiting(t)
		req.Send(cartridgetest.CreditFrame(frame.CreditResponse, stream, 1).Without(frame.KeyCredit))
		req.WantErr("PROTOCOL_ERROR", failure.Internal)
		assert.Error(t, h.Wait())
	})
	virtual(t, "R-10.15 L6 for an ended request a straggler, for an unknown one a drop, never an error", func(t *testing.T) {
		h, c, req, stream := waiting(t)
		gone(t, h, req)
		stragglers := h.Probe().Stragglers
		req.Send(cartridgetest.CreditFrame(frame.CreditResponse, stream, 1))
		pulse := h.Probe()
		assert.EqualValues(t, 1, pulse.Stragglers-stragglers)
		assert.Zero(t, pulse.Drops)
		h.Unsent().Send(cartridgetest.CreditFrame(frame.CreditResponse, stream, 1))
		assert.EqualValues(t, 1, h.Probe().Drops)
		assert.EqualValues(t, 1, c.Drops().ByReason[stats.NoRoute])
	})
	virtual(t, "R-10.13 two argument streams and a grant without stream id: nobody gets it", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(ctx, workCap)
			if err != nil {
				return err
			}
			for range 2 {
				arg := call.Arg(textMedia)
				r.Go(func(ctx context.Context) error {
					for range 2 {
						if err := arg.EmitItem(ctx, "x", nil); err != nil {
							return nil
						}
					}
					return nil
				})
			}
			_, err = call.Response().CollectBytes(ctx)
			return err
		})
		req := h.Request(workCap)
		call := h.WantPeerCall(workCap)
		call.WantItems("x", "x")
		call.Send(cartridgetest.CreditFrame(frame.CreditRequest, "", 10))
		h.Probe()
		synctest.Wait()
		call.End()
		call.WantItems() // two of four is all there is
		req.WantEnd()
	})
	virtual(t, "R-10.16 L13 the end of an answer releases who waits with an argument", func(t *testing.T) {
		for name, end := range map[string]func(*cartridgetest.PeerCall){
			"END": func(p *cartridgetest.PeerCall) { p.End() },
			"ERR": func(p *cartridgetest.PeerCall) { p.Fail("THEIRS", failure.Resource, "no") },
		} {
			errs := make(chan error, 1)
			h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
				call, err := r.Peer().Call(ctx, workCap)
				if err != nil {
					return err
				}
				arg := call.Arg(textMedia)
				for {
					if err := arg.EmitItem(context.WithoutCancel(ctx), "x", nil); err != nil {
						errs <- err
						return nil
					}
				}
			})
			req := h.Request(workCap)
			call := h.WantPeerCall(workCap)
			call.WantItems("x")
			synctest.Wait()
			require.Empty(t, errs)
			end(call)
			err := <-errs
			var remote *failure.Remote
			assert.Equal(t, name == "ERR", errors.As(err, &remote), err)
			req.WantEnd()
		}
	})
}

// withDirection is a grant with any value as its direction.
func withDirection(stream string, dir any) cartridgetest.Frame {
	return cartridgetest.CreditFrame(frame.CreditResponse, stream, 1).With(frame.KeyMeta, map[string]any{"credit_dir": dir})
}

func TestCreditViolation(t *testing.T) {
	for name, c := range map[string]struct{ window int }{"1": {1}, "4": {4}, "32": {32}} {
		virtual(t, "R-10.40 L12 window "+name+": exactly the window is fine, one more is a violation", func(t *testing.T) {
			got := make(chan error, 1)
			cartridge := cartridgetest.Serving(t, workCap, func(ctx context.Context, r *bifaci.Request) error {
				s, err := firstStream(ctx, r)
				if err != nil {
					return err
				}
				<-ctx.Done()
				synctest.Wait() // the context ends before the input fails
				_, err = s.Next(context.WithoutCancel(ctx))
				got <- err
				return nil
			})
			h := cartridgetest.Start(t, cartridge, cartridgetest.WithWindow(uint64(c.window)))
			req := h.Request(workCap)
			s := req.Stream("body", textMedia)
			for range c.window {
				s.Chunk("fits")
			}
			wantStill(t, req)
			assert.Zero(t, h.Probe().Drops)
			req.Send(cartridgetest.ChunkFrame("body", uint64(c.window), cartridgetest.Bytes("too many")))
			req.WantErr("CREDIT_VIOLATION", failure.Internal)
			var fault *failure.Failure
			require.ErrorAs(t, <-got, &fault, "it is not delivered, and the handler cannot overlook it")
			assert.Equal(t, "CREDIT_VIOLATION", fault.Code)
			assert.Equal(t, uint64(1), cartridge.Drops().ByReason[stats.CreditViolation])
			assert.EqualValues(t, 1, h.Probe().Drops)
		})
	}
	virtual(t, "R-10.40 the window is each stream's own", func(t *testing.T) {
		h := worker(t, 2, func(ctx context.Context, _ *bifaci.Request) error { <-ctx.Done(); return nil })
		req := h.Request(workCap)
		for i := range 8 {
			req.Stream(fmt.Sprint(i), textMedia).Chunk("a").Chunk("b")
		}
		wantStill(t, req)
		req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
	})
	virtual(t, "R-10.41 R-3.22 R-3.23 the window of a request in line is enforced too", func(t *testing.T) {
		g := newGate()
		c := cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"a", g.handle})
		h := cartridgetest.Start(t, c, cartridgetest.WithWindow(4))
		first := h.Request(capNamed("a")).End()
		queued := h.Request(capNamed("a"))
		s := queued.Stream("body", "media:")
		for range 4 {
			s.Chunk("fits")
		}
		wantStill(t, queued)
		assert.Empty(t, queued.Grants("body"), "nothing is granted meanwhile")
		queued.Send(cartridgetest.ChunkFrame("body", 4, cartridgetest.Bytes("too many")))
		queued.WantErr("CREDIT_VIOLATION", failure.Internal) // while the first still runs
		assert.EqualValues(t, 0, h.Probe().Pools["all"].Queued)
		g.open()
		first.WantEnd()
		assert.Len(t, g.started, 1, "its factory is never called")
	})
}

func TestBufferingGuarantee(t *testing.T) {
	virtual(t, "R-10.30 R-10.31 L10.3 64 requests of 4 full streams that nobody reads: heartbeats, cancels and credit work at once", func(t *testing.T) {
		h := stagesUnderTest(t, nil, served{"credit", func(ctx context.Context, r *bifaci.Request) error { return emitsForever(ctx, r) }})
		var reqs []*cartridgetest.Request
		for range 64 {
			req := h.Request(capNamed("stuck"))
			for s := range 4 {
				stream := req.Stream(fmt.Sprint(s), "media:")
				for range 32 {
					stream.Chunk(strings.Repeat("full", 100))
				}
			}
			reqs = append(reqs, req)
		}
		synctest.Wait()
		require.Zero(t, h.Unread())
		assert.EqualValues(t, 64, h.Probe().Pools["all"].Active)
		running := h.Request(capNamed("credit")) // the host grants by itself
		for i := range uint64(200) {
			running.WantItems(i)
		}
		running.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
		for _, req := range reqs {
			req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
		}
		h.WantIdle()
	})
}
