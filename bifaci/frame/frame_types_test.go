package frame_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// names for counters and traces.
func TestNames(t *testing.T) {
	t.Run("R-11.2 frame type names", func(t *testing.T) {
		want := []string{"hello", "req", "type(2)", "chunk", "end", "log", "err", "heartbeat", "stream_start", "stream_end",
			"relay_notify", "relay_state", "cancel", "credit", "close_stream", "policy", "type(16)"}
		for n, name := range want {
			assert.Equal(t, name, frame.Type(n).String())
		}
	})
	assert.Equal(t, "checksum", frame.KeyChecksum.String())
	assert.Equal(t, "key(21)", frame.Key(21).String())
}

// §5.3: flow frames are numbered and gated, control frames are not.
func TestFlowAndTerminalTypes(t *testing.T) {
	for n := frame.Type(0); n < frame.TypeCount; n++ {
		flow := map[frame.Type]bool{1: true, 3: true, 4: true, 5: true, 6: true, 8: true, 9: true}[n]
		assert.Equal(t, flow, n.IsFlow(), n.String())
		assert.Equal(t, n == frame.TypeEnd || n == frame.TypeErr, n.IsTerminal(), n.String())
	}
}

// §5.1: the two forms are never equal, and a fresh uuid is a random one of version 4.
func TestIDs(t *testing.T) {
	assert.NotEqual(t, frame.UintID(0), frame.ID{})
	assert.NotEqual(t, frame.UintID(0), frame.UUIDFrom([16]byte{}))
	a, b := frame.NewUUID(), frame.NewUUID()
	assert.NotEqual(t, a, b)
	assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, a.String())
	n, ok := frame.UintID(1<<64 - 1).Uint()
	assert.True(t, ok)
	assert.EqualValues(t, uint64(1<<64-1), n)
	_, ok = a.Uint()
	assert.False(t, ok)
	raw, ok := a.UUID()
	assert.True(t, ok)
	assert.Equal(t, a, frame.UUIDFrom(raw))
	assert.Equal(t, "18446744073709551615", frame.UintID(1<<64-1).String())
	assert.Equal(t, "none", frame.ID{}.String())
}

func TestWithRoutingKeepsFieldAndKeyInStep(t *testing.T) {
	var f frame.Frame
	f.Reset(frame.TypeEnd, frame.UintID(1))
	assert.True(t, f.WithRouting(frame.UintID(0)).Has.Has(frame.KeyRoutingID))
	assert.False(t, f.WithRouting(frame.ID{}).Has.Has(frame.KeyRoutingID))
	assert.Equal(t, frame.Frame{Type: frame.TypeEnd, ID: frame.UintID(1)}, f)
}
