package host_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/pools"
)

// pulse is a cartridge's reply to a probe.
func pulse(probe Frame, poolMap string, counters map[string]uint64) Frame {
	meta := map[string]any{"pools": []byte(poolMap)}
	for name, n := range counters {
		meta[name] = n
	}
	return cartridgetest.HeartbeatFrame(nil).With(frame.KeyID, probe[frame.KeyID]).With(frame.KeyMeta, meta)
}

const busyPools = `{"all":{"active":3,"caps":[],"configured":4,"declared":0,"queued":2}}`

func TestProbe(t *testing.T) {
	type result struct {
		reply frame.HeartbeatReply
		err   error
	}
	t.Run("R-12.42 the reply replaces the pools and its counters are given as they came", func(t *testing.T) {
		f, conn := live(t, true)
		done := inBackground(func() result {
			r, err := conn.Probe(t.Context(), nil)
			return result{r, err}
		})
		probe := f.want(frame.TypeHeartbeat)
		assert.Len(t, probe[frame.KeyID], 16, "a fresh uuid")
		assert.False(t, probe.Has(frame.KeyMeta), "no capacities")
		f.send(pulse(probe, busyPools, map[string]uint64{"drops_total": 5, "stragglers_total": 6, "overruns_total": 7, "footprint_mb": 8, "rss_mb": 9}))
		got := wait(t, done, "the reply")
		require.NoError(t, got.err)
		assert.Equal(t, frame.HeartbeatReply{Pools: []byte(busyPools), DropsTotal: 5, StragglersTotal: 6, OverrunsTotal: 7,
			HasMemory: true, FootprintMB: 8, RSSMB: 9}, got.reply)
		assert.Equal(t, uint64(3), conn.Pools()["all"].Active)
	})
	t.Run("R-12.42 R-12.43 an ERR with the probe's id answers a refused batch and the link lives on", func(t *testing.T) {
		f, conn := live(t, true)
		done := inBackground(func() error {
			_, err := conn.Probe(t.Context(), pools.Desired{"gpu": 2})
			return err
		})
		probe := f.want(frame.TypeHeartbeat)
		assert.JSONEq(t, `{"gpu":2}`, string(probe.Meta()["desired_capacities"].([]byte)))
		f.send(cartridgetest.ErrFrame(failure.UnknownPool, failure.Internal, "unknown pool 'gpu'").With(frame.KeyID, probe[frame.KeyID]))
		var remote *failure.Remote
		require.ErrorAs(t, wait(t, done, "the refusal"), &remote)
		assert.Equal(t, failure.UnknownPool, remote.Code)
		assert.Contains(t, remote.Message, "gpu")
		f.wantAlive(conn)
	})
	t.Run("R-12.43 capacities of a real cartridge, in any spelling, and an unknown pool", func(t *testing.T) {
		c := cartridgetest.Connect(t, cartridgetest.Serving(t, anyCap, echo))
		const other = `cap:work;out="media:";in="media:"`
		_, err := c.Conn().Probe(t.Context(), pools.Desired{other: 3, pools.All: 5})
		require.NoError(t, err)
		assert.Equal(t, uint64(5), c.Conn().Pools()[pools.All].Configured)
		_, err = c.Conn().Probe(t.Context(), pools.Desired{pools.All: 1, "gpu": 1})
		var remote *failure.Remote
		require.ErrorAs(t, err, &remote)
		assert.Equal(t, failure.UnknownPool, remote.Code)
		assert.Contains(t, remote.Message, "gpu")
		_, err = c.Conn().Probe(t.Context(), nil)
		require.NoError(t, err)
		assert.Equal(t, uint64(5), c.Conn().Pools()[pools.All].Configured, "nothing of the refused batch was applied")
	})
	t.Run("R-12.44 a heartbeat of the cartridge's is answered with its id", func(t *testing.T) {
		f, _ := live(t, true)
		f.send(cartridgetest.HeartbeatFrame(nil).With(frame.KeyID, uint64(99)))
		assert.Equal(t, frame.UintID(99), f.want(frame.TypeHeartbeat).ID())
	})
	t.Run("R-12.42 the late reply to a probe that was given up is no probe", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, conn := live(t, true)
			ctx, cancel := context.WithCancelCause(t.Context())
			done := inBackground(func() error {
				_, err := conn.Probe(ctx, nil)
				return err
			})
			probe := f.want(frame.TypeHeartbeat)
			enough := errors.New("enough")
			cancel(enough)
			require.ErrorIs(t, <-done, enough)
			f.send(pulse(probe, busyPools, nil))
			synctest.Wait()
			require.Empty(t, f.got, "answering it would make both sides answer for ever")
			assert.Equal(t, uint64(3), conn.Pools()["all"].Active, "what it says still counts")
			f.send(pulse(probe, busyPools, nil))
			assert.Equal(t, probe.ID(), f.want(frame.TypeHeartbeat).ID(), "a second one is a probe of the cartridge's")
		})
	})
	t.Run("R-12.42 a probe ends with the link", func(t *testing.T) {
		f, conn := live(t, true)
		done := inBackground(func() error {
			_, err := conn.Probe(t.Context(), nil)
			return err
		})
		f.want(frame.TypeHeartbeat)
		require.NoError(t, f.out.Close())
		wantFailure(t, wait(t, done, "the probe's end"), failure.CartridgeDied, failure.Environment)
		_, err := conn.Probe(t.Context(), nil)
		wantFailure(t, err, failure.CartridgeDied, failure.Environment)
	})
	t.Run("R-12.45 the reader waits for nobody: an answer that is not read holds no reply back", func(t *testing.T) {
		f, conn := live(t, true)
		call, req := f.call(conn)
		window := int(frame.DefaultLimits().InitialCredit)
		frames := []Frame{cartridgetest.StartFrame("answer", "media:")}
		for i := range window {
			frames = append(frames, cartridgetest.ChunkFrame("answer", uint64(i), cartridgetest.Bytes("x")))
		}
		for range 3000 {
			frames = append(frames, cartridgetest.LogFrame("info", failure.Internal, "busy"))
		}
		f.answer(req, frames...)
		f.wantAlive(conn)
		require.NoError(t, call.Response().Close())
	})
}

// wantFailure makes sure of an error's identity.
func wantFailure(t *testing.T, err error, code string, class failure.Class) *failure.Failure {
	t.Helper()
	require.Error(t, err)
	got := failure.From(err)
	require.Equal(t, code, got.Code, "%v", err)
	require.Equal(t, class, got.Class, "%v", err)
	return got
}
