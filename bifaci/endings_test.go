package bifaci_test

import (
	"context"
	"errors"
	"io"
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
	"github.com/pipe-cartridge/pipe/bifaci/stats"
)

func TestCleanEndOfInput(t *testing.T) {
	virtual(t, "R-2.30 (a) a running request with a complete body continues", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", g.tells}))
		req := h.Request(capNamed("one")).Chunk("x").End()
		r := <-g.started
		h.CloseInput()
		synctest.Wait()
		require.NoError(t, r.Context().Err())
		g.open()
		req.WantItems("[media: x eof] eof").WantEnd()
		require.NoError(t, h.Wait())
		h.WantIdle()
	})
	virtual(t, "R-2.30 (b) a running request whose body is cut fails, whatever its handler returns", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", g.handle}))
		req := h.Request(capNamed("one")).Chunk("x")
		r := <-g.started
		h.CloseInput()
		<-r.Context().Done()
		assert.ErrorContains(t, context.Cause(r.Context()), failure.ConnectionClosed)
		g.open()
		req.WantErr(failure.ConnectionClosed, failure.Environment)
		require.NoError(t, h.Wait())
	})
	virtual(t, "R-2.30 (c) a waiting request with a complete body is served, (d) one without is answered", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"one", g.tells}))
		first := h.Request(capNamed("one")).Chunk("1").End()
		var cut []*cartridgetest.Request
		for range 5 {
			cut = append(cut, h.Request(capNamed("one")).Chunk("2"))
		}
		whole := h.Request(capNamed("one")).Chunk("3").End()
		whole.WantLog("queued")
		h.CloseInput()
		for _, r := range cut {
			r.WantErr(failure.ConnectionClosed, failure.Environment)
		}
		g.open()
		first.WantItems("[media: 1 eof] eof").WantEnd()
		whole.WantItems("[media: 3 eof] eof").WantEnd()
		assert.Len(t, g.started, 2, "the factory of the cut one was never called")
		require.NoError(t, h.Wait())
	})
	virtual(t, "R-2.30 (f) credit that is left is used, then waiting fails at once", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
			<-time.After(time.Second)
			for range 2 {
				if err := r.Output().EmitItem(ctx, "x", nil); err != nil {
					return errors.New("too early")
				}
			}
			return r.Output().EmitItem(ctx, "y", nil)
		}}), cartridgetest.WithWindow(2), cartridgetest.WithManualCredit())
		req := h.Request(capNamed("one")).End()
		h.CloseInput()
		req.WantItems("x", "x").WantErr(failure.ConnectionClosed, failure.Environment)
		require.NoError(t, h.Wait())
	})
	virtual(t, "R-2.30 (f) one who waits for credit is released", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
			for {
				if err := r.Output().EmitItem(ctx, "x", nil); err != nil {
					return err
				}
			}
		}}), cartridgetest.WithWindow(2), cartridgetest.WithManualCredit())
		req := h.Request(capNamed("one")).End()
		req.WantItems("x", "x")
		synctest.Wait()
		assert.Nil(t, req.Terminal())
		h.CloseInput()
		req.WantErr(failure.ConnectionClosed, failure.Environment)
		require.NoError(t, h.Wait())
	})
	virtual(t, "R-2.30 (g) unfinished peer calls fail", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
			call, err := r.Peer().Call(ctx, "cap:effect=none")
			if err != nil {
				return err
			}
			_, err = call.Response().Next(ctx)
			return err
		}}))
		req := h.Request(capNamed("one")).End()
		h.WantPeerCall("cap:effect=none")
		h.CloseInput()
		req.WantErr(failure.ConnectionClosed, failure.Environment)
		require.NoError(t, h.Wait())
	})
	virtual(t, "R-2.30 (h) it waits for all handlers, (i) and writes everything", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
			<-g.release
			_, err := r.Output().Write([]byte(strings.Repeat("x", 1<<20)))
			return err
		}}))
		req := h.Request(capNamed("one")).End()
		h.HoldOutput(true)
		h.CloseInput()
		g.open()
		synctest.Wait()
		h.HoldOutput(false)
		assert.Len(t, req.Collect(), 1<<20)
		req.WantEnd()
		require.NoError(t, h.Wait())
		h.WantIdle()
	})
	t.Run("R-2.30 requests in one go, then the end: every answer comes", func(t *testing.T) {
		for _, n := range []int{1, 8, 64} {
			h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", echoes}))
			var all []*cartridgetest.Request
			for range n {
				all = append(all, h.Request(capNamed("one")).Chunk("x").End())
			}
			h.CloseInput()
			for _, r := range all {
				r.WantItems("x").WantEnd()
			}
			require.NoError(t, h.Wait())
		}
	})
}

func TestUncleanEndOfInput(t *testing.T) {
	whole := wire(t, cartridgetest.HeartbeatFrame(nil))
	for name, b := range map[string][]byte{
		"one byte of a prefix": whole[:1], "three bytes of a prefix": whole[:3], "a prefix alone": whole[:4], "all but the last byte": whole[:len(whole)-1],
	} {
		virtual(t, "R-2.31 "+name, func(t *testing.T) {
			g := newGate()
			h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", g.handle}), cartridgetest.WithReadSize(1))
			req := h.Request(capNamed("one")).End()
			<-g.started
			h.SendBytes(b)
			h.CloseInput()
			synctest.Wait()
			g.open()
			req.WantErr(failure.ProtocolError, failure.Internal)
			require.ErrorIs(t, h.Wait(), io.ErrUnexpectedEOF)
		})
	}
}

