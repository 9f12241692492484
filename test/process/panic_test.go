package process

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

func TestF9_OnePanicTakesNobodyAlong(t *testing.T) {
	needsProcess(t)
	for _, c := range []struct{ name, handler, message, stack string }{
		{"R-6.90 in a handler", "panics", "panic: on purpose", "main.panics"},
		{"R-6.90 in a factory", "factory", "panic: no op today", "newCartridge"},
		{"R-6.90 runtime.Goexit", "goexit", "panic: runtime.Goexit was called", "main.goexit"},
		{"R-6.91 in Request.Go", "worker", "panic: in a worker", "main.worker"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := live(t, stuntPath(t))
			others := make([]*peer.Request, 20)
			streams := make([]*peer.Stream, len(others))
			for i := range others {
				others[i] = p.Request(stunt("wait"))
				streams[i] = others[i].Open("arg0", mediaText)
			}
			r := p.Request(stunt(c.handler))
			r.End()
			failed := r.WantErr("HANDLER_ERROR", "internal")
			assert.Contains(t, failed.Message(), c.message)
			logs := r.Logs()
			require.Len(t, logs, 1)
			assert.Equal(t, "error", logs[0].MetaText("level"))
			assert.Equal(t, "internal", logs[0].Class())
			assert.Contains(t, logs[0].Message(), c.stack)
			p.AwaitPool("all", "20 active", func(pool peer.Pool) bool { return pool.Active == 20 && pool.Queued == 0 })
			for i, s := range streams {
				s.Content([]byte("0"))
				s.End()
				others[i].End()
			}
			for _, other := range others {
				other.WantEnd()
				assert.Equal(t, "waited 0", string(other.Content()))
			}
			p.AwaitIdle()
			p.Finish()
		})
	}
}
