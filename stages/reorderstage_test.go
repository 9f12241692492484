package stages

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stream"
)

// between runs a stage on its own goroutine between two queues.
func between[I, O any](t *testing.T, stage stream.Stage[I, O]) (in *stream.Queue[I], out *stream.Queue[O], ended chan error) {
	t.Helper()
	in, out = stream.NewQueue[I](64, 0, nil), stream.NewQueue[O](64, 0, nil)
	ended = make(chan error, 1)
	go func() { ended <- stream.Run(t.Context(), stage, in, out) }() // ends with its input
	return in, out, ended
}

func TestReorderStage(t *testing.T) {
	parcel := func(seq uint64) Parcel { return Parcel{Frame: *flowFrame(frame.TypeChunk, 1, 0, seq)} }
	t.Run("R-4.21 between two queues", func(t *testing.T) {
		in, out, ended := between(t, NewReorderStage(4, nil))
		for _, seq := range []uint64{2, 0, 3, 1} {
			require.NoError(t, in.Put(t.Context(), parcel(seq)))
		}
		in.Close(nil)
		require.NoError(t, <-ended)
		got, err := out.TakeAll(t.Context(), nil)
		require.NoError(t, err)
		require.Len(t, got, 4)
		for want, p := range got {
			assert.EqualValues(t, want, p.Frame.Seq)
		}
	})
	t.Run("R-3.60 the stage is strict", func(t *testing.T) {
		var lost []uint64
		var pool Pool
		in, _, ended := between(t, NewReorderStage(4, func(f *frame.Frame) { lost = append(lost, f.Seq) }))
		held, twice := parcel(2), parcel(2)
		held.Block, twice.Block = pool.Get(20<<10), pool.Get(20<<10)
		size := cap(held.Block.Buf) + cap(twice.Block.Buf)
		require.NoError(t, in.Put(t.Context(), held, twice))
		var order *OrderError
		require.ErrorAs(t, <-ended, &order)
		assert.Equal(t, []uint64{2}, lost)
		assert.Equal(t, size, pool.Held(), "both blocks went back")
	})
	t.Run("R-4.21 what is held at the end is told", func(t *testing.T) {
		var lost []uint64
		in, _, ended := between(t, NewReorderStage(4, func(f *frame.Frame) { lost = append(lost, f.Seq) }))
		require.NoError(t, in.Put(t.Context(), parcel(1)))
		in.Close(nil)
		require.NoError(t, <-ended)
		assert.Equal(t, []uint64{1}, lost)
	})
	t.Run("the error of who takes its output ends it", func(t *testing.T) {
		full := errors.New("full")
		err := NewReorderStage(4, nil).Step(parcel(0), func(Parcel) error { return full })
		require.ErrorIs(t, err, full)
	})
}