func TestOutputFails(t *testing.T) {
	boom := errors.New("the pipe is gone")
	virtual(t, "R-2.33 handlers are cancelled with the cause and run returns the write error", func(t *testing.T) {
		g := newGate()
		c := cartridgeOf(t, bounded(map[string]uint64{capNamed("one"): 1}), nil, served{"one", g.handle}, served{"speaks", func(ctx context.Context, r *bifaci.Request) error {
			<-time.After(time.Second)
			return r.Output().EmitItem(ctx, "x", nil)
		}})
		h := cartridgetest.Start(t, c)
		h.Request(capNamed("one")).End()
		for range 5 {
			h.Request(capNamed("one")).End().WantLog("queued")
		}
		r := <-g.started
		h.BreakOutput(boom)
		h.Request(capNamed("speaks")).End()
		<-r.Context().Done()
		require.ErrorIs(t, context.Cause(r.Context()), boom)
		require.ErrorIs(t, context.Cause(r.Context()), bifaci.ErrOutputClosed)
		require.ErrorIs(t, r.Output().EmitItem(context.Background(), "late", nil), bifaci.ErrOutputClosed)
		h.Request(capNamed("speaks")).End() // nobody reads any more
		g.open()
		err := h.Wait()
		require.ErrorIs(t, err, boom)
		require.ErrorIs(t, err, bifaci.ErrOutputClosed)
		assert.Empty(t, g.started, "nobody in line was admitted")
		lost := c.Drops().ByReasonFrameType[stats.ChannelClosed]
		assert.NotZero(t, lost["err"], "the terminals could not be sent: %v", lost)
		h.WantIdle()
	})
}

// deaf is a reader that cannot be interrupted.
type deaf struct {
	io.Reader
	release chan struct{}
}

func (d deaf) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		<-d.release
	}
	return n, err
}

func TestContextEnds(t *testing.T) {
	virtual(t, "R-2.34 each unfinished request ends with ABORTED and run returns the cause", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"one", g.handle}))
		running := h.Request(capNamed("one"))
		waiting := h.Request(capNamed("one")).End()
		waiting.WantLog("queued")
		r := <-g.started
		cause := errors.New("enough")
		h.Stop(cause)
		waiting.WantErr(failure.Aborted, failure.Environment)
		<-r.Context().Done()
		require.ErrorIs(t, context.Cause(r.Context()), cause)
		g.open()
		running.WantErr(failure.Aborted, failure.Environment)
		require.ErrorIs(t, h.Wait(), cause)
		h.WantIdle()
	})
	virtual(t, "R-2.34 on an idle link, before HELLO and after it", func(t *testing.T) {
		cause := errors.New("enough")
		for _, opts := range [][]cartridgetest.Option{nil, {cartridgetest.WithoutHello()}} {
			h := cartridgetest.Start(t, cartridgeOf(t, nil, nil), opts...)
			h.Stop(cause)
			require.ErrorIs(t, h.Wait(), cause)
		}
	})
	virtual(t, "R-2.34 while handlers still run after the end of the input", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", g.handle}))
		req := h.Request(capNamed("one")).End()
		r := <-g.started
		h.CloseInput()
		synctest.Wait()
		h.Stop(errors.New("enough"))
		<-r.Context().Done()
		g.open()
		req.WantErr(failure.Aborted, failure.Environment)
		h.Wait()
	})
	virtual(t, "R-2.34 a reader that cannot be interrupted does not hold the return", func(t *testing.T) {
		for _, in := range []string{"", string(wire(t, cartridgetest.HelloFrame(frame.DefaultLimits())))} {
			c := cartridgeOf(t, nil, nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			cause := errors.New("enough")
			stuck := make(chan struct{})
			served := make(chan error, 1)
			go func() { served <- c.Serve(ctx, deaf{strings.NewReader(in), stuck}, io.Discard) }()
			synctest.Wait()
			cancel(cause)
			require.ErrorIs(t, <-served, cause)
			close(stuck)
		}
	})
}

func TestShutdownGrace(t *testing.T) {
	virtual(t, "R-2.35 contexts end after the grace, and run after another", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, nil, []bifaci.Option{bifaci.WithShutdownGrace(3 * time.Second)}, served{"one", g.handle}))
		h.AllowUnanswered()
		h.Request(capNamed("one")).End()
		r := <-g.started
		h.CloseInput()
		began := time.Now()
		<-r.Context().Done()
		assert.Equal(t, 3*time.Second, time.Since(began))
		require.ErrorContains(t, h.Wait(), "still run")
		assert.Equal(t, 6*time.Second, time.Since(began))
		g.open()
	})
	virtual(t, "R-2.35 a handler that obeys ends the run in time", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, []bifaci.Option{bifaci.WithShutdownGrace(3 * time.Second)},
			served{"one", func(ctx context.Context, _ *bifaci.Request) error { <-ctx.Done(); return nil }}))
		req := h.Request(capNamed("one")).End()
		h.CloseInput()
		req.WantErr(failure.Aborted, failure.Environment)
		require.NoError(t, h.Wait())
		h.WantIdle()
	})
	virtual(t, "R-2.35 without the option there is no limit", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", g.handle}), cartridgetest.WithPatience(72*time.Hour))
		req := h.Request(capNamed("one")).End()
		r := <-g.started
		h.CloseInput()
		<-time.After(48 * time.Hour)
		require.NoError(t, r.Context().Err())
		g.open()
		req.WantEnd()
		require.NoError(t, h.Wait())
	})
}
