package process

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

func TestF12_OpenAndCancelAsFastAsPossible(t *testing.T) {
	needsProcess(t)
	t.Run("R-8.10 R-8.23 R-3.20 100 000 requests", func(t *testing.T) {
		if inPlainBinary(t) {
			return
		}
		const batch, batches, late = 1000, 100, 2
		p := live(t, stuntPath(t), peer.Unjudged()) // what the judge would see is counted below
		p.Probe(`{"all":2}`)
		payload := peer.Value([]byte("x"))
		before := uint64(0)
		for n := range batches {
			requests := make([]*peer.Request, batch)
			for i := range requests {
				r := p.Request(stunt("stubborn"))
				s := r.Open("arg0", mediaText)
				s.Force(payload)
				r.Cancel("", "", "")
				for range late {
					s.Force(payload)
				}
				requests[i] = r
			}
			for _, r := range requests {
				r.WantErr("CANCELLED", "internal")
				assert.LessOrEqual(t, len(r.Frames()), 3, "a notice that it waits, one that it goes, and the terminal")
				r.Forget()
			}
			if n == 0 {
				before, _ = p.Memory()
			}
		}
		p.AwaitIdle()
		_, peak := p.Memory()
		assert.Less(t, peak, before+32<<20, "memory after the first %d: %s, its peak: %s", batch, mib(before), mib(peak))

		counted := p.Probe("")
		assert.Equal(t, uint64(batch*batches*late), counted.MetaUint("stragglers_total")+counted.MetaUint("drops_total"),
			"each late chunk counts once: %s", counted)
		assert.Greater(t, counted.MetaUint("stragglers_total"), counted.MetaUint("drops_total"), "few were still running")

		r := p.Request(stunt("peak"))
		r.End()
		r.WantEnd()
		together, err := strconv.Atoi(string(r.Content()))
		require.NoError(t, err)
		assert.LessOrEqual(t, together, 2, "handlers that ran at a time")
		assert.Empty(t, p.Unclaimed())
		p.Finish()
	})
}
