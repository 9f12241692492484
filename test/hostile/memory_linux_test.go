package hostile

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// A handler that ignores everything keeps the process there after the refusal, so that its memory can be looked at.
func TestF13_PromisesCostNothing(t *testing.T) {
	needsProcess(t)
	for _, c := range cases() {
		if c.open && c.name != "max_frame promised and silence" {
			continue
		}
		t.Run("R-3.37 R-2.32 "+c.name, func(t *testing.T) {
			p := peer.Start(t, stuntPath(t))
			p.Live()
			waits := p.Request(capWaits)
			p.Request(capDeaf)
			p.AwaitPool("all", "two active", func(pool peer.Pool) bool { return pool.Active == 2 })
			settle := p.Request(capSettle)
			settle.End()
			settle.WantEnd()
			p.ResetPeak()
			before, _ := p.Memory()
			sendBroken(t, p, c)
			waits.WantErr("PROTOCOL_ERROR", "internal")
			_, peak := p.Memory()
			assert.Less(t, peak, before+1<<20, "bytes before and at the peak")
			p.Kill()
		})
	}
}
