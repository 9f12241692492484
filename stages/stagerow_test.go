package stages

import (
	"bytes"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/credit"
	"github.com/pipe-cartridge/pipe/stream"
)

func TestReassembleStage(t *testing.T) {
	end := &frame.Frame{Type: frame.TypeEnd}
	newStage := func(window uint64) (*ReassembleStage, *map[string][]uint64) {
		granted := map[string][]uint64{}
		link := &Link{Pool: new(Pool), Limits: withCredit(window)}
		link.Granted = func(stream string, n uint64) { granted[stream] = append(granted[stream], n) }
		return NewReassembleStage(link, new(Flow), frame.CreditRequest), &granted
	}
	t.Run("R-6.22 fragments become items, with the meta of their first chunk", func(t *testing.T) {
		s, _ := newStage(32)
		item := encoded(t, "a text that is cut")
		meta, other := encoded(t, map[string]int{"n": 1}), encoded(t, map[string]int{"n": 2})
		got, err := step(s, parcels(startFrame("s", true),
			withMeta(chunkFrame("s", 0, item[:3]), meta), withMeta(chunkFrame("s", 1, item[3:]), other),
			withMeta(chunkFrame("s", 2, append(encoded(t, 1), encoded(t, 2)...)), meta),
			streamEndFrame("s", 3))...)
		require.NoError(t, err)
		require.Len(t, got, 3)
		require.Equal(t, item, got[0].Item.Enc)
		require.Equal(t, [][]byte{meta, meta, nil}, [][]byte{got[0].Item.Meta, got[1].Item.Meta, got[2].Item.Meta})
		require.Equal(t, "s", got[0].Stream.ID())
		require.Equal(t, "media:bytes", got[0].Stream.MediaURN())
		require.True(t, got[0].Stream.IsSequence())
		require.False(t, got[0].Stream.IsUnbounded())
	})
	t.Run("R-3.38 an input that ends while a stream is open", func(t *testing.T) {
		s, _ := newStage(32)
		_, err := step(s, parcels(startFrame("s", true), chunkFrame("s", 0, []byte{1}))...)
		require.ErrorContains(t, err, "while stream \"s\" is open")
	})
	t.Run("END ends the stage", func(t *testing.T) {
		s, _ := newStage(32)
		_, err := step(s, parcels(startFrame("s", true), streamEndFrame("s", 0), end)...)
		require.ErrorIs(t, err, stream.ErrStopped)
	})
	t.Run("R-3.24 ERR comes behind what was received", func(t *testing.T) {
		s, _ := newStage(32)
		remote := &frame.Frame{Type: frame.TypeErr, Meta: frame.AppendErrMeta(nil, failure.New("NO_LUCK", failure.Environment, "none"))}
		remote.Has = remote.Has.With(frame.KeyMeta)
		got, err := step(s, parcels(startFrame("s", true), chunkFrame("s", 0, []byte{1}), remote)...)
		var far *failure.Remote
		require.ErrorAs(t, err, &far)
		require.Equal(t, "NO_LUCK", far.Code)
		require.Len(t, got, 1)
	})
	t.Run("R-3.32 a large payload with a wrong checksum", func(t *testing.T) {
		s, _ := newStage(32)
		f := chunkFrame("s", 0, encoded(t, make([]byte, 10<<10)))
		f.Checksum++
		got, err := step(s, parcels(startFrame("s", false), f)...)
		var fault *failure.Failure
		require.ErrorAs(t, err, &fault)
		require.Equal(t, failure.CorruptedData, fault.Code)
		require.Empty(t, got)
	})
	t.Run("R-10.20 R-10.21 L10.1 L10.2 batches while input is there, the rest before a wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, granted := newStage(8)
			in, out := stream.NewQueue[Parcel](100, 0, nil), stream.NewQueue[StreamItem](100, 0, nil)
			all := parcels(startFrame("s", true))
			for i := range 7 {
				all = append(all, Parcel{Frame: *chunkFrame("s", i, []byte{byte(i)})})
			}
			require.NoError(t, in.Put(t.Context(), all...))
			done := make(chan error)
			go func() { done <- stream.Run(t.Context(), s, in, out) }()
			synctest.Wait()
			require.Equal(t, map[string][]uint64{"s": {4, 3}}, *granted)
			in.Close(nil)
			require.ErrorContains(t, <-done, "is open")
		})
	})
}

