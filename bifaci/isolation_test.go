package bifaci_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"strings"
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

// flooder logs until it is cancelled, and says how much of it was taken.
type flooder struct{ taken chan int }

func (f *flooder) handle(ctx context.Context, r *bifaci.Request) error {
	n := 0
	for ctx.Err() == nil {
		if err := r.Output().Log("info", failure.Internal, strings.Repeat("flood ", 10)); err != nil {
			break
		}
		n++
	}
	f.taken <- n
	return context.Cause(ctx)
}

// wantAlive makes sure that the link does everything that no stalled stage may hold up: heartbeats, credit, cancels and other
// requests. The host reads.
func wantAlive(t *testing.T, h *cartridgetest.Host) {
	t.Helper()
	h.Probe()
	req := h.Request(capNamed("echo"))
	for range 100 { // more than its window
		req.Chunk("alive")
	}
	req.End()
	assert.Equal(t, strings.Repeat("alive", 100), req.Collect())
	req.WantEnd()
	h.Request(capNamed("nobody")).WantErr(failure.NoHandler, failure.Environment)
	h.Request(capNamed("stuck")).Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
}

// stagesUnderTest serves an echo, a handler that only waits, and what else is given.
func stagesUnderTest(t *testing.T, opts []cartridgetest.Option, more ...served) *cartridgetest.Host {
	t.Helper()
	waits := func(ctx context.Context, _ *bifaci.Request) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}
	return cartridgetest.Start(t, cartridgeOf(t, nil, nil, append(more, served{"echo", echoes}, served{"stuck", waits})...), opts...)
}

