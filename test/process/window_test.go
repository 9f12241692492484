package process

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/test/peer"
)

func TestAHandlerThatDoesNotReadStopsItsSender(t *testing.T) {
	needsProcess(t)
	t.Run("R-10.27 R-3.71 after exactly one window, and nobody else", func(t *testing.T) {
		const window = 8
		p := live(t, probePath(t), peer.WithWindow(window))
		stalled := p.Request(capStall)
		s := stalled.Open("arg0", mediaText)
		for range window {
			s.Payload(peer.Value([]byte("x")))
		}
		for range 20 { // everything that was sent before has been dealt with when these have come back
			r := p.Request(capEcho)
			r.Give("media:", []byte("meanwhile"))
			r.WantEnd()
			assert.Equal(t, "meanwhile", string(r.Content()))
		}
		assert.Zero(t, s.Granted(), "chunks granted to a stream that nobody reads")
		assert.Nil(t, stalled.TerminalWithin(0))
		stalled.Cancel("CANCELLED", "user", "enough")
		stalled.WantErr("CANCELLED", "user")
		assert.Zero(t, s.Granted(), "chunks granted after a cancel")
		p.AwaitIdle()
		p.Finish()
	})
	t.Run("R-10.40 and one chunk more is a violation", func(t *testing.T) {
		const window = 8
		p := live(t, probePath(t), peer.WithWindow(window))
		stalled := p.Request(capStall)
		p.Excuse(stalled.ID())
		s := stalled.Open("arg0", mediaText)
		for range window + 1 {
			s.Force(peer.Value([]byte("x")))
		}
		stalled.WantErr("CREDIT_VIOLATION", "internal")
		assert.Equal(t, uint64(1), p.Probe("").MetaUint("drops_total"))
		p.Finish()
	})
}
