package transcripts

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// A replay that accepts everything would prove nothing: each change to what the transcript expects must make it fail.
func TestAReplayFailsOnAnyDifference(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	edit := func(typ peer.Type, change func(peer.Frame)) func([]*step) []*step {
		return func(frames []*step) []*step {
			for _, s := range frames {
				if s.Dir == toHost && s.frame.Type() == typ && !s.Optional {
					change(s.frame)
					return frames
				}
			}
			return nil
		}
	}
	gap := func(frames []*step) []*step {
		for _, s := range frames {
			if m := s.frame.Meta(); m["gap"] != nil {
				m = maps.Clone(m)
				m["gap"] = map[string]any{"dropped": uint64(2), "duration_us": uint64(40_000)}
				s.frame[peer.KeyMeta] = m
				return frames
			}
		}
		return nil
	}
	meta := func(key string, v any) func(peer.Frame) {
		return func(f peer.Frame) {
			m := maps.Clone(f.Meta())
			m[key] = v
			f[peer.KeyMeta] = m
		}
	}
	for name, c := range map[string]struct {
		transcript string
		change     func([]*step) []*step
	}{
		"seq":             {"unary-echo", edit(peer.TypeChunk, func(f peer.Frame) { f[peer.KeySeq] = uint64(2) })},
		"routing id":      {"unary-echo", edit(peer.TypeEnd, func(f peer.Frame) { delete(f, peer.KeyRoutingID) })},
		"payload":         {"unary-echo", edit(peer.TypeChunk, func(f peer.Frame) { f[peer.KeyPayload] = []byte("\x45hellO") })},
		"media":           {"unary-echo", edit(peer.TypeStreamStart, func(f peer.Frame) { f[peer.KeyMediaURN] = "media:" })},
		"count":           {"unary-echo", edit(peer.TypeStreamEnd, func(f peer.Frame) { f[peer.KeyChunkCount] = uint64(2) })},
		"feed's gap":      {"unbounded-close-stream", gap},
		"unbounded count": {"unbounded-input", edit(peer.TypeStreamEnd, func(f peer.Frame) { f[peer.KeyChunkCount] = uint64(3) })},
		"progress":        {"three-arguments", edit(peer.TypeEnd, meta("progress", 0.9))},
		"log level":       {"three-arguments", edit(peer.TypeLog, meta("level", "warn"))},
		"error code":      {"corrupted-chunk", edit(peer.TypeErr, meta("code", "DECODE_ERROR"))},
		"error class":     {"corrupted-chunk", edit(peer.TypeErr, meta("attribution_class", "input"))},
		"cancel text":     {"cancel-queued-collateral", edit(peer.TypeErr, meta("message", "step download failed"))},
		"peer's cancel":   {"peer-call-cancelled-with-parent", edit(peer.TypeCancel, meta("message", "stale"))},
		"pool":            {"credit-after-terminal", edit(peer.TypeHeartbeat, meta("stragglers_total", uint64(2)))},
		"one frame less": {"unary-echo", func(frames []*step) []*step {
			return slices.DeleteFunc(frames, func(s *step) bool { return s.Dir == toHost && s.Type == "stream_end" })
		}},
		"one frame more": {"empty-output", func(frames []*step) []*step { return append(frames, frames[len(frames)-1]) }},
		"one frame too late": {"three-arguments", func(frames []*step) []*step {
			i := slices.IndexFunc(frames, func(s *step) bool { return s.Dir == toHost && s.Type == "log" })
			frames[i], frames[i+1] = frames[i+1], frames[i]
			return frames
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := named(t, c.transcript)
			frames := c.change(tr.Frames)
			require.NotNil(t, frames, "the change has found nothing to change")
			assert.False(t, passes(t, func(t testing.TB) { newReplay(t, tr, peer.WithPatience(2*time.Second)).run(frames) }))
		})
	}
}

// named is one transcript of its own, which the test may change.
func named(t *testing.T, name string) *transcript {
	t.Helper()
	all, err := load()
	require.NoError(t, err)
	i := slices.IndexFunc(all, func(tr *transcript) bool { return tr.Name == name })
	require.GreaterOrEqual(t, i, 0, "transcript %s", name)
	return all[i]
}
