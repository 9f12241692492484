package hostile

import (
	"fmt"
	"testing"

	"github.com/pipe-cartridge/pipe/test/peer"
)

func TestFramesThatAreCutAtEveryByte(t *testing.T) {
	needsProcess(t)
	t.Run("R-2.24 R-2.31 HELLO", func(t *testing.T) {
		wire := peer.HelloFrame(peer.DefaultLimits()).Encode()
		for n := range len(wire) {
			t.Run(fmt.Sprintf("%d of %d bytes", n, len(wire)), func(t *testing.T) {
				t.Parallel()
				p := peer.Start(t, probePath(t))
				p.SendBroken(wire[:n])
				p.CloseInput()
				if n == 0 {
					wantRefusal(t, p, "handshake failed: reading the host's hello: EOF")
					return
				}
				wantRefusal(t, p, "handshake failed: reading the host's hello: "+cutAt(n, len(wire)))
			})
		}
	})
	t.Run("R-2.31 R-2.32 R-2.37 CHUNK", func(t *testing.T) {
		wire := peer.ChunkFrame("arg0", 0, peer.Value([]byte("hello"))).With(peer.KeyID, peer.NewUUID()).Encode()
		for n := 1; n < len(wire); n++ {
			t.Run(fmt.Sprintf("%d of %d bytes", n, len(wire)), func(t *testing.T) {
				t.Parallel()
				p := peer.Start(t, probePath(t))
				p.Live()
				running := p.Request(capStall)
				p.SendBroken(wire[:n])
				p.CloseInput()
				running.WantErr("PROTOCOL_ERROR", "internal")
				wantRefusal(t, p, cutAt(n, len(wire)))
			})
		}
	})
}

// cutAt is what is said of a frame of which only the first n bytes came.
func cutAt(n, size int) string {
	if n < 4 {
		return fmt.Sprintf("truncated-prefix: input ended after %d of the 4 bytes of a length prefix", n)
	}
	return fmt.Sprintf("truncated-body: input ended after %d of the %d bytes of a frame body", n-4, size-4)
}
