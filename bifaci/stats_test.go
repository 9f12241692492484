package bifaci_test

import (
	"context"
	"encoding/json"
	"expvar"
	"fmt"
	"slices"
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
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/stages"
)

func TestStats(t *testing.T) {
	virtual(t, "R-11.6 requests by state, pools, and what each stream has carried", func(t *testing.T) {
		g, tail := newGate(), newGate()
		c := cartridgeOf(t, bounded(map[string]uint64{capNamed("one"): 1}), nil, served{"one", g.handle},
			served{"calls", func(ctx context.Context, r *bifaci.Request) error {
				call, err := r.Peer().Call(ctx, capNamed("other"))
				if err != nil {
					return err
				}
				if err := call.Arg("media:").EmitItem(ctx, "ab", nil); err != nil {
					return err
				}
				if _, err := r.StartUnbounded(bifaci.Sequence); err != nil {
					return err
				}
				for _, item := range []string{"x", "yz", "w"} {
					if err := r.Output().EmitItem(ctx, item, nil); err != nil {
						return err
					}
				}
				return tail.handle(ctx, r)
			}})
		require.Equal(t, stats.Snapshot{}, c.Stats(), "there was no link yet")
		h := cartridgetest.Start(t, c, cartridgetest.WithWindow(8), cartridgetest.WithManualCredit())
		running := h.Request(capNamed("one"))
		in := running.Stream("in", "media:", cartridgetest.Unbounded)
		for _, text := range []string{"a", "bc", "def"} {
			in.Chunk(text)
		}
		running.Stream("over", "media:").Chunk("g").End()
		waiting := h.Request(capNamed("one")).End()
		calling := h.Request(capNamed("calls")).End()
		p := h.WantPeerCall(capNamed("other"))
		stopped := h.Request(capNamed("calls"))
		synctest.Wait() // it runs: one that is stopped before does not
		stopped.Send(cartridgetest.CancelFrame(failure.UserCancel()))
		synctest.Wait()

		s := c.Stats()
		assert.Equal(t, stats.RequestCounts{Waiting: 1, Running: 1, BodyComplete: 1, Stopping: 1}, s.Requests)
		var pools map[string]cartridgetest.Pool
		require.NoError(t, json.Unmarshal(s.Pools, &pools))
		assert.Equal(t, h.Probe().Pools, pools)
		id := running.ID().String()
		// A CBOR byte string of n short bytes is one byte longer.
		assert.Equal(t, []stats.StreamCounts{
			{Request: id, Stream: "in", FramesIn: 4, BytesIn: 9, ChunksIn: 3, CreditOutstanding: 5, Unbounded: true},
			{Request: id, Stream: "over", FramesIn: 3, BytesIn: 2, ChunksIn: 1, CreditOutstanding: 7, Ended: true},
		}, of(s.Streams, id))
		out := of(s.Streams, calling.ID().String())
		require.Len(t, out, 1)
		assert.Equal(t, stats.StreamCounts{Request: calling.ID().String(), Stream: calling.WantStream().ID, FramesOut: 4, BytesOut: 7, ChunksOut: 3,
			CreditOutstanding: 5, Unbounded: true}, out[0])
		arg := of(s.Streams, p.ID().String())
		require.Len(t, arg, 1)
		assert.Equal(t, stats.StreamCounts{Request: p.ID().String(), Stream: p.WantStream().ID, FramesOut: 2, BytesOut: 3, ChunksOut: 1,
			CreditOutstanding: 7}, arg[0])
		assert.Empty(t, of(s.Streams, waiting.ID().String()))

		running.Cancel(failure.UserCancel())
		calling.Grant(8)
		synctest.Wait()
		s = c.Stats()
		assert.Equal(t, stats.RequestCounts{Waiting: 1, BodyComplete: 1, Stopping: 2}, s.Requests)
		assert.EqualValues(t, 13, of(s.Streams, calling.ID().String())[0].CreditOutstanding)
		g.open()
		tail.open()
		p.End()
		calling.Collect()
		calling.WantEnd()
		running.WantErr(failure.Cancelled, failure.User)
		waiting.WantEnd()
		synctest.Wait()
		s = c.Stats()
		assert.Zero(t, s.Requests)
		assert.Empty(t, s.Streams)
		h.CloseInput()
		require.NoError(t, h.Wait())
		assert.Equal(t, s.Frames, c.Stats().Frames, "it can be asked after the end as well")
	})
	t.Run("R-11.6 as a variable of expvar", func(t *testing.T) {
		vars := new(expvar.Map)
		c := cartridgetest.Serving(t, workCap, echoes, bifaci.WithExpvar(func(v fmt.Stringer) { vars.Set("cartridge", v) }))
		h := cartridgetest.Start(t, c)
		h.Send(cartridgetest.EndFrame(false))
		h.Probe()
		var all map[string]stats.Snapshot
		require.NoError(t, json.Unmarshal([]byte(vars.String()), &all))
		assert.Equal(t, map[stats.Reason]map[string]uint64{stats.NoRoute: {"end": 1}}, all["cartridge"].Drops.ByReasonFrameType)
	})
	t.Run("R-11.7 asking while the link is busy", func(t *testing.T) {
		c := cartridgetest.Serving(t, workCap, echoes)
		h := cartridgetest.Start(t, c)
		over := make(chan struct{})
		var asking sync.WaitGroup
		asking.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
					for _, s := range c.Stats().Streams {
						if s.CreditOutstanding < 0 {
							t.Errorf("stream %s has a credit of %d", s.Stream, s.CreditOutstanding)
						}
					}
				}
			}
		})
		for range 20 {
			req := h.Request(workCap)
			for range 20 {
				req.Chunk("x")
			}
			req.End()
			req.WantBytes(strings.Repeat("x", 20))
		}
		close(over)
		asking.Wait()
	})
}

