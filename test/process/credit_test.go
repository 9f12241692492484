package process

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/test/peer"
)

const itemsMedia = "media:item"

func TestF10_CreditOfUnreadDataComesBack(t *testing.T) {
	needsProcess(t)
	t.Run("R-10.24 R-6.25 10 000 requests of which 2 of 12 chunks are read", func(t *testing.T) {
		if inPlainBinary(t) {
			return
		}
		const window, chunks, batch, batches = 4, 12, 40, 250
		p := live(t, stuntPath(t), peer.WithWindow(window))
		ends := []string{"return", "fail", "wait", "close"}
		var settled uint64
		for n := range batches {
			requests := make([]*peer.Request, batch)
			for i := range requests {
				requests[i] = nibbled(p, ends[i%len(ends)], chunks)
			}
			for i, r := range requests {
				switch ends[i%len(ends)] {
				case "return", "close":
					r.WantEnd()
				case "fail":
					r.WantErr("ENOUGH", "input")
				case "wait":
					r.WantErr("CANCELLED", "user")
				}
				r.Forget()
			}
			if n == batches/10 {
				settled, _ = p.Memory()
			}
		}
		last := p.Request("cap:effect=none")
		s := last.Open("arg0", "media:")
		s.Repeat(peer.Value([]byte("0123456789")), 1000)
		s.End()
		last.End()
		last.WantEnd()
		assert.Equal(t, uint64(1000), last.Chunks())
		p.AwaitIdle()
		now, _ := p.Memory()
		assert.Less(t, now, settled+8<<20, "memory after %d requests: %s, after all: %s", batch*batches/10, mib(settled), mib(now))
		p.Finish()
	})
}

// nibbled sends a request of a number of chunks, as far as the window and the answer let it; the first says how its handler ends.
func nibbled(p *peer.Process, end string, chunks int) *peer.Request {
	r := p.Request(stunt("nibble"))
	s := r.Open("arg0", itemsMedia)
	s.Payload(peer.Value([]byte(end)))
	for range chunks - 1 {
		if end == "wait" && s.Sent() == 3 {
			r.Cancel("CANCELLED", "user", "that will do")
			return r
		}
		s.Payload(peer.Value([]byte("more")))
	}
	s.End()
	r.End()
	return r
}

func mib(bytes uint64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
