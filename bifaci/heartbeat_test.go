package bifaci_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"runtime"
	"slices"
	"strings"
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
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

// probeFrame is a heartbeat probe with an id of its own.
func probeFrame(id uint64, meta map[string]any) cartridgetest.Frame {
	f := cartridgetest.HeartbeatFrame(nil).With(frame.KeyID, id)
	if meta != nil {
		f = f.With(frame.KeyMeta, meta)
	}
	return f
}

func TestHeartbeatReply(t *testing.T) {
	// pooled serves caps a and b in a declared pool.
	pooled := func(t *testing.T, handlers ...served) *cartridgetest.Host {
		t.Helper()
		if handlers == nil {
			handlers = []served{{"a", echoes}, {"b", echoes}}
		}
		return cartridgetest.Start(t, cartridgeOf(t, func(m *manifest.Manifest) {
			m.Pools = pools.Declarations{Pools: map[string][]string{"gpu": {capNamed("a"), capNamed("b")}}, Capacities: map[string]uint64{"gpu": 2}}
		}, nil, handlers...))
	}
	t.Run("R-4.2 R-5.43 the same id and the full, refreshed map", func(t *testing.T) {
		h := pooled(t)
		p := h.Probe()
		names := slices.Sorted(maps.Keys(p.Pools))
		assert.Equal(t, []string{"all", "cap:a", "cap:b", "cap:effect=none", `cap:out="media:adapter-selection;fmt=json;record"`,
			"cap:out=media:void", "gpu"}, names)
		assert.EqualValues(t, 2, p.Pools["gpu"].Declared)
		p = h.SetCapacities(map[string]uint64{"gpu": 7, "all": 9})
		assert.EqualValues(t, 7, p.Pools["gpu"].Configured, "applied before the answer")
		assert.EqualValues(t, 2, p.Pools["gpu"].Declared)
		assert.EqualValues(t, 9, p.Pools["all"].Configured)
		assert.EqualValues(t, 7, h.Probe().Pools["gpu"].Configured, "it stays")
	})
	t.Run("R-4.2 R-5.20 an unknown pool: nothing is applied, and one ERR that names it instead of the answer", func(t *testing.T) {
		h := pooled(t)
		message := h.WantRefused([]byte(`{"all":3,"gpu":3,"tpu":3}`), failure.UnknownPool)
		assert.Contains(t, message, "tpu")
		p := h.Probe()
		assert.EqualValues(t, 0, p.Pools["all"].Configured)
		assert.EqualValues(t, 2, p.Pools["gpu"].Configured)
		h.Send(probeFrame(77, map[string]any{"desired_capacities": []byte(`{"nope":1}`)}))
		h.Send(probeFrame(77, map[string]any{"desired_capacities": []byte(`{"nope":1}`)}))
		for range 2 { // such an ERR is not gated
			f := h.Answer(frame.UintID(77))
			assert.Equal(t, frame.TypeErr, f.Type())
			assert.Equal(t, failure.Internal, f.Failure().Class)
		}
	})
	for name, value := range map[string]any{
		"no JSON": []byte(`{`), "an array": []byte(`[1]`), "a number below 0": []byte(`{"all":-1}`), "a fraction": []byte(`{"all":1.5}`),
		"a text as number": []byte(`{"all":"2"}`), "null": []byte(`null`), "nothing": []byte{}, "two values": []byte(`{"all":1}{}`),
		"text": `{"all":1}`, "a map": map[string]any{"all": 1}, "a number beyond 64 bits": []byte(`{"all":18446744073709551616}`),
	} {
		t.Run("R-4.2 capacities that are "+name+" are refused", func(t *testing.T) {
			h := pooled(t)
			h.Send(probeFrame(5, map[string]any{"desired_capacities": value}))
			f := h.Answer(frame.UintID(5))
			assert.Equal(t, frame.TypeErr, f.Type())
			assert.Equal(t, failure.UnknownPool, f.Failure().Code)
			assert.Equal(t, failure.Internal, f.Failure().Class)
			assert.EqualValues(t, 0, h.Probe().Pools["all"].Configured)
		})
	}
	t.Run("R-4.2 R-1.32 names that are cap URNs are compared canonically", func(t *testing.T) {
		h := pooled(t)
		p := h.SetCapacities(map[string]uint64{`cap:a;out="media:";in="media:"`: 4})
		assert.EqualValues(t, 4, p.Pools["cap:a"].Configured)
	})
	t.Run("R-4.4 what the answer carries", func(t *testing.T) {
		h := pooled(t)
		h.Unsent().Send(cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes("x"))) // a drop
		req := h.Request(capNamed("a")).End()
		req.WantEnd()
		req.Send(cartridgetest.EndFrame(false)) // a straggler
		h.Probe()
		h.Send(probeFrame(9, nil))
		f := h.Answer(frame.UintID(9))
		require.Equal(t, frame.TypeHeartbeat, f.Type())
		m := f.Meta()
		raw, ok := m["pools"].([]byte)
		require.True(t, ok, "pools are JSON in a byte string")
		assert.True(t, json.Valid(raw))
		assert.Equal(t, uint64(1), m["drops_total"])
		assert.Equal(t, uint64(1), m["stragglers_total"])
		assert.Equal(t, uint64(0), m["overruns_total"])
		if runtime.GOOS == "linux" {
			assert.Greater(t, m["rss_mb"], uint64(0))
			assert.Greater(t, m["footprint_mb"], uint64(0))
		}
	})
	virtual(t, "R-4.5 R-3.70 a raised capacity admits, and the frame is not answered again", func(t *testing.T) {
		g := newGate()
		h := pooled(t, served{"a", g.handle}, served{"b", g.handle})
		var reqs []*cartridgetest.Request
		for range 4 {
			reqs = append(reqs, h.Request(capNamed("a")).End())
		}
		synctest.Wait()
		require.Len(t, g.started, 2)
		before := len(h.Check().Trace())
		h.SetCapacities(map[string]uint64{"gpu": 4})
		synctest.Wait()
		assert.Len(t, g.started, 4)
		replies := 0
		for _, line := range h.Check().Trace()[before:] {
			if strings.HasPrefix(line, cartridgetest.ToHost.String()+" heartbeat") {
				replies++
			}
		}
		assert.Equal(t, 1, replies)
		g.open()
		for _, req := range reqs {
			req.WantEnd()
		}
	})
	virtual(t, "R-4.1 R-4.3 answers keep the order of the probes, among all other frames", func(t *testing.T) {
		h := pooled(t)
		const rounds, probes = 5, 10 // the frames of a round fit into the trace
		for round := range uint64(rounds) {
			var sent []string
			for i := range uint64(probes) {
				id := 1000 + round*probes + i
				req := h.Request(capNamed("a")).Chunk("x")
				h.Send(probeFrame(id, nil))
				req.End()
				sent = append(sent, fmt.Sprintf("id=%d", id))
				if i%2 == 1 {
					synctest.Wait()
				}
			}
			synctest.Wait()
			var answered []string
			for _, line := range h.Check().Trace() {
				if strings.HasPrefix(line, cartridgetest.ToHost.String()+" heartbeat id=") {
					answered = append(answered, strings.Fields(line)[2])
				}
			}
			require.NotEmpty(t, answered)
			assert.Subset(t, sent, answered)
			assert.True(t, slices.IsSorted(answered), answered)
		}
		for i := range uint64(rounds * probes) {
			assert.Equal(t, frame.TypeHeartbeat, h.Answer(frame.UintID(1000+i)).Type())
		}
	})
}