func TestStageContract(t *testing.T) {
	virtual(t, "R-4.20 R-4.22 decode and route do not wait for handlers that read nothing", func(t *testing.T) {
		h := stagesUnderTest(t, nil)
		for range 64 {
			req := h.Request(capNamed("stuck"))
			for range 32 {
				req.Chunk("unread")
			}
		}
		synctest.Wait()
		assert.Zero(t, h.Unread(), "everything was decoded and routed")
		wantAlive(t, h)
	})
	virtual(t, "R-4.20 R-4.22 R-4.8 nor for a data lane that is full", func(t *testing.T) {
		f := &flooder{make(chan int, 1)}
		h := stagesUnderTest(t, nil, served{"flood", f.handle})
		h.HoldOutput(true)
		req := h.Request(capNamed("flood"))
		synctest.Wait() // it waits for room
		for range 500 {
			h.Send(probeFrame(1, nil))
		}
		refused := h.Request(capNamed("nobody"))
		synctest.Wait()
		assert.Zero(t, h.Unread())
		req.Cancel(failure.UserCancel())
		synctest.Wait()
		require.Empty(t, f.taken, "a handler that logs is held up by the lane, also when it is cancelled")
		h.HoldOutput(false)
		refused.WantErr(failure.NoHandler, failure.Environment)
		req.WantErr("CANCELLED", failure.User)
		taken := <-f.taken
		assert.Less(t, taken, 1024+2048, "the lane is bounded (R-4.9)")
		wantAlive(t, h)
	})
	virtual(t, "R-4.20 R-4.9 decode waits for a full control lane, and nothing is lost", func(t *testing.T) {
		h := stagesUnderTest(t, nil)
		h.HoldOutput(true)
		const probes = 12_000
		for i := range uint64(probes) {
			h.Send(probeFrame(i, nil))
		}
		synctest.Wait()
		assert.Positive(t, h.Unread(), "the reader goes on reading while nobody reads its answers")
		h.HoldOutput(false)
		for i := range uint64(probes) {
			assert.Equal(t, frame.TypeHeartbeat, h.Answer(frame.UintID(i)).Type())
		}
		wantAlive(t, h)
	})
	virtual(t, "R-4.21 R-3.61 reorder holds a flow that has a gap, and no other", func(t *testing.T) {
		c := cartridgeOf(t, nil, []bifaci.Option{bifaci.WithReorder(true)}, served{"echo", echoes}, served{"stuck", echoes})
		h := cartridgetest.Start(t, c)
		gap := h.Request(capNamed("echo"))
		gap.Send(cartridgetest.ChunkFrame("body", 0, cartridgetest.Bytes("second")).With(frame.KeySeq, uint64(2)))
		wantEcho(t, h)
		gap.Send(cartridgetest.StartFrame("body", "media:").With(frame.KeySeq, uint64(1)))
		gap.WantItems("second")
		gap.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
	})
	virtual(t, "R-4.22 route does not wait for a writer that is held up in its output", func(t *testing.T) {
		h := stagesUnderTest(t, nil)
		h.HoldOutput(true)
		var reqs []*cartridgetest.Request
		for range 300 {
			reqs = append(reqs, h.Request(capNamed("echo")).Chunk(strings.Repeat("x", 1000)).End())
		}
		synctest.Wait()
		assert.Zero(t, h.Unread())
		h.HoldOutput(false)
		for _, req := range reqs {
			req.WantBytes(strings.Repeat("x", 1000)).WantEnd()
		}
	})
	virtual(t, "R-4.23 R-10.30 a full window is a violation, never a wait", func(t *testing.T) {
		h := stagesUnderTest(t, nil)
		req := h.Request(capNamed("stuck"))
		s := req.Stream("body", "media:")
		for range 32 {
			s.Chunk("fits")
		}
		wantStill(t, req)
		req.Send(cartridgetest.ChunkFrame("body", 32, cartridgetest.Bytes("one too many")))
		req.WantErr("CREDIT_VIOLATION", failure.Internal)
		wantAlive(t, h)
	})
	virtual(t, "R-4.25 R-8.25 a handler's every wait ends with its context", func(t *testing.T) {
		waits := map[string]bifaci.Handler{
			"stream": func(ctx context.Context, r *bifaci.Request) error { _, err := firstStream(ctx, r); return err },
			"item": func(ctx context.Context, r *bifaci.Request) error {
				s, err := r.Input(ctx, "media:")
				if err != nil {
					return err
				}
				_, err = s.CollectBytes(ctx)
				return err
			},
			"credit": func(ctx context.Context, r *bifaci.Request) error {
				for {
					if err := r.Output().EmitItem(ctx, "x", nil); err != nil {
						return err
					}
				}
			},
			"peer": func(ctx context.Context, r *bifaci.Request) error {
				answer, err := bifaci.CallBytes(ctx, r.Peer(), capNamed("echo"))
				if err != nil {
					return err
				}
				_, err = answer.Next(ctx)
				return err
			},
			"argument": func(ctx context.Context, r *bifaci.Request) error {
				call, err := r.Peer().Call(ctx, capNamed("echo"))
				if err != nil {
					return err
				}
				arg := call.Arg("media:")
				for {
					if err := arg.EmitItem(ctx, "x", nil); err != nil {
						return err
					}
				}
			},
		}
		for name, wait := range waits {
			errs := make(chan error, 1)
			h := stagesUnderTest(t, []cartridgetest.Option{cartridgetest.WithManualCredit()}, served{"wait", func(ctx context.Context, r *bifaci.Request) error {
				err := wait(ctx, r)
				errs <- err
				return err
			}})
			req := h.Request(capNamed("wait"))
			if name == "item" {
				req.Stream("body", "media:")
			}
			wantStill(t, req)
			start := time.Now()
			req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
			assert.Zero(t, time.Since(start), name)
			var cancelled *failure.CancelledError
			assert.ErrorAs(t, <-errs, &cancelled, name)
			h.WantIdle()
		}
	})
	virtual(t, "R-4.26 a chunker that waits for credit holds up no other request", func(t *testing.T) {
		h := stagesUnderTest(t, []cartridgetest.Option{cartridgetest.WithManualCredit()}, served{"much", func(ctx context.Context, r *bifaci.Request) error {
			for {
				if err := r.Output().EmitItem(ctx, "x", nil); err != nil {
					return err
				}
			}
		}})
		var stuck []*cartridgetest.Request
		for range 16 {
			stuck = append(stuck, h.Request(capNamed("much")))
		}
		synctest.Wait()
		for _, req := range stuck {
			require.Len(t, chunks(req), 32)
		}
		wantEcho(t, h)
		stuck[3].Grant(1)
		synctest.Wait()
		assert.Len(t, chunks(stuck[3]), 33)
		assert.Len(t, chunks(stuck[4]), 32)
	})
	virtual(t, "R-4.27 a gate lets go without the loop: by the caller's context, while the reader is stopped", func(t *testing.T) {
		patience := make(chan context.CancelCauseFunc, 1)
		errs := make(chan error, 1)
		h := stagesUnderTest(t, []cartridgetest.Option{cartridgetest.WithManualCredit()}, served{"much", func(ctx context.Context, r *bifaci.Request) error {
			own, cancel := context.WithCancelCause(ctx)
			patience <- cancel
			for {
				if err := r.Output().EmitItem(own, "x", nil); err != nil {
					errs <- err
					return err
				}
			}
		}})
		req := h.Request(capNamed("much"))
		synctest.Wait()
		h.HoldOutput(true)
		// How many answers fit depends on how many the writer held when its output stopped: a lane's worth, or two.
		for range 20 {
			for range 2000 {
				h.Send(probeFrame(1, nil))
			}
			synctest.Wait()
		}
		require.Positive(t, h.Unread(), "the reader is not stopped")
		over := errors.New("no patience")
		(<-patience)(over)
		assert.ErrorIs(t, <-errs, over)
		h.HoldOutput(false)
		req.WantErr("HANDLER_ERROR", failure.Internal)
	})
	virtual(t, "R-4.28 the writer does not wait for a reader that is in the middle of a frame, nor for handlers", func(t *testing.T) {
		next := make(chan struct{})
		h := stagesUnderTest(t, nil, served{"tick", func(ctx context.Context, r *bifaci.Request) error {
			for range next {
				if err := r.Output().EmitItem(ctx, "tick", nil); err != nil {
					return err
				}
			}
			return nil
		}})
		req := h.Request(capNamed("tick")).End()
		h.Request(capNamed("stuck"))
		synctest.Wait()
		h.SendBytes(binary.BigEndian.AppendUint32(nil, 1000)) // and no body
		for range 10 {
			next <- struct{}{}
			req.WantItems("tick")
		}
		close(next)
		req.WantEnd()
	})
}

