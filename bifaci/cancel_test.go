package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
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
	"github.com/pipe-cartridge/pipe/bifaci/stats"
)

// untilCancelled waits for the end of its context and returns an error of its own.
func untilCancelled(ctx context.Context, _ *bifaci.Request) error {
	<-ctx.Done()
	return errors.New("the handler's own error")
}

// cancelWith is a CANCEL with any meta; nil for none.
func cancelWith(meta map[string]any) cartridgetest.Frame {
	f := cartridgetest.CancelFrame(failure.Unattributed())
	if meta != nil {
		f = f.With(frame.KeyMeta, meta)
	}
	return f
}

func TestCancelReasons(t *testing.T) {
	type meta = map[string]any
	for name, c := range map[string]struct {
		meta meta
		want failure.Failure
	}{
		"R-8.2 no meta at all":          {nil, failure.Failure{Code: "CANCELLED", Class: failure.Internal, Message: "Request cancelled"}},
		"R-8.2 an empty meta":           {meta{}, failure.Failure{Code: "CANCELLED", Class: failure.Internal, Message: "Request cancelled"}},
		"R-8.2 a message alone":         {meta{"message": "m"}, failure.Failure{Code: "CANCELLED", Class: failure.Internal, Message: "Request cancelled: m"}},
		"R-8.2 a class alone":           {meta{"attribution_class": "resource"}, failure.Failure{Code: "CANCELLED", Class: failure.Resource, Message: "Request cancelled"}},
		"R-8.2 an unknown class":        {meta{"attribution_class": "operator", "message": "m"}, failure.Failure{Code: "CANCELLED", Class: failure.Internal, Message: "Request cancelled: m"}},
		"R-8.2 a class in capitals":     {meta{"attribution_class": "USER"}, failure.Failure{Code: "CANCELLED", Class: failure.Internal, Message: "Request cancelled"}},
		"R-8.2 blanks":                  {meta{"code": " ", "attribution_class": "\t", "message": "  "}, failure.Failure{Code: "CANCELLED", Class: failure.Internal, Message: "Request cancelled"}},
		"R-8.2 values that are no text": {meta{"code": 7, "attribution_class": []byte("user"), "message": true}, failure.Failure{Code: "CANCELLED", Class: failure.Internal, Message: "Request cancelled"}},
		"R-8.3 an operator":             {meta{"code": "CANCELLED", "attribution_class": "user", "message": "Cancelled by user"}, failure.Failure{Code: "CANCELLED", Class: failure.User, Message: "Cancelled by user"}},
		"R-8.3 the code alone":          {meta{"code": "CANCELLED"}, failure.Failure{Code: "CANCELLED", Class: failure.Internal, Message: "Request cancelled (CANCELLED)"}},
		"R-8.3 collateral": {meta{"code": "ABORTED_COLLATERAL", "attribution_class": "resource", "message": "the sibling ran dry"},
			failure.Failure{Code: "ABORTED_COLLATERAL", Class: failure.Resource, Message: "Request aborted as collateral of a failure elsewhere in the run: the sibling ran dry"}},
		"R-8.3 collateral without words": {meta{"code": "ABORTED_COLLATERAL"}, failure.Failure{Code: "ABORTED_COLLATERAL", Class: failure.Internal,
			Message: "Request aborted as collateral of a failure elsewhere in the run"}},
		"R-8.3 the host's own": {meta{"code": "ABORTED", "attribution_class": "environment", "message": "restarting"},
			failure.Failure{Code: "ABORTED", Class: failure.Environment, Message: "Request aborted by the host: restarting"}},
		"R-8.3 the host's own without words": {meta{"code": "ABORTED"}, failure.Failure{Code: "ABORTED", Class: failure.Internal, Message: "Request aborted by the host"}},
		"R-8.3 another code":                 {meta{"code": "LUNCH", "message": "back at one"}, failure.Failure{Code: "LUNCH", Class: failure.Internal, Message: "LUNCH: back at one"}},
		"R-8.3 another code without words":   {meta{"code": "LUNCH"}, failure.Failure{Code: "LUNCH", Class: failure.Internal, Message: "Request cancelled (LUNCH)"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := worker(t, 4, untilCancelled)
			req := h.Request(workCap)
			req.Send(cancelWith(c.meta))
			assert.Equal(t, c.want, *req.WantErr(c.want.Code, c.want.Class))
		})
		t.Run(name+", R-8.4 in the same words while it waits in line", func(t *testing.T) {
			g := newGate()
			ch := cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"a", g.handle})
			h := cartridgetest.Start(t, ch)
			first := h.Request(capNamed("a")).End()
			queued := h.Request(capNamed("a"))
			queued.Send(cancelWith(c.meta))
			assert.Equal(t, c.want, *queued.WantErr(c.want.Code, c.want.Class))
			g.open()
			first.WantEnd()
		})
	}
	t.Run("R-8.1 R-8.23 force_kill is the host's business", func(t *testing.T) {
		h := worker(t, 4, untilCancelled)
		reason := failure.UserCancel()
		reason.ForceKill = true
		req := h.Request(workCap).Cancel(reason)
		req.WantErr("CANCELLED", failure.User)
		h.Probe() // the process lives
	})
	virtual(t, "R-8.5 the first CANCEL counts", func(t *testing.T) {
		release := make(chan struct{})
		h := worker(t, 4, func(ctx context.Context, _ *bifaci.Request) error {
			<-release
			return context.Cause(ctx)
		})
		req := h.Request(workCap)
		synctest.Wait() // the handler runs
		req.Cancel(failure.HostAbort(failure.Environment, "first")).Cancel(failure.UserCancel()).Cancel(failure.Unattributed())
		wantStill(t, req)
		close(release)
		assert.Equal(t, "Request aborted by the host: first", req.WantErr("ABORTED", failure.Environment).Message)
		pulse := h.Probe()
		assert.Zero(t, pulse.Drops)
		assert.Zero(t, pulse.Stragglers, "later ones are ignored, not counted")
	})
}