// ChunkStage against the sender of the runtime: the same calls give the same frames.
func TestChunkStageR6_39_R6_40_R6_41_GivesTheFramesOfTheSender(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		limits := withCredit(1 << 40)
		limits.MaxChunk = rapid.SampledFrom([]uint64{1, 7, 100, 5000, 20_000}).Draw(rt, "max_chunk")
		mode := Mode{Sequence: rapid.Bool().Draw(rt, "sequence"), Unbounded: rapid.Bool().Draw(rt, "unbounded")}
		pool := new(Pool)
		chunk := NewChunkStage(NewFlow(frame.UintID(7), frame.ID{}), testStream, "media:bytes", mode, limits, pool)
		var values []Value
		for range rapid.IntRange(0, 6).Draw(rt, "values") {
			v := Value{V: drawValue(rt, 50*int(limits.MaxChunk))}
			if mode.Sequence && rapid.Bool().Draw(rt, "with meta") {
				v.Meta = encoded(rt, map[string]string{"k": "v"})
			}
			values = append(values, v)
		}
		l := newTestLink(limits).run()
		flow := NewFlow(frame.UintID(7), frame.ID{})
		var s Sender
		s.Init(&l.Link, flow, []byte(testStream), []byte("media:bytes"), nil)
		if mode.Sequence || mode.Unbounded {
			require.NoError(rt, s.Start(t.Context(), mode))
		}
		for _, v := range values {
			if mode.Sequence {
				require.NoError(rt, s.EmitItem(t.Context(), v.V, v.Meta))
			} else {
				require.NoError(rt, s.EmitValue(t.Context(), v.V))
			}
		}
		require.NoError(rt, s.CloseStarted(t.Context()))
		want := l.finish(rt)

		cut, err := step(chunk, values...)
		require.NoError(rt, err)
		numbered, err := step(NewNumberStage(limits.MaxFrame, nil), cut...)
		require.NoError(rt, err)
		wire, err := step(new(EncodeStage), numbered...)
		require.NoError(rt, err)
		require.Equal(rt, want, decodeWire(rt, bytes.Join(wire, nil)))
	})
}

// drawValue draws something that can be emitted, of about most bytes or fewer.
func drawValue(t *rapid.T, most int) any {
	switch rapid.IntRange(0, 5).Draw(t, "kind") {
	case 0:
		return make([]byte, min(most, rapid.SampledFrom([]int{0, 1, 100, 4095, 4096, 9000, 70_000}).Draw(t, "size")))
	case 1:
		return rapid.StringN(0, 50, 200).Draw(t, "text")
	case 2:
		return []any{int64(1), "two", []byte{3}}
	case 3:
		return map[string]any{"a": int64(1), "b": nil}
	case 4:
		return rapid.Int64().Draw(t, "number")
	}
	return nil
}

// All stages one after the other, each on its own goroutine, with the credit going round.
func TestStagesInARow(t *testing.T) {
	for _, window := range []uint64{1, 2, 3, 32} {
		t.Run(fmt.Sprintf("L10.5 L15 items go through all stages with a window of %d", window), func(t *testing.T) {
			const items = 300
			limits := withCredit(window)
			limits.MaxChunk = 1000
			pool := new(Pool)
			gate := credit.NewGate(window)
			link := &Link{Pool: pool, Limits: limits, Granted: func(_ string, n uint64) { gate.Grant(n) }}
			p := stream.NewPipeline(t.Context(), stream.WithQueueItems(4))
			values := stream.FromSeq(p, "values", func(yield func(Value, error) bool) {
				for i := range items {
					if !yield(Value{V: bytes.Repeat([]byte{byte(i)}, i*i%7000)}, nil) {
						return
					}
				}
			})
			mode := Mode{Sequence: true}
			chunks := stream.Then(values, "chunk", NewChunkStage(NewFlow(frame.NewUUID(), frame.ID{}), "s", "media:x", mode, limits, pool))
			paid := stream.Then(chunks, "gate", NewGateStage(link, gate, nil))
			numbered := stream.Then(paid, "number", NewNumberStage(limits.MaxFrame, nil))
			wire := stream.Then(numbered, "encode", new(EncodeStage))
			frames := stream.Then(wire, "decode", NewDecodeStage(pool, limits.MaxFrame))
			whole := stream.Then(frames, "reassemble", NewReassembleStage(link, new(Flow), frame.CreditRequest))
			i := 0
			for it, err := range whole.All() {
				require.NoError(t, err)
				var got []byte
				require.NoError(t, cbor.Unmarshal(it.Item.Enc, &got))
				require.Equal(t, bytes.Repeat([]byte{byte(i)}, i*i%7000), append([]byte{}, got...), "item %d", i)
				i++
			}
			require.NoError(t, p.Wait())
			require.Equal(t, items, i)
		})
	}
}

func BenchmarkStages(b *testing.B) {
	b.Run("decode and reassemble", func(b *testing.B) {
		limits := withCredit(32)
		payload := append(frame.AppendBytesHead(nil, 1024), make([]byte, 1024)...)
		s := NewReassembleStage(&Link{Pool: new(Pool), Limits: limits}, new(Flow), frame.CreditRequest)
		dec := NewDecodeStage(new(Pool), limits.MaxFrame)
		discard := func(StreamItem) error { return nil }
		if err := s.Step(Parcel{Frame: *startFrame("s", false)}, discard); err != nil {
			b.Fatal(err)
		}
		f := chunkFrame("s", 0, payload)
		b.ReportAllocs()
		b.SetBytes(int64(len(payload)))
		var buf []byte
		for b.Loop() {
			buf = frame.Append(buf[:0], f)
			f.ChunkIndex++
			if err := dec.Step(buf, func(p Parcel) error { return s.Step(p, discard) }); err != nil {
				b.Fatal(err)
			}
		}
	})
}