func TestHeartbeatIsIsolated(t *testing.T) {
	stuck := func(ctx context.Context, _ *bifaci.Request) error {
		<-ctx.Done()
		return nil
	}
	virtual(t, "R-4.3 R-4.6 handlers that do nothing do not matter", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"a", stuck}))
		var reqs []*cartridgetest.Request
		for range 256 {
			reqs = append(reqs, h.Request(capNamed("a")).Chunk("unread").End())
		}
		before := time.Now()
		assert.EqualValues(t, 256, h.Probe().Pools["all"].Active)
		assert.Zero(t, time.Since(before))
		for _, req := range reqs {
			req.Cancel(failure.Unattributed()).WantErr("CANCELLED", failure.Internal)
		}
	})
	virtual(t, "R-4.3 nor does a factory that hangs", func(t *testing.T) {
		release := make(chan struct{})
		c := cartridgeOf(t, nil, nil, served{"a", stuck})
		require.NoError(t, c.Register(capNamed("a"), func() bifaci.Op {
			<-release
			return nil
		}))
		h := cartridgetest.Start(t, c)
		req := h.Request(capNamed("a"))
		assert.EqualValues(t, 1, h.Probe().Pools["all"].Active)
		close(release)
		req.WantErr("HANDLER_ERROR", failure.Internal)
	})
	virtual(t, "R-4.14 R-4.3 nor does a logger that blocks", func(t *testing.T) {
		release := make(chan struct{})
		w := &blockedWriter{release: release}
		c := cartridgetest.Serving(t, workCap, echoes, bifaci.WithLogger(slog.New(slog.NewTextHandler(w, nil))))
		h := cartridgetest.Start(t, c)
		for range 1000 { // each is a warning
			h.Unsent(cartridgetest.WithID(frame.UintID(1))).Send(cartridgetest.EndFrame(false))
		}
		assert.EqualValues(t, 1000, h.Probe().Drops)
		req := h.Request(workCap).Chunk("goes on").End()
		req.WantItems("goes on")
		req.WantEnd()
		h.CloseInput()
		before := time.Now()
		require.NoError(t, h.Wait())
		assert.LessOrEqual(t, time.Since(before), time.Second, "a run does not wait for it for ever")
		close(release)
		synctest.Wait()
		// The one it held, those that waited, and a note of the rest; a record may find room while another is being taken.
		assert.GreaterOrEqual(t, w.lines.Load(), int64(1+256+1))
		assert.Less(t, w.lines.Load(), int64(1000), "the rest was dropped")
	})
}