func TestCancelOfAWaitingRequest(t *testing.T) {
	virtual(t, "R-8.10 L7 it leaves the line with its input, is answered at once, and its factory is never called", func(t *testing.T) {
		g := newGate()
		c := cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"a", g.handle})
		h := cartridgetest.Start(t, c)
		first := h.Request(capNamed("a")).End()
		second := h.Request(capNamed("a")).Chunk("buffered").Chunk("buffered")
		third := h.Request(capNamed("a")).End()
		synctest.Wait()
		require.EqualValues(t, 2, h.Probe().Pools["all"].Queued)
		second.Cancel(failure.UserCancel())
		second.WantErr("CANCELLED", failure.User) // while the first runs
		assert.Equal(t, "log err", types(second), "the queued notice and the ERR")
		assert.EqualValues(t, 1, h.Probe().Pools["all"].Queued)
		g.open()
		first.WantEnd()
		third.WantEnd()
		synctest.Wait()
		assert.Len(t, g.started, 2)
		h.WantIdle()
	})
	virtual(t, "R-8.10 what comes of its body afterwards straggles", func(t *testing.T) {
		g := newGate()
		c := cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"a", g.handle})
		h := cartridgetest.Start(t, c)
		h.Request(capNamed("a")).End()
		second := h.Request(capNamed("a"))
		s := second.Stream("body", "media:")
		second.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
		before := h.Probe()
		s.Chunk("late")
		second.End()
		after := h.Probe()
		assert.EqualValues(t, 3, after.Stragglers-before.Stragglers)
		assert.Equal(t, before.Drops, after.Drops)
		g.open()
	})
}

