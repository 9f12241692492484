package hostile

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

const randomRuns = 40

func TestRandomBytes(t *testing.T) {
	needsProcess(t)
	for seed := range uint64(randomRuns) {
		t.Run(fmt.Sprintf("R-2.32 seed %d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 13))
			noise := make([]byte, 1+random.IntN(4096))
			for i := range noise {
				noise[i] = byte(random.Uint32())
			}
			if seed%2 == 1 { // half of them with a length that fits, so that the body is looked at
				noise = peer.Prefixed(noise)
			}
			p := peer.Start(t, probePath(t))
			p.Live()
			running := p.Request(capStall)
			p.SendBroken(noise)
			p.CloseInput() // the first four bytes may promise more than there is
			running.WantErr("PROTOCOL_ERROR", "internal")
			wantRefusal(t, p, "\n")
		})
	}
}

// A conversation in which bits were changed may still be one, so the process may end well or with an error, but it ends, with whole
// frames and without a panic.
func TestConversationsWithChangedBits(t *testing.T) {
	needsProcess(t)
	var clean bytes.Buffer
	for id := range uint64(4) {
		seq := uint64(0)
		for _, f := range []peer.Frame{peer.ReqFrame(capEcho), peer.StartFrame("a", "media:"),
			peer.ChunkFrame("a", 0, peer.Value([]byte("one"))), peer.ChunkFrame("a", 1, peer.Value([]byte("two"))),
			peer.CreditFrame("response", "r", 1), peer.StreamEndFrame("a", 2), peer.EndFrame(), peer.CancelFrame("C", "user", "m")} {
			f = f.With(peer.KeyID, id)
			if f.Type().IsFlow() {
				f[peer.KeySeq] = seq
				seq++
			}
			clean.Write(f.Encode())
		}
	}
	for seed := range uint64(randomRuns) {
		t.Run(fmt.Sprintf("R-2.32 R-2.37 seed %d", seed), func(t *testing.T) {
			t.Parallel()
			random := rand.New(rand.NewPCG(seed, 14))
			wire := bytes.Clone(clean.Bytes())
			for range 1 + random.IntN(8) {
				changeBit(t, random, wire)
			}
			// The order of the host's frames is random, so the cartridge's cannot be judged; they must be whole.
			p := peer.Start(t, probePath(t), peer.Unjudged())
			p.Live()
			p.SendWire(wire)
			p.CloseInput()
			assert.ErrorContains(t, p.AwaitEnd(), "EOF")
			assert.NotContains(t, p.AwaitEnd().Error(), "unexpected")
			status := p.AwaitExit()
			assert.Contains(t, []int{0, 1}, status)
			assert.False(t, strings.Contains(p.Stderr(), "goroutine "), "a panic: %s", p.Stderr())
		})
	}
}

// changeBit changes one bit of a frame's body; lengths stay, so that the frames behind it are looked at too.
func changeBit(t *testing.T, random *rand.Rand, wire []byte) {
	t.Helper()
	var bodies [][2]int
	for at := 0; at < len(wire); {
		size := int(binary.BigEndian.Uint32(wire[at:]))
		bodies = append(bodies, [2]int{at + 4, at + 4 + size})
		at += 4 + size
	}
	require.NotEmpty(t, bodies)
	b := bodies[random.IntN(len(bodies))]
	wire[b[0]+random.IntN(b[1]-b[0])] ^= 1 << random.IntN(8)
}
