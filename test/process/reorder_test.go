package process

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/test/peer"
)

func TestFramesThatComeInDisorder(t *testing.T) {
	needsProcess(t)
	t.Run("R-4.21 R-3.61 a body backwards is put in order, and others do not wait for it", func(t *testing.T) {
		p := live(t, stuntPath(t), peer.WithEnv("STUNT_REORDER=1"))
		r := p.Request(stunt("wait"))
		p.Excuse(r.ID())
		body := []peer.Frame{peer.StartFrame("arg0", mediaText)}
		for i, digit := range []string{"1", "2", "3"} {
			body = append(body, peer.ChunkFrame("arg0", uint64(i), peer.Value([]byte(digit))))
		}
		body = append(body, peer.StreamEndFrame("arg0", 3), peer.EndFrame())
		send := func(n int) { // the REQ was 0
			p.Send(body[n].With(peer.KeyID, r.ID()).With(peer.KeyRoutingID, r.Routing()).With(peer.KeySeq, uint64(n+1)))
		}
		for n := len(body) - 1; n > 0; n-- {
			send(n)
		}
		other := p.Request(stunt("wait"))
		other.Give(mediaText, []byte("0"))
		other.WantEnd()
		assert.Empty(t, r.Frames(), "its first frame is missing")
		send(0)
		r.WantEnd()
		assert.Equal(t, "waited 123", string(r.Content()))
		p.Finish()
	})
	t.Run("R-3.61 without the option disorder is a fault", func(t *testing.T) {
		p := live(t, stuntPath(t))
		r := p.Request(stunt("wait"))
		p.Excuse(r.ID())
		p.Send(peer.ChunkFrame("arg0", 0, peer.Value([]byte("1"))).With(peer.KeyID, r.ID()).With(peer.KeyRoutingID, r.Routing()).With(peer.KeySeq, uint64(2)))
		r.WantErr("PROTOCOL_ERROR", "internal")
		p.Finish()
	})
}
