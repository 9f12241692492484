package process

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// A handler that never reads is poisoned all the same, and takes nobody along.
func TestABreachNeedsNoReader(t *testing.T) {
	needsProcess(t)
	const largest = 256<<10 - 5 // raw bytes: with their head a payload of 256 KiB
	sound := peer.Value(bytes.Repeat([]byte{'x'}, largest))
	for _, c := range []struct {
		name, code string
		chunks     func(limits peer.Limits) []peer.Frame
	}{
		{"R-3.32 a chunk of 256 KiB with a wrong checksum", "CORRUPTED_DATA", func(peer.Limits) []peer.Frame {
			return []peer.Frame{peer.ChunkFrame("arg0", 0, sound).With(peer.KeyChecksum, peer.Checksum(sound)+1)}
		}},
		{"R-3.37 256 KiB that are not one CBOR value", "DECODE_ERROR", func(peer.Limits) []peer.Frame {
			// A byte string that is over before the payload is.
			return []peer.Frame{peer.ChunkFrame("arg0", 0, append(peer.Value(bytes.Repeat([]byte{'x'}, largest-10)), 0))}
		}},
		{"R-3.34 R-10.40 a chunk too many", "CREDIT_VIOLATION", func(limits peer.Limits) (all []peer.Frame) {
			for i := range limits.InitialCredit + 1 {
				all = append(all, peer.ChunkFrame("arg0", i, peer.Value([]byte("x"))))
			}
			return all
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := live(t, probePath(t))
			others := make([]*peer.Request, 20)
			streams := make([]*peer.Stream, len(others))
			for i := range others {
				others[i] = p.Request(capEcho)
				streams[i] = others[i].Open("arg0", "media:")
				streams[i].Content([]byte("be"))
			}
			stalled := p.Request(capStall)
			p.Excuse(stalled.ID())
			stalled.Open("arg0", mediaText)
			for _, chunk := range c.chunks(p.Limits()) {
				stalled.Send(chunk)
			}
			stalled.WantErr(c.code, "internal")
			for i, s := range streams {
				s.Content([]byte("fore"))
				s.End()
				others[i].End()
			}
			for _, other := range others {
				other.WantEnd()
				assert.Equal(t, "before", string(other.Content()))
			}
			p.AwaitIdle()
			p.Finish()
		})
	}
}
