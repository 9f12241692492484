package stages

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/synctest"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/credit"
	"github.com/pipe-cartridge/pipe/stream"
)

// step feeds a stage with inputs, then ends it cleanly, and gives what it emitted up to its first error.
func step[I, O any](stage stream.Stage[I, O], inputs ...I) (all []O, err error) {
	emit := func(v O) error { all = append(all, v); return nil }
	for _, in := range inputs {
		if err := stage.Step(in, emit); err != nil {
			return all, err
		}
	}
	if f, ok := stage.(stream.Flusher[O]); ok {
		err = f.Flush(emit)
	}
	if e, ok := stage.(stream.Ender); ok {
		e.End(err)
	}
	return all, err
}

// vectorFrames are the frames of the golden file that a cartridge's decoder accepts.
func vectorFrames(t testing.TB) (all [][]byte) {
	raw, err := os.ReadFile("../test/vectors/frames.json")
	require.NoError(t, err)
	var vectors []struct {
		Name, Hex, Error string
		Decoded          map[string]any
	}
	require.NoError(t, json.Unmarshal(raw, &vectors))
	for _, v := range vectors {
		b, err := hex.DecodeString(v.Hex)
		require.NoError(t, err, v.Name)
		if v.Decoded != nil && v.Error == "" {
			all = append(all, b)
		}
	}
	require.Greater(t, len(all), 50)
	return all
}

func parcels(frames ...*frame.Frame) (all []Parcel) {
	for _, f := range frames {
		all = append(all, Parcel{Frame: *f})
	}
	return all
}

func TestDecodeStage(t *testing.T) {
	valid := vectorFrames(t)
	input := bytes.Join(valid, nil)
	cut := func(n int) (pieces [][]byte) {
		for b := input; len(b) > 0; b = b[min(n, len(b)):] {
			pieces = append(pieces, append([]byte(nil), b[:min(n, len(b))]...))
		}
		return pieces
	}
	for _, size := range []int{1, 3, 1 << 10, len(input)} {
		t.Run(fmt.Sprintf("R-2.31 the same frames however the input is cut, here every %d bytes", size), func(t *testing.T) {
			pieces := cut(size)
			got, err := step(NewDecodeStage(new(Pool), frame.MaxBody), pieces...)
			require.NoError(t, err)
			for _, p := range pieces { // what was emitted must not live in it
				clear(p)
			}
			require.Len(t, got, len(valid))
			for i, b := range valid {
				var want frame.Frame
				require.NoError(t, frame.Decode(b[frame.PrefixSize:], &want))
				require.Equal(t, want, got[i].Frame, "vector %d", i)
			}
		})
	}
	t.Run("R-2.31 an input that ends inside a frame", func(t *testing.T) {
		large := frame.Append(nil, chunkFrame("s", 0, encoded(t, make([]byte, 300<<10))))
		for name, cut := range map[string][]byte{"prefix": input[:3], "body": input[:7], "large body": large[:200<<10]} {
			pool := new(Pool)
			got, err := step(NewDecodeStage(pool, frame.MaxBody), cut)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF, name)
			require.Empty(t, got)
		}
	})
	t.Run("a stage that is stopped inside a large body gives its block back", func(t *testing.T) {
		pool := new(Pool)
		s := NewDecodeStage(pool, frame.MaxBody)
		large := frame.Append(nil, chunkFrame("s", 0, encoded(t, make([]byte, 100<<10))))
		require.NoError(t, s.Step(large[:50<<10], nil))
		require.Zero(t, pool.Held())
		s.End(context.Canceled)
		require.NotZero(t, pool.Held())
	})
	t.Run("R-2.32 what is no frame is an error at once", func(t *testing.T) {
		_, err := step(NewDecodeStage(new(Pool), frame.MaxBody), []byte{0, 0, 0, 1, 0xff})
		var syntax *frame.SyntaxError
		require.ErrorAs(t, err, &syntax)
		require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
	})
	t.Run("a large body comes in a block, small ones do not", func(t *testing.T) {
		pool := new(Pool)
		payload := encoded(t, bytes.Repeat([]byte("x"), 500<<10))
		in := frame.Append(frame.Append(nil, chunkFrame("s", 0, payload)), chunkFrame("s", 1, []byte{1}))
		got, err := step(NewDecodeStage(pool, frame.MaxBody), in)
		require.NoError(t, err)
		require.Len(t, got, 2)
		require.NotNil(t, got[0].Block)
		require.Equal(t, payload, got[0].Frame.Payload)
		require.Nil(t, got[1].Block)
	})
}

// counts is told about frames that are not written.
type counts struct{ stragglers, closed []frame.Type }

func (c *counts) Straggler(t frame.Type)     { c.stragglers = append(c.stragglers, t) }
func (c *counts) ChannelClosed(t frame.Type) { c.closed = append(c.closed, t) }