func TestNoProgressPromise(t *testing.T) {
	virtual(t, "R-4.13 R-4.6 a handler that gives its keepalive no turn is silent, and the link is as alive as ever", func(t *testing.T) {
		h := stagesUnderTest(t, nil, served{"busy", func(ctx context.Context, r *bifaci.Request) error {
			_, err := bifaci.RunWithKeepalive(ctx, r.Output(), 0.1, "busy", func(context.Context) (struct{}, error) {
				time.Sleep(16 * time.Second)
				return struct{}{}, nil
			})
			<-ctx.Done() // and then works on without telling anybody
			return err
		}})
		req := h.Request(capNamed("busy")).End()
		time.Sleep(20 * time.Second)
		require.Equal(t, "log log log", types(req), "while the handler has them sent")
		for range 30 {
			time.Sleep(time.Minute)
			h.Probe()
		}
		assert.Equal(t, "log log log", types(req), "the runtime makes up no progress of its own")
		wantStill(t, req)
		req.Cancel(failure.CancelReason{Code: failure.Aborted, Class: failure.Environment, Message: "no activity for 30 minutes"})
		req.WantErr(failure.Aborted, failure.Environment)
		wantAlive(t, h)
	})
}

// wantEcho is a part of wantAlive, for a host that grants by hand.
func wantEcho(t *testing.T, h *cartridgetest.Host) {
	t.Helper()
	h.Probe()
	req := h.Request(capNamed("echo")).Chunk("alive").End()
	req.WantItems("alive")
	req.WantEnd()
}

func TestFloodsCostTheFlooder(t *testing.T) {
	const flood = 20_000
	frames := map[string]cartridgetest.Frame{
		"CREDIT":       cartridgetest.CreditFrame(frame.CreditResponse, "s", 1),
		"LOG":          cartridgetest.LogFrame("info", failure.Internal, "flood"),
		"CANCEL":       cartridgetest.CancelFrame(failure.UserCancel()),
		"CLOSE_STREAM": cartridgetest.CloseStreamFrame("s"),
		"CHUNK":        cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes("flood")),
		"STREAM_START": cartridgetest.StartFrame("s", "media:"),
		"END":          cartridgetest.EndFrame(false),
	}
	for name, f := range frames {
		t.Run(fmt.Sprintf("R-4.7 R-3.20 %d %s of an unknown request are counted and kept nowhere", flood, name), func(t *testing.T) {
			h := stagesUnderTest(t, nil)
			live := h.Request(capNamed("echo")).Chunk("before")
			live.WantItems("before")
			h.Send(f)
			h.Probe()
			before := heap()
			for range flood - 1 {
				h.Send(f)
			}
			pulse := h.Probe()
			assert.EqualValues(t, flood, pulse.Drops)
			assert.Less(t, heap()-before, int64(2<<20))
			live.Chunk("after").End().WantItems("after")
			live.WantEnd()
		})
	}
	t.Run("R-4.7 frames of a live request that mean nothing to it", func(t *testing.T) {
		for _, f := range []cartridgetest.Frame{frames["LOG"], frames["CLOSE_STREAM"], frames["CREDIT"]} {
			h := stagesUnderTest(t, nil)
			live := h.Request(capNamed("echo"))
			h.Probe()
			before := heap()
			for range flood {
				live.Send(f)
			}
			h.Probe()
			assert.Less(t, heap()-before, int64(2<<20))
			live.Chunk("x").End().WantItems("x")
			live.WantEnd()
		}
	})
	t.Run("R-4.7 requests in line are bounded by WithMaxQueued", func(t *testing.T) {
		g := newGate()
		c := cartridgeOf(t, bounded(map[string]uint64{"all": 1}), []bifaci.Option{bifaci.WithMaxQueued(10)}, served{"a", g.handle})
		h := cartridgetest.Start(t, c)
		var reqs []*cartridgetest.Request
		for range 100 {
			reqs = append(reqs, h.Request(capNamed("a")).End())
		}
		for _, req := range reqs[11:] {
			req.WantErr(failure.QueueFull, failure.Resource)
		}
		g.open()
		for _, req := range reqs[:11] {
			req.WantEnd()
		}
		h.WantIdle()
	})
}