func TestCancelOfARunningRequest(t *testing.T) {
	virtual(t, "R-8.20 nothing is sent before the handler has returned", func(t *testing.T) {
		release := make(chan struct{})
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			err := r.Output().EmitItem(ctx, "x", nil)
			<-release
			return err
		})
		req := h.Request(workCap)
		req.WantItems("x")
		req.Cancel(failure.UserCancel())
		assert.Equal(t, "stream_start chunk", settled(req))
		close(release)
		req.WantErr("CANCELLED", failure.User)
		assert.Equal(t, "stream_start chunk stream_end err", types(req), "R-8.21: the open stream is ended first")
		assert.EqualValues(t, 1, req.Frames()[2].Uint(frame.KeyChunkCount))
	})
	for name, c := range map[string]struct {
		h    bifaci.Handler
		want string
	}{
		"an output that was never started": {untilCancelled, "err"},
		"one that was closed": {func(ctx context.Context, r *bifaci.Request) error {
			if err := errors.Join(r.Output().Start(), r.Output().Close(ctx)); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}, "stream_start stream_end err"},
		"unsent bytes, which are dropped": {func(ctx context.Context, r *bifaci.Request) error {
			if _, err := r.Output().Write([]byte("never sent")); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}, "err"},
		"one that was started and not written": {func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().StartUnbounded(); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}, "stream_start stream_end err"},
		"an item that was cut short, after which STREAM_END is forbidden": {func(ctx context.Context, r *bifaci.Request) error {
			return r.Output().EmitItem(ctx, strings.Repeat("x", 3<<20), nil) // 13 chunks; the window is 4
		}, "stream_start chunk chunk chunk chunk err"},
		"a handler that closes after its cancel": {func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().Start(); err != nil {
				return err
			}
			<-ctx.Done()
			return r.Output().Close(ctx)
		}, "stream_start stream_end err"},
	} {
		virtual(t, "R-8.21 the end of a cancelled request: "+name, func(t *testing.T) {
			h := worker(t, 4, c.h)
			req := h.Request(workCap)
			wantStill(t, req)
			req.Cancel(failure.UserCancel())
			req.WantErr("CANCELLED", failure.User)
			assert.Equal(t, c.want, types(req))
			h.WantIdle()
		})
	}
	virtual(t, "R-8.20 R-7.40 its peer calls are cancelled with the same words and without force", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			for range 3 {
				if _, err := r.Peer().Call(ctx, workCap); err != nil {
					return err
				}
			}
			<-ctx.Done()
			_, err := r.Peer().Call(context.WithoutCancel(ctx), workCap) // no new ones
			if err == nil {
				return errors.New("a cancelled request made a call")
			}
			return nil
		})
		req := h.Request(workCap)
		var calls []*cartridgetest.PeerCall
		for range 3 {
			calls = append(calls, h.WantPeerCall(workCap))
		}
		reason := failure.CancelReason{Code: "LUNCH", Class: failure.Environment, Message: "back at one", ForceKill: true}
		req.Cancel(reason)
		reason.ForceKill = false
		for _, call := range calls {
			assert.Equal(t, reason, call.WantCancel())
			assert.Equal(t, req.ID(), call.Parent())
		}
		req.WantErr("LUNCH", failure.Environment)
	})
	virtual(t, "R-8.20 R-3.20 frames of a cancelled request are dropped and counted, and earn no credit", func(t *testing.T) {
		release := make(chan struct{})
		c := cartridgetest.Serving(t, workCap, func(context.Context, *bifaci.Request) error { <-release; return nil })
		h := cartridgetest.Start(t, c, cartridgetest.WithWindow(4))
		req := h.Request(workCap)
		s := req.Stream("body", textMedia)
		synctest.Wait()
		req.Cancel(failure.UserCancel())
		s.Chunk("1").Chunk("2")
		s.End()
		synctest.Wait()
		assert.Equal(t, uint64(3), c.Drops().ByReason[stats.Cancelled])
		assert.Empty(t, req.Grants("body"))
		close(release)
		req.WantErr("CANCELLED", failure.User)
	})
	t.Run("R-8.22 L7 a cancel that races the result: one terminal, either whole", func(t *testing.T) {
		var ends, errs int
		h := generous(t, 32, func(ctx context.Context, r *bifaci.Request) error { return r.Output().EmitItem(ctx, "x", nil) })
		for i := range 400 {
			req := h.Request(workCap)
			for range i % 20 {
				h.Send(probeFrame(1, nil)) // a little time
			}
			req.Cancel(failure.UserCancel())
			f := func() cartridgetest.Frame {
				req.Collect()
				return req.Terminal()
			}()
			switch f.Type() {
			case frame.TypeEnd:
				ends++
				assert.Equal(t, "stream_start chunk stream_end end", types(req))
			default:
				errs++
				assert.Equal(t, "CANCELLED", f.Failure().Code)
			}
		}
		h.WantIdle()
		t.Logf("%d ENDs, %d ERRs", ends, errs)
	})
	virtual(t, "R-8.22 R-8.30 a CANCEL after the result is a straggler", func(t *testing.T) {
		h := worker(t, 4, func(context.Context, *bifaci.Request) error { return nil })
		req := h.Request(workCap).End()
		req.WantEnd()
		before := h.Probe().Stragglers
		req.Cancel(failure.UserCancel())
		assert.EqualValues(t, 1, h.Probe().Stragglers-before)
		assert.Equal(t, "end", settled(req))
	})
	virtual(t, "R-8.22 a CANCEL while the close waits for credit still counts", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().EmitCBOR(ctx, 1); err != nil {
				return err
			}
			_, err := r.Output().Write([]byte("tail"))
			return err // nil: the result is not recorded before the output is closed
		})
		req := h.Request(workCap).End()
		wantStill(t, req)
		req.Cancel(failure.UserCancel())
		req.WantErr("CANCELLED", failure.User)
		assert.Equal(t, "stream_start chunk stream_end err", types(req))
	})
	virtual(t, "R-8.23 the slot is held until the handler returns", func(t *testing.T) {
		g := newGate()
		c := cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"a", g.handle}) // ignores its context
		h := cartridgetest.Start(t, c)
		first := h.Request(capNamed("a")).End()
		second := h.Request(capNamed("a")).End()
		first.Cancel(failure.UserCancel())
		time.Sleep(time.Hour)
		wantStill(t, second)
		assert.Len(t, g.started, 1)
		assert.EqualValues(t, 1, h.Probe().Pools["all"].Active)
		g.open()
		first.WantErr("CANCELLED", failure.User)
		second.WantEnd()
	})
	virtual(t, "R-8.24 log and progress go on, data calls fail", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			<-ctx.Done()
			out := r.Output()
			late := context.WithoutCancel(ctx)
			_, writeErr := out.WriteContext(late, []byte(strings.Repeat("x", 5000)))
			for name, err := range map[string]error{"WriteContext": writeErr, "EmitItem": out.EmitItem(late, 1, nil), "EmitCBOR": out.EmitCBOR(late, 1)} {
				if err == nil {
					return errors.Join(out.Log("warn", failure.Internal, name+" went through"))
				}
			}
			return errors.Join(out.Log("info", failure.Internal, "cleaning up"), out.Progress(0.5, "half clean"))
		})
		req := h.Request(workCap)
		synctest.Wait()
		req.Cancel(failure.UserCancel())
		assert.Equal(t, "cleaning up", req.WantLog("info")["message"])
		req.WantLog("progress")
		req.WantErr("CANCELLED", failure.User)
		assert.Equal(t, "log log err", types(req))
	})
	virtual(t, "R-8.25 L13 every wait is over at once", func(t *testing.T) {
		for name, wait := range map[string]bifaci.Handler{
			"credit": emitsForever,
			"item": func(ctx context.Context, r *bifaci.Request) error {
				s, err := r.Input(ctx, textMedia)
				if err != nil {
					return err
				}
				_, err = s.Next(context.WithoutCancel(ctx))
				return err
			},
			"peer item": func(ctx context.Context, r *bifaci.Request) error {
				call, err := r.Peer().Call(ctx, workCap)
				if err != nil {
					return err
				}
				_, err = call.Response().Next(context.WithoutCancel(ctx))
				return err
			},
			"argument": func(ctx context.Context, r *bifaci.Request) error {
				call, err := r.Peer().Call(ctx, workCap)
				if err != nil {
					return err
				}
				arg := call.Arg(textMedia)
				for {
					if err := arg.EmitItem(context.WithoutCancel(ctx), "x", nil); err != nil {
						return err
					}
				}
			},
		} {
			h := worker(t, 4, wait)
			req := h.Request(workCap)
			req.Stream("body", textMedia)
			wantStill(t, req)
			start := time.Now()
			req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
			assert.Zero(t, time.Since(start), name)
			h.WantIdle()
		}
	})
	virtual(t, "R-8.30 L6 with the body complete it is the running case; unknown ids are drops and nothing is answered", func(t *testing.T) {
		h := worker(t, 4, untilCancelled)
		req := h.Request(workCap).Chunk("all of it").End()
		wantStill(t, req)
		unknown := h.Unsent()
		unknown.Send(cartridgetest.CancelFrame(failure.UserCancel()))
		assert.EqualValues(t, 1, h.Probe().Drops)
		assert.Empty(t, settled(unknown))
		req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
	})
}