func TestNumberStage(t *testing.T) {
	with := func(fl *Flow, types ...frame.Type) (all []Parcel) {
		for _, typ := range types {
			all = append(all, Parcel{Frame: frame.Frame{Type: typ}, Flow: fl})
		}
		return all
	}
	seqs := func(all []Parcel) (seqs []uint64) {
		for _, p := range all {
			seqs = append(seqs, p.Frame.Seq)
		}
		return seqs
	}
	t.Run("R-4.10 seq counts the flow frames of each flow, and other frames have none", func(t *testing.T) {
		a, b := NewFlow(frame.UintID(1), frame.ID{}), NewFlow(frame.UintID(2), frame.UintID(9))
		var in []Parcel
		in = append(in, with(a, frame.TypeReq, frame.TypeStreamStart)...)
		in = append(in, with(b, frame.TypeLog, frame.TypeCredit, frame.TypeChunk)...)
		in = append(in, with(a, frame.TypeChunk, frame.TypeCancel, frame.TypeEnd)...)
		got, err := step(NewNumberStage(1000, nil), in...)
		require.NoError(t, err)
		require.Equal(t, []uint64{0, 1, 0, 0, 1, 2, 0, 3}, seqs(got))
		require.Equal(t, frame.UintID(2), got[2].Frame.ID)
		require.Equal(t, frame.UintID(9), got[2].Frame.Routing)
		require.True(t, got[2].Frame.Has.Has(frame.KeyRoutingID))
		require.False(t, got[0].Frame.Has.Has(frame.KeyRoutingID))
	})
	t.Run("R-4.11 after END and after ERR flow frames are stragglers, others pass, other flows go on", func(t *testing.T) {
		for _, terminal := range []frame.Type{frame.TypeEnd, frame.TypeErr} {
			c, pool := new(counts), new(Pool)
			a, b := NewFlow(frame.UintID(1), frame.ID{}), NewFlow(frame.UintID(1), frame.ID{})
			in := with(a, frame.TypeChunk, terminal, frame.TypeLog, frame.TypeChunk, frame.TypeCredit, terminal)
			in[3].Block = pool.Get(20 << 10)
			in = append(in, with(b, frame.TypeChunk)...) // the same id, used again: another request
			got, err := step(NewNumberStage(1000, c), in...)
			require.NoError(t, err)
			var types []frame.Type
			for _, p := range got {
				types = append(types, p.Frame.Type)
			}
			require.Equal(t, []frame.Type{frame.TypeChunk, terminal, frame.TypeCredit, frame.TypeChunk}, types)
			require.Equal(t, []frame.Type{frame.TypeLog, frame.TypeChunk, terminal}, c.stragglers)
			require.NotZero(t, pool.Held(), "the block of a straggler goes back")
		}
	})
	t.Run("R-4.11 answers that belong to no request are not gated", func(t *testing.T) {
		fl := NewUngatedFlow(frame.UintID(1), frame.ID{})
		got, err := step(NewNumberStage(1000, nil), with(fl, frame.TypeErr, frame.TypeErr)...)
		require.NoError(t, err)
		require.Equal(t, []uint64{0, 0}, seqs(got))
	})
	t.Run("R-6.92 a frame that is too large uses up no seq and the stage goes on", func(t *testing.T) {
		fl := NewFlow(frame.UintID(1), frame.ID{})
		in := with(fl, frame.TypeChunk, frame.TypeChunk, frame.TypeChunk)
		in[1].Frame = *chunkFrame("s", 0, make([]byte, 1000))
		s := NewNumberStage(1000, nil)
		var refused []error
		s.Refused = func(p Parcel, err error) { refused = append(refused, err) }
		got, err := step(s, in...)
		require.NoError(t, err)
		require.Equal(t, []uint64{0, 1}, seqs(got))
		var large *TooLargeError
		require.ErrorAs(t, errors.Join(refused...), &large)
		require.Equal(t, &TooLargeError{frame.TypeChunk, frame.BodySize(&in[1].Frame, 1000), 1000}, large)
		_, err = step(NewNumberStage(1000, nil), in...)
		require.ErrorAs(t, err, &large, "without a function to tell it ends the stage")
	})
	t.Run("R-6.92 the bound is exact", func(t *testing.T) {
		for n := 700; n < 1000; n++ {
			fl := NewFlow(frame.NewUUID(), frame.NewUUID())
			p := Parcel{Frame: *chunkFrame("s", 0, make([]byte, n)), Flow: fl}
			got, err := step(NewNumberStage(1000, nil), p)
			if err == nil {
				require.LessOrEqual(t, len(frame.Append(nil, &got[0].Frame))-frame.PrefixSize, 1000)
				continue
			}
			p.Frame.ID, p.Frame.Routing = fl.id, fl.routing
			p.Frame.Has = p.Frame.Has.With(frame.KeyRoutingID)
			require.Greater(t, len(frame.Append(nil, &p.Frame))-frame.PrefixSize, 1000)
		}
	})
}