// blockedWriter blocks until it is released, and counts lines.
type blockedWriter struct {
	release chan struct{}
	lines   atomic.Int64
}

func (w *blockedWriter) Write(p []byte) (int, error) {
	<-w.release
	w.lines.Add(1)
	return len(p), nil
}

func TestLoggerGetsEverything(t *testing.T) {
	t.Run("R-3.20 R-4.14 in order, with groups and attributes, before the run ends", func(t *testing.T) {
		var lines logLines
		log := lines.logger(slog.LevelDebug).With("cartridge", "under-test").WithGroup("runtime")
		c := cartridgetest.Serving(t, workCap, echoes, bifaci.WithLogger(log))
		h := cartridgetest.Start(t, c)
		for i := range 200 {
			h.Unsent(cartridgetest.WithID(frame.UintID(uint64(i)))).Send(cartridgetest.EndFrame(false))
		}
		h.CloseInput()
		require.NoError(t, h.Wait())
		got := strings.Split(strings.TrimSpace(lines.String()), "\n")
		require.Len(t, got, 200+1)
		assert.Contains(t, got[200], "level=DEBUG msg=\"the link has ended\" cartridge=under-test runtime.stats.drops=200")
		for i, line := range got[:200] {
			assert.Contains(t, line, fmt.Sprintf("cartridge=under-test runtime.type=end runtime.rid=%d", i))
			assert.Contains(t, line, "level=WARN")
		}
	})
	t.Run("R-4.14 nothing is logged per frame above debug", func(t *testing.T) {
		var lines logLines
		c := cartridgetest.Serving(t, workCap, echoes, bifaci.WithLogger(lines.logger(slog.LevelInfo)))
		h := cartridgetest.Start(t, c)
		req := h.Request(workCap)
		for range 500 {
			req.Chunk("x")
		}
		req.End()
		req.Collect()
		req.WantEnd()
		h.CloseInput()
		require.NoError(t, h.Wait())
		assert.Empty(t, lines.String())
	})
}
