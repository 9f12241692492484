package process

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

const (
	streamBytes = 2 << 30
	chunkBytes  = 256 << 10
	maxPeak     = 64 << 20 // of a process that passes two gibibytes
)

func TestTwoGibibytesInConstantMemory(t *testing.T) {
	needsProcess(t)
	t.Run("R-1.13 R-10.27 echo, window 4", func(t *testing.T) {
		if inPlainBinary(t) {
			return
		}
		p := live(t, probePath(t), peer.WithWindow(4), peer.Unjudged())
		content := bytes.Repeat([]byte("0123456789abcdef"), chunkBytes/16)
		var got, wrong int
		r := p.Request(capEcho, peer.OnContent(func(b []byte) {
			got += len(b)
			if !bytes.Equal(b, content) {
				wrong++
			}
		}))
		s := r.Open("arg0", "media:", peer.Unbounded)
		s.Repeat(peer.Value(content), streamBytes/chunkBytes)
		s.End()
		r.End()
		r.WantEnd()
		p.Probe("") // what the reading goroutine has counted is counted
		assert.Equal(t, streamBytes, got)
		assert.Zero(t, wrong, "chunks that came back changed")
		_, peak := p.Memory()
		assert.Less(t, peak, uint64(maxPeak), mib(peak))
		p.Finish()
	})
	t.Run("R-10.27 words, window 32", func(t *testing.T) {
		if inPlainBinary(t) {
			return
		}
		p := live(t, referencePath(t), peer.Unjudged())
		content := []byte(strings.Repeat("sixteen bytes! \n", chunkBytes/16))
		r := p.Request(`cap:in="media:enc=utf-8";out="media:fmt=json;record";words`)
		s := r.Open("arg0", mediaText, peer.Unbounded)
		s.Repeat(peer.Value(content), streamBytes/chunkBytes)
		s.End()
		r.End()
		r.WantEnd()
		var counts struct{ Lines, Words, Bytes int }
		require.NoError(t, json.Unmarshal(r.Content(), &counts))
		assert.Equal(t, streamBytes, counts.Bytes)
		assert.Equal(t, streamBytes/16, counts.Lines)
		assert.Equal(t, streamBytes/16*2, counts.Words)
		_, peak := p.Memory()
		assert.Less(t, peak, uint64(maxPeak), mib(peak))
		p.Finish()
	})
}

func TestAnOpenRequestIsSmall(t *testing.T) {
	needsProcess(t)
	t.Run("R-10.30 2 000 requests that hold 1 KiB cost under 10 KiB each", func(t *testing.T) {
		const requests, each = 2000, 10 << 10
		p := live(t, stuntPath(t))
		settle(p)
		before, _ := p.Memory()
		content := bytes.Repeat([]byte{'x'}, 1<<10)
		open := make([]*peer.Request, requests)
		for i := range open {
			open[i] = p.Request(stunt("stall"))
			open[i].Open("arg0", mediaText).Content(content)
		}
		p.AwaitPool("all", "everybody active", func(pool peer.Pool) bool { return pool.Active == requests })
		settle(p)
		after, _ := p.Memory()
		assert.Less(t, (after-min(before, after))/requests, uint64(each), "memory before: %s, with them: %s", mib(before), mib(after))
		for _, r := range open {
			r.Cancel("CANCELLED", "user", "enough")
		}
		for _, r := range open {
			r.WantErr("CANCELLED", "user")
		}
		p.AwaitIdle()
		p.Finish()
	})
}

// settle makes the stunt cartridge give back what it does not need.
func settle(p *peer.Process) {
	r := p.Request(stunt("settle"))
	r.End()
	r.WantEnd()
	r.Forget()
}

func TestTheFlagsOfDescriptors(t *testing.T) {
	needsProcess(t)
	t.Run("R-2.21 descriptors 1 and 2 stay blocking", func(t *testing.T) {
		p := live(t, stuntPath(t))
		for descriptor := 1; descriptor <= 2; descriptor++ {
			info, err := os.ReadFile(fmt.Sprintf("/proc/%d/fdinfo/%d", p.PID(), descriptor))
			require.NoError(t, err)
			_, rest, ok := strings.Cut(string(info), "flags:")
			require.True(t, ok, "%s", info)
			var flags uint
			_, err = fmt.Sscanf(rest, "%o", &flags)
			require.NoError(t, err)
			assert.Zero(t, flags&0o4000, "O_NONBLOCK of descriptor %d: %o", descriptor, flags)
		}
		p.Finish()
	})
}