func TestEncodeStage(t *testing.T) {
	t.Run("R-4.10 every frame becomes its bytes, and blocks go back", func(t *testing.T) {
		pool := new(Pool)
		in := []Parcel{{Frame: *chunkFrame("s", 0, []byte("small"))}, {Frame: *chunkFrame("s", 1, nil), Block: pool.Get(100 << 10)}}
		in[1].Frame.Payload = in[1].Block.Buf
		payload := bytes.Repeat([]byte("large"), 20<<10)
		copy(in[1].Frame.Payload, payload)
		in[1].Frame.Checksum = fnvOf(in[1].Frame.Payload)
		want := append([]byte(nil), in[1].Frame.Payload...)
		got, err := step(new(EncodeStage), in...)
		require.NoError(t, err)
		require.Len(t, got, 2)
		require.Equal(t, []byte("small"), decodeWire(t, got[0])[0].payload)
		require.Equal(t, want, decodeWire(t, got[1])[0].payload)
		require.Equal(t, 128<<10+blockSlack, pool.Held())
	})
	t.Run("R-4.10 vectors come out as they went in", func(t *testing.T) {
		for i, b := range vectorFrames(t) {
			var f frame.Frame
			require.NoError(t, frame.Decode(b[frame.PrefixSize:], &f))
			got, err := step(new(EncodeStage), Parcel{Frame: f})
			require.NoError(t, err)
			var want, have map[uint64]any
			require.NoError(t, cbor.Unmarshal(b[4:], &want))
			require.NoError(t, cbor.Unmarshal(got[0][4:], &have))
			if _, ok := want[3]; !ok { // seq may be absent on arrival and never is when we send
				want[3] = uint64(0)
			}
			for key := range want {
				if key > uint64(frame.KeyUnbounded) { // of a later version, and skipped
					delete(want, key)
				}
			}
			require.Equal(t, want, have, "vector %d", i)
		}
	})
}

func TestGateStage(t *testing.T) {
	t.Run("R-10.2 only CHUNK takes credit", func(t *testing.T) {
		gate := credit.NewGate(0)
		in := parcels(startFrame("s", false), streamEndFrame("s", 0), &frame.Frame{Type: frame.TypeReq}, &frame.Frame{Type: frame.TypeEnd},
			&frame.Frame{Type: frame.TypeErr}, &frame.Frame{Type: frame.TypeLog})
		got, err := step(NewGateStage(new(Link), gate, nil), in...)
		require.NoError(t, err)
		require.Len(t, got, len(in))
	})
	t.Run("R-10.10 R-10.21 a CHUNK waits for credit, grants what was consumed before, and F11 wakes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			gate, link, flushed := credit.NewGate(1), new(Link), 0
			s := NewGateStage(link, gate, func() { flushed++ })
			in, out := stream.NewQueue[Parcel](10, 0, nil), stream.NewQueue[Parcel](10, 0, nil)
			done := make(chan error)
			go func() { done <- stream.Run(t.Context(), s, in, out) }()
			for i := range 3 {
				require.NoError(t, in.Put(t.Context(), Parcel{Frame: *chunkFrame("s", i, nil)}))
			}
			synctest.Wait()
			require.Equal(t, 1, flushed)
			gate.Grant(1)
			synctest.Wait()
			require.Equal(t, 2, flushed)
			gate.Close(errGone)
			require.ErrorIs(t, <-done, errGone)
			require.Equal(t, uint64(2), link.CreditWaits.Load())
			got, err := out.TakeAll(t.Context(), nil)
			require.NoError(t, err)
			require.Len(t, got, 2, "one for the first credit, one for the grant")
		})
	})
}

func TestRouteStage(t *testing.T) {
	t.Run("R-3.71 R-10.30 a receiver that nobody reads delays no other", func(t *testing.T) {
		l := newTestLink(withCredit(2))
		slow, quick := l.receive(), l.receive()
		route := NewRouteStage(func(id frame.ID) *Receiver {
			switch id {
			case frame.UintID(1):
				return slow.Receiver
			case frame.UintID(2):
				return quick.Receiver
			}
			return nil
		})
		to := func(id uint64, f *frame.Frame) Parcel { f.ID = frame.UintID(id); return Parcel{Frame: *f} }
		block := l.blockOf(encoded(t, make([]byte, 20<<10)))
		broken := to(1, chunkFrame("s", 2, block.Buf))
		broken.Block = block
		left, err := step(route,
			to(1, startFrame("s", true)), to(2, startFrame("s", true)),
			to(1, chunkFrame("s", 0, []byte{1})), to(1, chunkFrame("s", 1, []byte{2})), // a full window
			to(2, chunkFrame("s", 0, []byte{3})), to(2, streamEndFrame("s", 1)), to(2, &frame.Frame{Type: frame.TypeEnd}),
			to(3, chunkFrame("s", 0, []byte{4})), to(2, &frame.Frame{Type: frame.TypeReq}), broken)
		require.NoError(t, err)
		require.Len(t, left, 3)
		assert.Nil(t, left[0].Fault, "unknown request")
		assert.Equal(t, frame.TypeReq, left[1].Parcel.Frame.Type, "not part of a body")
		assert.Equal(t, failure.CreditViolation, left[2].Fault.Code)
		assert.NotZero(t, l.Pool.Held(), "its block went back")
		in, err := quick.Stream(t.Context(), 0)
		require.NoError(t, err)
		item, err := in.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, []byte{3}, item.Enc)
		_, err = in.Next(t.Context())
		require.ErrorIs(t, err, io.EOF)
		l.finish(t)
	})
}
