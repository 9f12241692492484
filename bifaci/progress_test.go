package bifaci_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

func TestArrivalOrder(t *testing.T) {
	t.Run("R-3.21 frames of a flow are handled in order, requests do not wait for each other", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", echoes}, served{"stuck", func(ctx context.Context, _ *bifaci.Request) error {
			<-ctx.Done()
			return nil
		}}), cartridgetest.WithWindow(4))
		stuck := h.Request(capNamed("stuck"))
		for range 4 {
			stuck.Chunk("x") // its window is full now
		}
		var all []*cartridgetest.Request
		for range 20 {
			all = append(all, h.Request(capNamed("one")))
		}
		for i := range 30 {
			for _, r := range all {
				r.Chunk(fmt.Sprint(i))
			}
		}
		for _, r := range all {
			r.End()
			for i := range 30 {
				r.WantItems(fmt.Sprint(i))
			}
			r.WantEnd()
		}
		stuck.Cancel(failure.UserCancel()).WantErr(failure.Cancelled, failure.User)
		h.WantIdle()
	})
}

// TestTurns: each event that can free capacity admits who can go, without any other frame.
func TestTurns(t *testing.T) {
	one := capNamed("one")
	type line struct {
		h     *cartridgetest.Host
		c     *bifaci.Cartridge
		front *gate
		run   *gate
		first *cartridgetest.Request
		wait  [2]*cartridgetest.Request
	}
	start := func(t *testing.T, capacities map[string]uint64) *line {
		t.Helper()
		l := &line{front: newGate(), run: newGate()}
		l.c = cartridgeOf(t, bounded(capacities), nil, served{"front", l.front.handle}, served{"one", l.run.handle})
		l.h = cartridgetest.Start(t, l.c)
		l.first = l.h.Request(capNamed("front")).End()
		<-l.front.started
		for i := range l.wait {
			l.wait[i] = l.h.Request(one).End()
			l.wait[i].WantLog("queued")
		}
		synctest.Wait()
		require.Empty(t, l.run.started)
		return l
	}
	finish := func(l *line) {
		l.run.open()
		select {
		case <-l.front.release:
		default:
			l.front.open()
		}
	}
	virtual(t, "R-3.70 a handler's return", func(t *testing.T) {
		l := start(t, map[string]uint64{"all": 1})
		l.front.open()
		l.first.WantEnd()
		synctest.Wait()
		assert.Len(t, l.run.started, 1, "one slot, one admission")
		finish(l)
		l.wait[0].WantEnd()
		l.wait[1].WantEnd()
		l.h.WantIdle()
	})
	virtual(t, "R-3.70 a heartbeat that raises a capacity, until nobody in line can go", func(t *testing.T) {
		l := start(t, map[string]uint64{"all": 1})
		pulse := l.h.SetCapacities(map[string]uint64{"all": 5})
		assert.EqualValues(t, 5, pulse.Pools["all"].Configured)
		synctest.Wait()
		assert.Len(t, l.run.started, 2)
		finish(l)
		l.wait[1].WantEnd()
		l.h.WantIdle()
	})
	virtual(t, "R-3.70 a report of the cartridge's own, without any frame of the host", func(t *testing.T) {
		l := start(t, map[string]uint64{"all": 1})
		require.NoError(t, l.c.PoolHandle("all").Set(1))
		l.h.SetCapacities(map[string]uint64{"all": 9})
		synctest.Wait()
		require.Empty(t, l.run.started, "one is all that is available")
		require.NoError(t, l.c.PoolHandle("all").Set(2))
		synctest.Wait()
		assert.Len(t, l.run.started, 1)
		require.NoError(t, l.c.PoolHandle("all").Clear())
		synctest.Wait()
		assert.Len(t, l.run.started, 2)
		finish(l)
		l.wait[1].WantEnd()
		l.h.WantIdle()
	})
	virtual(t, "R-3.70 the cancel of a waiting request leaves the line to the others", func(t *testing.T) {
		l := start(t, map[string]uint64{"all": 1})
		l.wait[0].Cancel(failure.UserCancel()).WantErr(failure.Cancelled, failure.User)
		l.front.open()
		l.first.WantEnd()
		finish(l)
		l.wait[1].WantEnd()
		assert.Len(t, l.run.started, 1)
		l.h.WantIdle()
	})
}

func TestNothingHoldsTheLoop(t *testing.T) {
	virtual(t, "R-3.71 a handler that never reads delays nobody", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", echoes}, served{"stuck", func(ctx context.Context, _ *bifaci.Request) error {
			<-ctx.Done()
			return nil
		}}), cartridgetest.WithWindow(2))
		began := time.Now()
		var stuck []*cartridgetest.Request
		for range 64 {
			r := h.Request(capNamed("stuck"))
			for _, id := range []string{"1", "2", "3", "4"} {
				r.Stream(id, "media:").Chunk("x").Chunk("x")
			}
			stuck = append(stuck, r)
		}
		req := h.Request(capNamed("one"))
		for i := range 100 {
			req.Chunk(fmt.Sprint(i)).WantItems(fmt.Sprint(i))
		}
		req.End().WantEnd()
		h.Probe()
		for _, r := range stuck {
			r.Cancel(failure.UserCancel()).WantErr(failure.Cancelled, failure.User)
		}
		assert.Zero(t, time.Since(began), "nobody waited for a timer")
		h.WantIdle()
	})
	virtual(t, "R-3.71 nor does one that waits for credit, or for a full output", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", echoes}, served{"floods", func(ctx context.Context, r *bifaci.Request) error {
			for {
				if err := r.Output().EmitItem(ctx, make([]byte, 100<<10), nil); err != nil {
					return err
				}
			}
		}}), cartridgetest.WithManualCredit(), cartridgetest.WithWindow(64))
		var floods []*cartridgetest.Request
		for range 4 {
			floods = append(floods, h.Request(capNamed("floods")))
		}
		h.HoldOutput(true)
		req := h.Request(capNamed("one")).Chunk("x").End()
		synctest.Wait()
		assert.Zero(t, h.Unread(), "the reader goes on although nothing can be written")
		h.HoldOutput(false)
		req.WantItems("x").WantEnd()
		for _, r := range floods {
			r.Cancel(failure.UserCancel()).WantErr(failure.Cancelled, failure.User)
		}
		h.WantIdle()
	})
}
