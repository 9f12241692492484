package process

import (
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// hostAllowance is how long a host waits for the answer to a probe before it calls the cartridge dead.
const hostAllowance = 10 * time.Second

func TestHeartbeatsWhileHandlersSpin(t *testing.T) {
	needsProcess(t)
	t.Run("R-4.3 R-4.12 eight handlers a processor", func(t *testing.T) {
		probed(t, live(t, stuntPath(t)), stunt("compute"), 8*runtime.NumCPU())
	})
	t.Run("R-4.3 R-4.12 256 handlers in blocking reads", func(t *testing.T) {
		probed(t, live(t, stuntPath(t)), stunt("block"), 256)
	})
}

// probed probes a cartridge while n requests run that never call the runtime, and then ends them.
func probed(t *testing.T, p *peer.Process, urn string, n int) {
	const interval, probes = 250 * time.Millisecond, 20
	busy := make([]*peer.Request, n)
	for i := range busy {
		busy[i] = p.Request(urn)
		busy[i].Give(mediaText, nil)
	}
	p.AwaitPool("all", "everybody active", func(pool peer.Pool) bool { return pool.Active == uint64(n) })
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for range probes {
		<-tick.C
		start := time.Now()
		reply := p.Probe("")
		assert.Less(t, time.Since(start), hostAllowance)
		assert.Equal(t, peer.TypeHeartbeat, reply.Type())
		assert.EqualValues(t, n, p.Pools(reply)["all"].Active, "nobody has stopped to let the answer out")
	}
	for _, r := range busy {
		r.Cancel("CANCELLED", "user", "enough")
	}
	for _, r := range busy {
		r.WantErr("CANCELLED", "user")
	}
	p.Finish()
}
