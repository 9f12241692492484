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
		const interval, probes = 250 * time.Millisecond, 20
		p := live(t, probePath(t))
		spinning := make([]*peer.Request, 8*runtime.NumCPU())
		for i := range spinning {
			spinning[i] = p.Request(capSpin)
			spinning[i].Give(mediaText, []byte("600000"))
		}
		all := uint64(len(spinning))
		p.AwaitPool("all", "everybody active", func(pool peer.Pool) bool { return pool.Active == all })
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for range probes {
			<-tick.C
			start := time.Now()
			reply := p.Probe("")
			assert.Less(t, time.Since(start), hostAllowance)
			assert.Equal(t, peer.TypeHeartbeat, reply.Type())
			assert.Equal(t, all, p.Pools(reply)["all"].Active, "nobody has stopped spinning to let the answer out")
		}
		for _, r := range spinning {
			r.Cancel("CANCELLED", "user", "enough")
		}
		for _, r := range spinning {
			r.WantErr("CANCELLED", "user")
		}
		p.Finish()
	})
}
