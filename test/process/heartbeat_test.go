package process

import (
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/test/peer"
)

func TestHeartbeatsWhileHandlersSpin(t *testing.T) {
	needsProcess(t)
	t.Run("R-4.3 R-4.12 eight handlers a processor for five seconds", func(t *testing.T) {
		if inPlainBinary(t) {
			return
		}
		const interval, probes = 250 * time.Millisecond, 20
		p := live(t, probePath(t))
		spinning := make([]*peer.Request, 8*runtime.NumCPU())
		for i := range spinning {
			spinning[i] = p.Request(capSpin)
			spinning[i].Give(mediaText, []byte("60000"))
		}
		p.AwaitPool("all", "everybody active", func(pool peer.Pool) bool { return pool.Active == uint64(len(spinning)) })
		used, begin := p.CPU(), time.Now()
		took := make([]time.Duration, probes)
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for i := range took {
			<-tick.C
			start := time.Now()
			reply := p.Probe("")
			took[i] = time.Since(start)
			assert.Equal(t, peer.TypeHeartbeat, reply.Type())
		}
		slowdown := slowdown(p.CPU()-used, time.Since(begin))
		for _, r := range spinning {
			r.Cancel("CANCELLED", "user", "enough")
		}
		for _, r := range spinning {
			r.WantErr("CANCELLED", "user")
		}
		p.Finish()
		slices.Sort(took)
		t.Logf("answers took %v; the machine gave the process one part in %.1f of its processors", took, slowdown)
		assert.Less(t, took[probes/2].Seconds(), 0.1*slowdown, "the median, s")
		assert.Less(t, took[probes-1].Seconds(), 3*slowdown, "the longest, s")
	})
}

// slowdown is how much longer everything takes a process that wants all processors and shares them with others.
func slowdown(used, wall time.Duration) float64 {
	if used == 0 {
		return 1
	}
	return max(1, float64(wall)*float64(runtime.NumCPU())/float64(used))
}
