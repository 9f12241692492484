//go:build unix

package process

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/test/peer"
)

func TestF7_StrayOutputGoesToStandardError(t *testing.T) {
	needsProcess(t)
	t.Run("R-2.20 while 100 chunks are streamed", func(t *testing.T) {
		p := live(t, stuntPath(t))
		r := p.Request(stunt("stray"))
		r.End()
		r.WantEnd()
		assert.Equal(t, uint64(100), r.Chunks())
		p.Finish()
		const lines = 1 << 20 / 64
		text := p.Stderr()
		for letter, kind := range map[string]string{"P": "printed", "L": "logged", "R": "written to descriptor 1", "C": "of a child"} {
			assert.Equal(t, lines, strings.Count(text, strings.Repeat(letter, 63)+"\n"), "whole lines %s", kind)
		}
	})
}

func TestF8_NobodyReadsStandardError(t *testing.T) {
	needsProcess(t)
	t.Run("R-2.22 requests complete although every write there fails", func(t *testing.T) {
		p := live(t, stuntPath(t), peer.WithClosedStderr())
		for range 3 {
			r := p.Request(stunt("grumble"))
			r.Give(mediaText, []byte("done"))
			r.WantEnd()
			assert.Equal(t, "done after 64 failed writes", string(r.Content()))
		}
		p.Finish()
	})
}