// of are the streams of one request.
func of(all []stats.StreamCounts, request string) (streams []stats.StreamCounts) {
	for _, s := range all {
		if s.Request == request {
			streams = append(streams, s)
		}
	}
	return streams
}

func TestFrameTrace(t *testing.T) {
	virtual(t, "R-11.10 every frame of both directions, in order and without payload", func(t *testing.T) {
		var mu sync.Mutex
		var got []string
		hook := func(e stages.FrameEvent) {
			mu.Lock()
			defer mu.Unlock()
			assert.Nil(t, e.Frame.Payload)
			assert.False(t, e.Time.IsZero())
			assert.Zero(t, e.Missed)
			got = append(got, fmt.Sprintf("%s %s %s %d %s", e.Direction, e.Frame.Type, e.Frame.ID, e.PayloadBytes, e.Frame.StreamID))
		}
		h := cartridgetest.Start(t, cartridgetest.Serving(t, workCap, echoes, bifaci.WithFrameTrace(hook)))
		req := h.Request(workCap, cartridgetest.WithID(frame.UintID(77)))
		req.Stream("s", textMedia).Chunk("abc").End()
		req.End()
		req.WantBytes("abc")
		h.CloseInput()
		require.NoError(t, h.Wait())
		var in, out []string
		for _, line := range got {
			if strings.HasPrefix(line, "in ") {
				in = append(in, line)
			} else {
				out = append(out, line)
			}
		}
		assert.Equal(t, []string{"in hello 0 0 ", "in policy 0 0 "}, in[:2])
		assert.Equal(t, "out hello 0 0 ", out[0])
		for _, want := range []string{"in req 77 0 ", "in stream_start 77 0 s", "in chunk 77 4 s", "in stream_end 77 0 s", "in end 77 0 "} {
			assert.Contains(t, in, want)
		}
		at := slices.IndexFunc(out, func(line string) bool { return strings.HasPrefix(line, "out stream_start 77 0 ") })
		require.Positive(t, at)
		var kinds []string
		for _, line := range out[at:] {
			if f := strings.Fields(line); f[1] != "credit" && f[1] != "heartbeat" {
				kinds = append(kinds, f[1]+" "+f[3])
			}
		}
		assert.Equal(t, []string{"stream_start 0", "chunk 4", "stream_end 0", "end 0"}, kinds)
		h.WantIdle()
	})
	virtual(t, "R-11.10 a hook that blocks holds up neither frames nor heartbeats, and is told what it missed", func(t *testing.T) {
		release := make(chan struct{})
		var seen, missed uint64
		hook := func(e bifaci.FrameEvent) {
			<-release
			seen++
			missed += e.Missed
		}
		c := cartridgetest.Serving(t, workCap, echoes, bifaci.WithFrameTrace(hook))
		h := cartridgetest.Start(t, c)
		for range 30 {
			req := h.Request(workCap)
			for range 30 {
				req.Chunk("x")
			}
			req.End()
			req.WantBytes(strings.Repeat("x", 30))
			h.Probe()
		}
		close(release)
		synctest.Wait()
		h.Probe() // so that an event comes after those that were missed
		h.CloseInput()
		require.NoError(t, h.Wait())
		assert.Greater(t, missed, uint64(500))
		assert.Less(t, seen, uint64(1500), "what waits for the hook is bounded")
		judged := h.Check().Frames(cartridgetest.ToCartridge) + h.Check().Frames(cartridgetest.ToHost)
		assert.EqualValues(t, judged, seen+missed, "every frame was seen or is counted")
	})
}