// heap is what is reachable, bytes.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestTerminalGateNeverForgets(t *testing.T) {
	virtual(t, "R-4.11 R-3.14 a late sender is stopped however many requests came in between", func(t *testing.T) {
		kept := make(chan *bifaci.OutputStream, 1)
		h := stagesUnderTest(t, nil, served{"kept", func(_ context.Context, r *bifaci.Request) error {
			kept <- r.Output()
			return nil
		}})
		id := cartridgetest.WithID(frame.UintID(7))
		old := h.Request(capNamed("kept"), id).End()
		old.WantEnd()
		out := <-kept
		for range 1500 {
			h.Request(capNamed("nobody")).WantErr(failure.NoHandler, failure.Environment)
		}
		before := h.Probe().Stragglers
		require.NoError(t, out.Log("info", failure.Internal, "late"))
		assert.EqualValues(t, 1, h.Probe().Stragglers-before)
		assert.Equal(t, "end", settled(old))

		again := h.Request(capNamed("echo"), id).Chunk("new") // the id is free, its new frames are not muted
		require.NoError(t, out.Log("info", failure.Internal, "late"))
		again.End().WantItems("new")
		again.WantEnd()
		assert.NotContains(t, types(again), "log")
	})
	t.Run("R-4.11 R-3.1 answers that belong to no request are not gated", func(t *testing.T) {
		h := stagesUnderTest(t, nil)
		hello := cartridgetest.HelloFrame(frame.DefaultLimits()).With(frame.KeyID, uint64(3))
		h.Send(hello, hello)
		for range 2 {
			f := h.Answer(frame.UintID(3))
			assert.Equal(t, frame.TypeErr, f.Type())
			assert.Equal(t, "PROTOCOL_ERROR", f.Failure().Code)
		}
	})
}

func TestControlGoesFirst(t *testing.T) {
	virtual(t, "R-4.8 R-4.9 a heartbeat's answer overtakes data that waits", func(t *testing.T) {
		f := &flooder{make(chan int, 1)}
		h := stagesUnderTest(t, nil, served{"flood", f.handle})
		h.HoldOutput(true)
		req := h.Request(capNamed("flood"))
		synctest.Wait()
		h.Send(probeFrame(42, nil))
		synctest.Wait()
		h.HoldOutput(false)
		h.Answer(frame.UintID(42))
		// A batch is under way in the writer and a full pipe in front of it; only they may come before the answer.
		logs := strings.Count(types(req), "log")
		assert.Less(t, logs, 2*1024+700, "the answer waited for the whole lane")
		req.Cancel(failure.UserCancel())
		<-f.taken
		req.WantErr("CANCELLED", failure.User)
	})
	virtual(t, "R-4.8 R-7.41 a CANCEL does not overtake the REQ that it cancels", func(t *testing.T) {
		h := stagesUnderTest(t, nil, served{"calls", func(ctx context.Context, r *bifaci.Request) error {
			for range 50 {
				if _, err := r.Peer().Call(ctx, capNamed("echo")); err != nil {
					return err
				}
			}
			return nil // the calls are cancelled at once
		}})
		h.HoldOutput(true)
		req := h.Request(capNamed("calls")).End()
		synctest.Wait()
		h.HoldOutput(false)
		for range 50 { // the judge of the link sees to the order
			assert.Equal(t, "ABORTED", h.WantPeerCall(capNamed("echo")).WantCancel().Code)
		}
		req.WantEnd()
	})
}
