package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// Whatever bit of a payload or of its checksum changes on the way, the request fails with CORRUPTED_DATA: for a handler that looks at
// the data, and for one that passes it on unopened.
func TestChangedBitsOfAChunk(t *testing.T) {
	needsProcess(t)
	for name, capURN := range map[string]string{"sink": capSink, "echo": capEcho} {
		p := peer.Start(t, probePath(t))
		p.Live()
		t.Run("R-3.32 every byte of a small payload and of its checksum, "+name, func(t *testing.T) {
			payload := peer.Value([]byte("0123456789abcdef0123456789abcdef"))
			for i := range len(payload) + 8 {
				corrupt(t, p, capURN, payload, 1, 0, i, uint(i%8))
			}
		})
		t.Run("R-3.32 bytes of a large payload, "+name, func(t *testing.T) {
			payload := peer.Value(bytes.Repeat([]byte("0123456789abcdef"), 1024))
			for i := 0; i < len(payload)+8; i += 499 {
				corrupt(t, p, capURN, payload, 1, 0, i, uint(i%8))
			}
		})
		t.Run("R-3.32 first, inner and last chunk of a window, "+name, func(t *testing.T) {
			window := int(p.Limits().InitialCredit)
			for _, size := range []int{16, 20_000} {
				payload := peer.Value(bytes.Repeat([]byte{'x'}, size))
				for _, which := range []int{0, 1, window / 2, window - 1} {
					corrupt(t, p, capURN, payload, window, which, size/2, 3)
				}
			}
		})
		p.AwaitIdle()
		p.Finish()
	}
}

// corrupt sends a request of n chunks; in one of them a bit of byte at changes, counted over payload and checksum.
func corrupt(t *testing.T, p *peer.Process, capURN string, payload []byte, n, which, at int, bit uint) {
	t.Helper()
	r := p.Request(capURN)
	p.Excuse(r.ID())
	s := r.Open("arg0", "media:")
	for i := range n {
		if i == which {
			s.Wire(func(wire []byte) { flip(t, wire, payload, at, bit) }, payload)
		} else {
			s.Payload(payload)
		}
	}
	s.End()
	r.End()
	f := r.AwaitTerminal()
	what := fmt.Sprintf("chunk %d of %d, byte %d of %d, bit %d: %s", which, n, at, len(payload)+8, bit, f)
	require.Equal(t, peer.TypeErr, f.Type(), what)
	require.Equal(t, "CORRUPTED_DATA", f.Code(), what)
	require.Equal(t, "internal", f.Class(), what)
	if capURN == capEcho {
		for _, got := range r.Frames() {
			if got.Type() == peer.TypeChunk {
				require.Equal(t, payload, got.Payload(), "what comes back is never the changed data: %s", what)
				require.Less(t, got.Uint(peer.KeyChunkIndex), uint64(which), what)
			}
		}
	}
	assert.Empty(t, r.Logs(), what)
	r.Forget()
}

// flip changes a bit of the payload or of the checksum within a frame.
func flip(t *testing.T, wire, payload []byte, at int, bit uint) {
	t.Helper()
	place := bytes.Index(wire, payload) + at
	if at >= len(payload) {
		sum := binary.BigEndian.AppendUint64([]byte{0x1b}, peer.Checksum(payload))
		place = bytes.Index(wire, sum)
		require.GreaterOrEqual(t, place, 0, "the checksum stands in 8 bytes: %x", wire)
		place += 1 + at - len(payload)
	}
	wire[place] ^= 1 << bit
}
