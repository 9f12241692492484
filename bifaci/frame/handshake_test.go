package frame_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

func TestHelloFrames(t *testing.T) {
	want := vectorNamed(t, "hello-host-default")
	assert.Equal(t, frame.Append(nil, want), frame.Append(nil, frame.HostHello(frame.DefaultLimits())))
	theirs := vectorNamed(t, "hello-cartridge-default")
	h, err := theirs.Hello(frame.RoleCartridge)
	require.NoError(t, err)
	assert.Equal(t, frame.Append(nil, theirs), frame.Append(nil, frame.CartridgeHello(frame.DefaultLimits(), h.Manifest, h.Pools)))
}

// §6.2: the five frames of the identity check.
func TestIdentityRequestIsThatOfTheVectors(t *testing.T) {
	req := vectorNamed(t, "req-identity")
	frames := frame.IdentityRequest(req.ID, frame.UintID(0))
	require.Len(t, frames, 5)
	for i, name := range []string{"req-identity", "stream-start-identity", "chunk-identity-nonce", "stream-end-identity", "end-identity"} {
		assert.Equal(t, frame.Append(nil, vectorNamed(t, name)), frame.Append(nil, frames[i]), name)
	}
	inner, ok := frame.InnerBytes(frames[2].Payload)
	require.True(t, ok)
	assert.Equal(t, inner, frame.IdentityNonce())
	assert.Equal(t, []byte{0x66, 0x62, 0x69, 0x66, 0x61, 0x63, 0x69}, frame.IdentityNonce())
}

// the minimum of both proposals, for each limit on its own.
func TestNegotiate(t *testing.T) {
	t.Run("R-12.3 minimum of both", func(t *testing.T) {
		limits := rapid.Custom(func(t *rapid.T) frame.Limits {
			n := rapid.Uint64Range(1, 1<<63)
			return frame.Limits{MaxFrame: n.Draw(t, "f"), MaxChunk: n.Draw(t, "c"), MaxReorderBuffer: n.Draw(t, "r"), InitialCredit: n.Draw(t, "i")}
		})
		rapid.Check(t, func(t *rapid.T) {
			a, b := limits.Draw(t, "a"), limits.Draw(t, "b")
			got, err := frame.Negotiate(a, b)
			require.NoError(t, err)
			other, err := frame.Negotiate(b, a)
			require.NoError(t, err)
			assert.Equal(t, got, other)
			for _, p := range [][3]uint64{{got.MaxFrame, a.MaxFrame, b.MaxFrame}, {got.MaxChunk, a.MaxChunk, b.MaxChunk},
				{got.MaxReorderBuffer, a.MaxReorderBuffer, b.MaxReorderBuffer}, {got.InitialCredit, a.InitialCredit, b.InitialCredit}} {
				assert.True(t, p[0] <= p[1] && p[0] <= p[2] && (p[0] == p[1] || p[0] == p[2]))
			}
		})
	})
	for _, zero := range []struct {
		name string
		set  func(*frame.Limits)
	}{
		{"initial_credit", func(l *frame.Limits) { l.InitialCredit = 0 }}, {"max_frame", func(l *frame.Limits) { l.MaxFrame = 0 }},
		{"max_chunk", func(l *frame.Limits) { l.MaxChunk = 0 }}, {"max_reorder_buffer", func(l *frame.Limits) { l.MaxReorderBuffer = 0 }},
	} {
		bad := frame.DefaultLimits()
		zero.set(&bad)
		for _, pair := range [][2]frame.Limits{{bad, frame.DefaultLimits()}, {frame.DefaultLimits(), bad}, {bad, bad}} {
			_, err := frame.Negotiate(pair[0], pair[1])
			assert.Equal(t, "zero-limit", frame.TokenOf(err))
			assert.ErrorContains(t, err, zero.name)
		}
	}
	theirs := frame.DefaultLimits()
	theirs.InitialCredit = 0
	_, err := frame.Negotiate(frame.DefaultLimits(), theirs)
	assert.ErrorContains(t, err, "we propose 32, the peer 0")
}

// L1: meta.version is judged as well as key 0, and the error names both numbers.
func TestL1_VersionInMeta(t *testing.T) {
	for _, version := range []uint64{0, 4, 5, 7, 262, 1<<32 + 6} {
		f := withMeta(t, frame.TypeHello, map[string]any{"version": version, "max_frame": 1, "max_chunk": 1, "max_reorder_buffer": 1, "initial_credit": 1})
		for _, sender := range []frame.Role{frame.RoleHost, frame.RoleCartridge} {
			_, _, err := frame.AcceptHello(f, sender, frame.DefaultLimits())
			assert.Equal(t, "version-mismatch", frame.TokenOf(err))
			assert.ErrorContains(t, err, fmt.Sprintf("version %d,", version))
			assert.ErrorContains(t, err, "version 6 only")
		}
	}
}

