package process

import (
	"bytes"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

const (
	floodVariable = "PIPE_FLOOD_MIB" // how much of each frame type; `make soak` sets it
	floodDefault  = 128              // MiB
	floodGrowth   = 32 << 20         // bytes that a flood may cost
	floodRun      = 256 << 10        // bytes of one run of frames, about
	floodIdle     = 2 * time.Second  // without a byte read, after which the reader has stopped
	floodPatience = 90 * time.Second // for a reader that must not stop, and for the answer at the end
)

// floodBytes is how much is sent of each type.
func floodBytes(t *testing.T) int {
	mib := floodDefault
	if text := os.Getenv(floodVariable); text != "" {
		var err error
		mib, err = strconv.Atoi(text)
		require.NoError(t, err, floodVariable)
	}
	return mib << 20
}

// TestFloods: a host that sends and does not read costs itself time, not the cartridge memory.
func TestFloods(t *testing.T) {
	needsProcess(t)
	const live = uint64(1000) // a request that waits for its input
	for _, c := range []struct {
		name  string
		frame func(n uint64) peer.Frame
		stops bool // each frame is answered, so the reader stops reading at last
	}{
		{"R-4.9 R-3.6 REQ refused", func(n uint64) peer.Frame {
			return peer.ReqFrame(`cap:in="media:";out="media:";nobody`).With(peer.KeyID, 1<<32+n)
		}, true},
		{"R-4.9 R-5.30 REQ waiting, WithMaxQueued", func(n uint64) peer.Frame { return peer.ReqFrame(stunt("wait")).With(peer.KeyID, 1<<32+n) }, true},
		{"R-4.9 HEARTBEAT", func(uint64) peer.Frame { return peer.HeartbeatFrame("") }, true},
		{"R-4.7 R-3.39 STREAM_START", func(n uint64) peer.Frame {
			return peer.StartFrame("stream "+strconv.FormatUint(n, 10), mediaText).With(peer.KeyID, live)
		}, false},
		{"R-4.7 R-10.40 empty CHUNK", func(n uint64) peer.Frame {
			return peer.ChunkFrame("s", n, peer.Value([]byte{})).With(peer.KeyID, live)
		}, false},
		{"R-4.7 R-10.15 CREDIT", func(uint64) peer.Frame { return peer.CreditFrame("response", "", 1<<60).With(peer.KeyID, live) }, false},
		{"R-4.7 LOG", func(uint64) peer.Frame {
			return peer.NewFrame(peer.TypeLog, live).With(peer.KeyMeta, map[string]any{"level": "info", "attribution_class": "internal",
				"message": "a flood of words"})
		}, false},
		{"R-4.7 R-8.5 CANCEL", func(uint64) peer.Frame { return peer.CancelFrame("CANCELLED", "user", "again").With(peer.KeyID, live) }, false},
		{"R-4.7 R-8.44 CLOSE_STREAM", func(uint64) peer.Frame { return peer.NewFrame(peer.TypeCloseStream, live) }, false},
		{"R-4.7 R-3.20 unknown ids", func(n uint64) peer.Frame {
			return peer.ChunkFrame("s", 0, peer.Value([]byte{})).With(peer.KeyID, 1<<32+n)
		}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := startUnread(t, stuntPath(t), "STUNT_QUEUED=1000")
			u.write(peer.HeartbeatFrame(`{"all":1}`).With(peer.KeyID, uint64(1)).Encode())
			u.write(peer.ReqFrame(stunt("wait")).With(peer.KeyID, live).Encode())
			u.write(peer.StartFrame("s", mediaText).With(peer.KeyID, live).Encode())
			n := uint64(0)
			run := func() []byte {
				var wire bytes.Buffer
				for wire.Len() < floodRun {
					f := c.frame(n)
					if !f.Has(peer.KeyID) {
						f = f.With(peer.KeyID, 1<<32+n)
					}
					wire.Write(f.Encode())
					n++
				}
				return wire.Bytes()
			}
			if !c.stops { // the same frames again and again, after a first run: encoding them would cost more than sending
				first, second := run(), run()
				runs := 0
				run = func() []byte {
					if runs++; runs == 1 {
						return first
					}
					return second
				}
			}
			idle := floodIdle
			if !c.stops {
				idle = floodPatience
				u.pour(run, 1<<20, idle) // what a first run allocates is no growth
			}
			before := u.memory("VmRSS")
			written, owed := u.pour(run, floodBytes(t), idle)
			grown := int64(u.memory("VmHWM")) - int64(before)
			t.Logf("%d MiB were read, the peak is %.1f MiB above the memory before", written>>20, float64(grown)/(1<<20))
			assert.Less(t, grown, int64(floodGrowth), "the peak of memory")
			if !c.stops {
				assert.GreaterOrEqual(t, written, floodBytes(t), "the reader stopped although nothing of this is answered")
			}
			const probe = uint64(7)
			u.read(func(f peer.Frame) bool { return f.Type() == peer.TypeHeartbeat && f.Uint(peer.KeyID) == probe })
			u.write(owed)
			u.write(peer.HeartbeatFrame("").With(peer.KeyID, probe).Encode())
			select {
			case <-u.frames:
			case <-u.ended:
				t.Fatal("the link has ended")
			case <-time.After(floodPatience):
				t.Fatalf("no answer to a probe within %v after the host reads again", floodPatience)
			}
		})
	}
}
