package stages

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// passed notes what a reorder stage emits, as "id/routing:seq".
type passed struct{ frames []string }

func (p *passed) emit(f *frame.Frame, b *Block) error {
	p.frames = append(p.frames, fmt.Sprintf("%s/%s:%d %s", f.ID, f.Routing, f.Seq, f.Type))
	b.Release()
	return nil
}

func flowFrame(t frame.Type, id, routing, seq uint64) *frame.Frame {
	f := &frame.Frame{Type: t, ID: frame.UintID(id), Seq: seq}
	if routing > 0 {
		f.WithRouting(frame.UintID(routing))
	}
	return f
}

func TestReorder(t *testing.T) {
	const chunk, end, credit = frame.TypeChunk, frame.TypeEnd, frame.TypeCredit
	type step struct {
		f    *frame.Frame
		want []string // what comes out
		err  string   // or is wrong
	}
	for _, tc := range []struct {
		name  string
		steps []step
		lost  int
	}{
		{"R-3.60 the expected seq is delivered", []step{
			{f: flowFrame(frame.TypeReq, 1, 0, 0), want: []string{"1/none:0 req"}},
			{f: flowFrame(chunk, 1, 0, 1), want: []string{"1/none:1 chunk"}}}, 0},
		{"R-3.60 a later one is held until the gap is closed", []step{
			{f: flowFrame(chunk, 1, 0, 2)},
			{f: flowFrame(chunk, 1, 0, 1)},
			{f: flowFrame(chunk, 1, 0, 0), want: []string{"1/none:0 chunk", "1/none:1 chunk", "1/none:2 chunk"}}}, 0},
		{"R-3.60 flows are keyed by id and routing id", []step{
			{f: flowFrame(chunk, 1, 0, 0), want: []string{"1/none:0 chunk"}},
			{f: flowFrame(chunk, 1, 5, 0), want: []string{"1/5:0 chunk"}},
			{f: flowFrame(chunk, 2, 5, 0), want: []string{"2/5:0 chunk"}},
			{f: flowFrame(chunk, 1, 5, 1), want: []string{"1/5:1 chunk"}}}, 0},
		{"R-3.60 non-flow frames pass whatever is held", []step{
			{f: flowFrame(chunk, 1, 0, 1)},
			{f: flowFrame(credit, 1, 0, 0), want: []string{"1/none:0 credit"}},
			{f: flowFrame(credit, 1, 0, 0), want: []string{"1/none:0 credit"}}}, 1},
		{"R-3.60 an earlier one is an error", []step{
			{f: flowFrame(chunk, 1, 0, 0), want: []string{"1/none:0 chunk"}},
			{f: flowFrame(chunk, 1, 0, 0), err: "flow 1: seq 0 is stale or a duplicate, expected 1"}}, 0},
		{"R-3.60 one that is held already is an error", []step{
			{f: flowFrame(chunk, 1, 0, 2)},
			{f: flowFrame(chunk, 1, 0, 2), err: "flow 1: seq 2 is stale or a duplicate, expected 0"}}, 1},
		{"R-3.60 overflow is an error", []step{
			{f: flowFrame(chunk, 1, 0, 1)},
			{f: flowFrame(chunk, 1, 0, 2)},
			{f: flowFrame(chunk, 1, 0, 3)},
			{f: flowFrame(chunk, 1, 0, 4), err: "flow 1: seq 4 overflows the buffer, which waits for 0"}}, 3},
		{"R-3.60 a full buffer takes the expected one", []step{
			{f: flowFrame(chunk, 1, 0, 1)},
			{f: flowFrame(chunk, 1, 0, 2)},
			{f: flowFrame(chunk, 1, 0, 3)},
			{f: flowFrame(chunk, 1, 0, 0), want: []string{"1/none:0 chunk", "1/none:1 chunk", "1/none:2 chunk", "1/none:3 chunk"}}}, 0},
		{"R-3.60 after a terminal the flow is forgotten", []step{
			{f: flowFrame(chunk, 1, 0, 2)},
			{f: flowFrame(end, 1, 0, 1)},
			{f: flowFrame(chunk, 1, 0, 0), want: []string{"1/none:0 chunk", "1/none:1 end"}},
			{f: flowFrame(frame.TypeReq, 1, 0, 0), want: []string{"1/none:0 req"}}}, 1},
		{"R-3.61 after an error the flow passes as it comes", []step{
			{f: flowFrame(chunk, 1, 0, 0), want: []string{"1/none:0 chunk"}},
			{f: flowFrame(chunk, 1, 0, 0), err: "stale"},
			{f: flowFrame(chunk, 1, 0, 9), want: []string{"1/none:9 chunk"}},
			{f: flowFrame(end, 1, 0, 4), want: []string{"1/none:4 end"}},
			{f: flowFrame(chunk, 1, 0, 1)}}, 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r, lost := NewReorder(3), 0
			r.Lost = func(*frame.Frame) { lost++ }
			for i, s := range tc.steps {
				var p passed
				err := r.Step(s.f, nil, p.emit)
				assert.Equal(t, s.want, p.frames, "step %d", i)
				if s.err == "" {
					require.NoError(t, err, "step %d", i)
					continue
				}
				var order *OrderError
				require.ErrorAs(t, err, &order, "step %d", i)
				assert.Contains(t, err.Error(), s.err)
			}
			r.Close()
			assert.Equal(t, tc.lost, lost, "frames lost")
			assert.Zero(t, r.held)
		})
	}
}

