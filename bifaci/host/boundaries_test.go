package host_test

import (
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// bodyFrames is a request body of one stream.
func bodyFrames(pieces ...string) []Frame {
	frames := []Frame{cartridgetest.StartFrame("body", "media:")}
	for i, p := range pieces {
		frames = append(frames, cartridgetest.ChunkFrame("body", uint64(i), cartridgetest.Bytes(p)))
	}
	return append(frames, cartridgetest.StreamEndFrame("body", uint64(len(pieces))),
		Frame{frame.KeyVersion: uint64(6), frame.KeyType: uint64(frame.TypeEnd), frame.KeyEOF: true})
}

// drain takes what the host has sent by now.
func (f *fake) drain() (frames []Frame) {
	synctest.Wait()
	for {
		select {
		case got, ok := <-f.got:
			if !ok {
				return frames
			}
			frames = append(frames, got)
		default:
			return frames
		}
	}
}

// TestDeathAtEveryBoundary lets a cartridge die behind every frame that it sends, and inside of every one: the host's caller, the
// cartridge that has called it and the cartridge that it has called all learn the right thing, once.
func TestDeathAtEveryBoundary(t *testing.T) {
	l := frame.DefaultLimits()
	answer := answerBytes("one", "two", "three")
	// The callee of a peer call dies.
	for n := 0; n <= len(answer); n++ {
		for _, cut := range []bool{false, true} {
			if cut && n == len(answer) {
				continue
			}
			virtual(t, fmt.Sprintf("R-12.50 R-12.51 R-12.54 R-12.55 the callee dies behind %d of %d frames, cut %t", n, len(answer), cut), func(t *testing.T) {
				c := newChain(t, l, l)
				c.a.answer(c.peer, bodyFrames("x")...)
				c.b.answer(c.body, answer[:n]...)
				if cut {
					b := c.b.wire(answer[n].With(frame.KeyID, c.body[frame.KeyID]).With(frame.KeyRoutingID, c.body[frame.KeyRoutingID]).With(frame.KeySeq, uint64(n)))
					c.b.sendBytes(b[:len(b)-1])
				}
				require.NoError(t, c.b.out.Close())
				var got []Frame
				for _, f := range c.a.drain() {
					if f.Type().IsFlow() {
						require.Equal(t, c.peer.ID(), f.ID())
						require.Equal(t, uint64(len(got)), f.Seq(), "without gap")
						got = append(got, f)
					}
				}
				want := min(n+1, len(answer))
				require.Len(t, got, want)
				for i := range n {
					assert.Equal(t, answer[i].Type(), got[i].Type())
				}
				if n < len(answer) {
					assert.Equal(t, frame.TypeErr, got[n].Type())
					assert.Equal(t, "CARTRIDGE_DIED", got[n].Meta()["code"])
				}
				require.Len(t, c.h.Cartridges(), 1)
			})
		}
	}
	// The caller of a peer call dies, which serves the host's call.
	body := bodyFrames("one", "two")
	frames := len(body) + len(answer) // of its call, then its own answer
	for n := 0; n <= frames; n++ {
		virtual(t, fmt.Sprintf("R-12.50 R-12.51 R-12.54 the caller dies behind %d of %d frames", n, frames), func(t *testing.T) {
			c := newChain(t, l, l)
			c.a.answer(c.peer, body[:min(n, len(body))]...)
			if n >= len(body) { // the callee answers before the caller goes on
				c.b.answer(c.body, answerBytes("inner")...)
				c.a.drain()
				c.a.answer(c.outer, answer[:n-len(body)]...)
			}
			require.NoError(t, c.a.out.Close())
			got, err := c.call.Response().CollectBytes(t.Context())
			if n == frames {
				require.NoError(t, err)
				assert.Equal(t, "onetwothree", string(got))
			} else {
				wantFailure(t, err, failure.CartridgeDied, failure.Environment)
			}
			var passed, cancels int
			for _, f := range c.b.drain() {
				switch f.Type() {
				case frame.TypeCancel:
					cancels++
					assert.Equal(t, "ABORTED_COLLATERAL", f.Meta()["code"])
				case frame.TypeErr:
					t.Errorf("the callee got %s", f)
				default:
					passed++
				}
			}
			assert.Equal(t, min(n, len(body)), passed, "what was written before the death is passed on")
			want := 0
			if n < len(body) {
				want = 1
			}
			assert.Equal(t, want, cancels)
			require.Len(t, c.h.Cartridges(), 1)
			assert.Zero(t, c.h.Cartridges()[0].Stats.ActiveRequests)
		})
	}
}