func TestCancelInTheMiddle(t *testing.T) {
	virtual(t, "L17 R-8.25 of an unbounded stream both ways: both sides end promptly", func(t *testing.T) {
		var reads, writes atomic.Int32
		h := cartridgetest.Start(t, cartridgetest.Serving(t, workCap, func(ctx context.Context, r *bifaci.Request) error {
			out, err := r.StartUnbounded(bifaci.Sequence)
			if err != nil {
				return err
			}
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			var both sync.WaitGroup
			both.Go(func() {
				for _, err := range s.Items(ctx) {
					if err != nil {
						reads.Add(1)
					}
				}
			})
			both.Go(func() {
				for out.EmitItem(ctx, "x", nil) == nil {
				}
				writes.Add(1)
			})
			both.Wait()
			return nil
		}), cartridgetest.WithManualCredit())
		req := h.Request(workCap)
		live := req.Stream("live", textMedia, cartridgetest.Unbounded, cartridgetest.Sequence)
		for range 100 {
			live.Chunk("x")
		}
		start := time.Now()
		req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
		assert.Zero(t, time.Since(start))
		assert.EqualValues(t, 1, reads.Load())
		assert.EqualValues(t, 1, writes.Load())
		h.WantIdle()
	})
	for _, window := range []uint64{1, 2, 3, 32} {
		t.Run(fmt.Sprintf("L13 L17 R-8.22 at every point of an exchange, window %d", window), func(t *testing.T) {
			h := generous(t, window, echoes)
			for point := range 24 {
				req := h.Request(workCap)
				for range point / 2 {
					req.Chunk("x")
				}
				if point%2 == 1 {
					req.End()
				}
				req.Cancel(failure.UserCancel())
				req.Collect()
				if f := req.Terminal(); f.Type() == frame.TypeErr {
					assert.Equal(t, "CANCELLED", f.Failure().Code)
				}
			}
			h.WantIdle()
		})
	}
}