func TestAcceptHelloRefusesOtherFrames(t *testing.T) {
	for _, typ := range []frame.Type{frame.TypeReq, frame.TypeHeartbeat, frame.TypePolicy} {
		_, _, err := frame.AcceptHello(&frame.Frame{Type: typ, ID: frame.UintID(0)}, frame.RoleHost, frame.DefaultLimits())
		assert.Equal(t, "bad-hello", frame.TokenOf(err))
		assert.ErrorContains(t, err, "the first frame from the host is "+typ.String())
	}
}

func TestHelloRefusalsNameTheEntry(t *testing.T) {
	whole := func() map[string]any {
		return map[string]any{"version": 6, "max_frame": 1000, "max_chunk": 10, "max_reorder_buffer": 2, "initial_credit": 3,
			"manifest": []byte(`{}`), "pools": []byte(`{}`), "handler_capacity": "ignored"}
	}
	h, agreed, err := frame.AcceptHello(withMeta(t, frame.TypeHello, whole()), frame.RoleCartridge, frame.DefaultLimits())
	require.NoError(t, err)
	assert.Equal(t, frame.Limits{MaxFrame: 1000, MaxChunk: 10, MaxReorderBuffer: 2, InitialCredit: 3}, agreed)
	assert.Equal(t, []any{"{}", "{}", true, true}, []any{string(h.Manifest), string(h.Pools), h.HasManifest, h.HasPools})
	t.Run("R-12.5 manifest and pools of a cartridge", func(t *testing.T) {
		for name, broken := range map[string]any{"manifest": "text", "pools": []byte("[]"), "version": "6", "max_frame": -1, "max_chunk": nil,
			"max_reorder_buffer": 1.5, "initial_credit": []byte{1}} {
			m := whole()
			m[name] = broken
			_, err := withMeta(t, frame.TypeHello, m).Hello(frame.RoleCartridge)
			assert.Equal(t, "bad-hello", frame.TokenOf(err), name)
			assert.ErrorContains(t, err, name)
			delete(m, name)
			_, err = withMeta(t, frame.TypeHello, m).Hello(frame.RoleCartridge)
			assert.Equal(t, "bad-hello", frame.TokenOf(err), name)
			assert.ErrorContains(t, err, name+" is missing")
		}
	})
	m := whole()
	m["manifest"], m["pools"] = 1, 2
	h, err = withMeta(t, frame.TypeHello, m).Hello(frame.RoleHost)
	require.NoError(t, err, "what a host says about them is ignored")
	assert.False(t, h.HasManifest || h.HasPools)
	_, err = (&frame.Frame{Type: frame.TypeHello, Has: 1 << frame.KeyMeta, Meta: []byte{0xa1}}).Hello(frame.RoleHost)
	assert.Equal(t, "bad-hello", frame.TokenOf(err))
}

// §8.4: a cut chunk always fits, with the worst head sizes and the longest id.
func TestChunkRoomKeepsFramesWithinTheLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := frame.Limits{MaxFrame: rapid.Uint64Range(1024, 400_000).Draw(t, "max_frame"), MaxChunk: rapid.Uint64Range(1, 300_000).Draw(t, "max_chunk")}
		streamID := make([]byte, rapid.IntRange(0, 300).Draw(t, "stream id"))
		meta := rapid.SampledFrom([]int{0, 1, 100, 400}).Draw(t, "meta")
		room := l.ChunkRoom(len(streamID), meta)
		require.Positive(t, room)
		require.LessOrEqual(t, uint64(room), l.MaxChunk)
		f := frame.Frame{Type: frame.TypeChunk, ID: frame.UUIDFrom([16]byte{}), Seq: 1<<64 - 1, ChunkIndex: 1<<64 - 1, Checksum: 1<<64 - 1,
			StreamID: streamID, Meta: make([]byte, meta), Has: 1<<frame.KeyPayload | 1<<frame.KeyStreamID | 1<<frame.KeyChunkIndex | 1<<frame.KeyChecksum | 1<<frame.KeyMeta}
		f.WithRouting(frame.UUIDFrom([16]byte{}))
		require.LessOrEqual(t, uint64(frame.BodySize(&f, room+5)), l.MaxFrame, "with the head of a wrapped payload")
	})
	assert.Equal(t, 1, frame.Limits{MaxFrame: 10, MaxChunk: 10}.ChunkRoom(4, 0))
	assert.Equal(t, 262_144, frame.DefaultLimits().ChunkRoom(36, 0))
}
