package process

import (
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

func TestProcessorWatch(t *testing.T) {
	needsProcess(t)
	slots := func(p *peer.Process) string {
		r := p.Request(stunt("slots"))
		r.Give(mediaText, nil)
		r.WantEnd()
		return string(r.Content())
	}
	computing := func(p *peer.Process) []*peer.Request {
		busy := make([]*peer.Request, 4*runtime.NumCPU())
		for i := range busy {
			busy[i] = p.Request(stunt("compute"))
			busy[i].Give(mediaText, nil)
		}
		return busy
	}
	t.Run("R-4.12 handlers that compute on every processor do not take the scheduler's last slot, and it is given back", func(t *testing.T) {
		p := live(t, stuntPath(t))
		base := slots(p)
		busy := computing(p)
		p.Poll("more slots", func() bool { return slots(p) != base })
		for _, r := range busy {
			r.Cancel("CANCELLED", "user", "enough")
		}
		for _, r := range busy {
			r.WantErr("CANCELLED", "user")
		}
		p.Poll("the slots to be given back", func() bool { return slots(p) == base })
		p.Finish()
	})
	t.Run("a number that the environment sets stands", func(t *testing.T) {
		p := live(t, stuntPath(t), peer.WithEnv("GOMAXPROCS=3"))
		require.Equal(t, "3", slots(p))
		busy := computing(p)
		for range 30 {
			assert.Equal(t, "3", slots(p))
		}
		for _, r := range busy {
			r.Cancel("CANCELLED", "user", "enough")
		}
		p.Finish()
	})
}