func TestReorderKeepsWhatItHolds(t *testing.T) {
	var pool Pool
	r := NewReorder(8)
	t.Run("R-3.60 a held frame outlives the read buffer", func(t *testing.T) {
		buf := []byte("stream")
		f := flowFrame(frame.TypeChunk, 1, 0, 1)
		f.StreamID, f.Payload, f.Meta = buf, buf, buf
		require.NoError(t, r.Step(f, nil, func(*frame.Frame, *Block) error { return errors.New("not yet") }))
		copy(buf, "xxxxxx")
		f.StreamID = nil
		n := 0
		require.NoError(t, r.Step(flowFrame(frame.TypeChunk, 1, 0, 0), nil, func(f *frame.Frame, _ *Block) error {
			if n++; n == 2 {
				assert.Equal(t, []string{"stream", "stream", "stream"}, []string{string(f.StreamID), string(f.Payload), string(f.Meta)})
			}
			return nil
		}))
		assert.Equal(t, 2, n)
	})
	t.Run("R-3.60 blocks go to whoever takes the frame, or back", func(t *testing.T) {
		given, held := pool.Get(20<<10), pool.Get(20<<10)
		require.NoError(t, r.Step(flowFrame(frame.TypeChunk, 2, 0, 1), held, nil))
		var got []*Block
		take := func(_ *frame.Frame, b *Block) error { got = append(got, b); return nil }
		require.NoError(t, r.Step(flowFrame(frame.TypeChunk, 2, 0, 0), given, take))
		assert.Equal(t, []*Block{given, held}, got)
	})
	t.Run("the error of emit is returned and ends the run", func(t *testing.T) {
		require.NoError(t, r.Step(flowFrame(frame.TypeChunk, 3, 0, 1), nil, nil))
		n, boom := 0, errors.New("boom")
		require.ErrorIs(t, r.Step(flowFrame(frame.TypeChunk, 3, 0, 0), nil, func(*frame.Frame, *Block) error { n++; return boom }), boom)
		assert.Equal(t, 1, n)
	})
}

// TestReorderBounds: whatever is sent, what is kept has a bound.
func TestReorderBounds(t *testing.T) {
	r := NewReorder(1 << 40)
	none := func(*frame.Frame, *Block) error { return nil }
	t.Run("R-3.60 frames over all flows", func(t *testing.T) {
		overflows := 0
		for i := range uint64(2 * reorderMaxHeld) {
			if err := r.Step(flowFrame(frame.TypeChunk, i, 0, 1), nil, none); err != nil {
				overflows++
			}
		}
		assert.Equal(t, reorderMaxHeld, overflows)
		assert.Equal(t, reorderMaxHeld, r.held)
	})
	t.Run("R-3.60 flows", func(t *testing.T) {
		var order *OrderError
		for i := range uint64(reorderMaxFlows) {
			if err := r.Step(flowFrame(frame.TypeReq, 1<<32+i, 0, 0), nil, none); err != nil {
				require.ErrorAs(t, err, &order)
			}
		}
		require.NotNil(t, order)
		assert.True(t, order.Overflow)
		assert.Len(t, r.flows, reorderMaxFlows)
	})
}

// TestReorderRestores: frames that are at most limit places early come out in the order in which they were numbered.
func TestReorderRestores(t *testing.T) {
	t.Run("R-3.60 any order within the buffer is put right", rapid.MakeCheck(func(t *rapid.T) {
		limit := rapid.IntRange(1, 6).Draw(t, "limit")
		flows := rapid.IntRange(1, 4).Draw(t, "flows")
		r := NewReorder(uint64(limit))
		r.Lost = func(f *frame.Frame) { t.Fatalf("lost %d", f.Seq) }
		next := make([]uint64, flows)
		waiting := make([][]uint64, flows) // sent and not arrived, in order
		out := make([]uint64, flows)
		emit := func(f *frame.Frame, _ *Block) error {
			n, _ := f.ID.Uint()
			if f.Seq != out[n] {
				t.Fatalf("flow %d: %d came out, want %d", n, f.Seq, out[n])
			}
			out[n]++
			return nil
		}
		arrive := func(fl, k int) {
			seq := waiting[fl][k]
			waiting[fl] = slices.Delete(waiting[fl], k, k+1)
			if err := r.Step(flowFrame(frame.TypeChunk, uint64(fl), 0, seq), nil, emit); err != nil {
				t.Fatal(err)
			}
		}
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			fl := rapid.IntRange(0, flows-1).Draw(t, "flow")
			// The oldest that has not arrived is overtaken by at most limit others.
			if len(waiting[fl]) > 0 && next[fl]-waiting[fl][0] > uint64(limit) {
				arrive(fl, 0)
				continue
			}
			waiting[fl] = append(waiting[fl], next[fl])
			next[fl]++
			if rapid.Bool().Draw(t, "arrives") {
				arrive(fl, rapid.IntRange(0, len(waiting[fl])-1).Draw(t, "which"))
			}
		}
		for fl := range flows {
			for len(waiting[fl]) > 0 {
				arrive(fl, 0)
			}
			if out[fl] != next[fl] {
				t.Fatalf("flow %d: %d of %d came out", fl, out[fl], next[fl])
			}
		}
	}))
}
