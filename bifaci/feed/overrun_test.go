package feed

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOverrun(t *testing.T) {
	t.Run("R-9.30 what the ring and the hand-over hold is not lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			require.True(t, b.push(0, handOver+defaultRing))
			assert.Zero(t, b.Overruns())
			require.True(t, b.push(handOver+defaultRing, 1))
			assert.Equal(t, uint64(1), b.Overruns())
			b.Close()
			items, end := readAll(t.Context(), b.Feed)
			assert.Equal(t, io.EOF, end)
			assert.Equal(t, append(span(0, handOver), span(handOver+1, defaultRing)...), seqs(items))
		})
	})
	t.Run("R-9.30 reading makes room", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{Params: params(t, `{"ring":1}`)})
			require.True(t, b.push(0, handOver+1))
			for i := range 100 {
				it, err := b.Next(t.Context())
				require.NoError(t, err)
				assert.Equal(t, int64(i), it.Meta["seq"])
				require.True(t, b.push(handOver+1+i, 1))
			}
			assert.Zero(t, b.Overruns())
			b.Close()
		})
	})
	t.Run("R-9.31 R-9.32 R-9.34 the oldest go, and the next delivered item says so", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var total stats.Overruns
			total.Add(100) // other feeds
			b := openBench(t.Context(), t, Selector{Params: params(t, `{"ring":3}`)}, WithOverruns(&total))
			start := b.started.UnixMicro()
			require.True(t, b.push(0, handOver+3+4)) // items 8 to 11 are lost
			assert.Equal(t, uint64(4), b.Overruns())
			assert.Equal(t, uint64(104), total.Total())
			b.Close()
			items, _ := readAll(t.Context(), b.Feed)
			require.Equal(t, append(span(0, handOver), 12, 13, 14), seqs(items))
			for _, it := range append(items[:8:8], items[9:]...) {
				assert.NotContains(t, it.Meta, "gap")
			}
			assert.Equal(t, frame.Meta{"seq": int64(12), "pts_us": int64(12_000), "capture_ts_us": start + 12_000,
				"gap": map[string]any{"dropped": int64(4), "duration_us": int64(5000)}}, items[8].Meta)
		})
	})
	t.Run("R-9.34 a loss before the first item counts from the virtual item -1 at 0", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{})
			require.True(t, b.sink.Push(Sample{PTS: 7 * time.Millisecond, Lost: 3}))
			it, err := b.Next(t.Context())
			require.NoError(t, err)
			assert.Equal(t, int64(3), it.Meta["seq"])
			dropped, duration := gapOf(it)
			assert.Equal(t, int64(3), dropped)
			assert.Equal(t, int64(7000), duration)
			assert.Equal(t, uint64(3), b.Overruns())
			b.Close()
		})
	})
	t.Run("R-9.34 each loss has one gap", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{Params: params(t, `{"ring":1}`)})
			require.True(t, b.push(0, handOver+3)) // loses 8 and 9
			for range handOver + 1 {               // to item 10
				_, err := b.Next(t.Context())
				require.NoError(t, err)
			}
			require.True(t, b.push(11, handOver+2)) // 11 to 18 are handed over, 19 is lost
			b.Close()
			items, _ := readAll(t.Context(), b.Feed)
			assert.Equal(t, append(span(11, handOver), 20), seqs(items))
			for _, it := range items[:handOver] {
				assert.NotContains(t, it.Meta, "gap")
			}
			dropped, duration := gapOf(items[handOver])
			assert.Equal(t, []int64{1, 2000}, []int64{dropped, duration})
		})
	})
	t.Run("R-9.33 fail", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var total stats.Overruns
			b := openBench(t.Context(), t, Selector{OnOverrun: Fail, Params: params(t, `{"ring":3}`)}, WithOverruns(&total))
			require.True(t, b.push(0, handOver+3))
			require.False(t, b.push(handOver+3, 1), "capture stops")
			synctest.Wait()
			wantDone(t, b)
			assert.Equal(t, uint64(1), b.Overruns())
			assert.Equal(t, uint64(1), total.Total())
			items, end := readAll(t.Context(), b.Feed)
			assert.Equal(t, span(0, handOver), seqs(items), "what was in the ring is discarded, what was handed over is not")
			wantFailure(t, end, failure.FeedOverrun, failure.Resource, "3 items")
			_, again := b.Next(t.Context())
			assert.Equal(t, end, again)
		})
	})
	t.Run("R-9.33 a loss inside the device", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			b := openBench(t.Context(), t, Selector{OnOverrun: Fail})
			require.True(t, b.push(0, 1))
			require.False(t, b.sink.Push(Sample{Lost: 2}))
			items, end := readAll(t.Context(), b.Feed)
			assert.Len(t, items, 1)
			wantFailure(t, end, failure.FeedOverrun, failure.Resource, "2 items")
			assert.Equal(t, uint64(2), b.Overruns())
		})
	})
	t.Run("R-9.32 a ring of large items is full before it has all its items", func(t *testing.T) {
		b := buffer{ringItems: 1 << 40, mostBytes: 1000}
		large := captured{data: make([]byte, 250)} // three fit with their bookkeeping, four would without
		for range handOver + 3 {
			lost, _ := b.push(large, 0)
			assert.Zero(t, lost)
		}
		lost, _ := b.push(large, 0)
		assert.Equal(t, uint64(1), lost)
		assert.Equal(t, 3, b.ring.count)
		lost, _ = b.push(captured{data: make([]byte, 2000)}, 0)
		assert.Equal(t, uint64(3), lost, "one item that is larger alone could never pass otherwise")
		for range handOver + 1 {
			_, ok := b.pop()
			assert.True(t, ok)
		}
		assert.Zero(t, b.ringBytes)
	})
	t.Run("R-9.34 the transcript's metas", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var want [][]byte
			var data [][]byte
			for _, f := range transcript(t, "unbounded-close-stream") {
				if f.Type == frame.TypeChunk && string(f.StreamID) != "arg0" {
					want = append(want, f.Meta)
					item, err := frame.DecodeValue(f.Payload)
					require.NoError(t, err)
					data = append(data, item.([]byte))
				}
			}
			require.Len(t, want, 4)
			first, err := frame.DecodeMeta(want[0])
			require.NoError(t, err)
			open := time.UnixMicro(first["capture_ts_us"].(int64))
			b := openBench(t.Context(), t, Selector{})
			i := 0
			for _, seq := range []int{0, 1, 5, 6} { // the three between are lost
				x := Sample{Data: data[i], PTS: time.Duration(seq) * 10 * time.Millisecond}
				x.Captured = open.Add(x.PTS)
				if seq == 5 {
					x.Lost = 3
				}
				require.True(t, b.sink.Push(x))
				it, err := b.Next(t.Context())
				require.NoError(t, err)
				raw, err := frame.AppendMeta(nil, it.Meta)
				require.NoError(t, err)
				assert.Equal(t, want[i], raw)
				assert.Equal(t, data[i], it.Data)
				decoded, err := frame.DecodeMeta(raw)
				require.NoError(t, err)
				assert.Equal(t, decoded, it.Meta, "the types are those of a decoded meta")
				i++
			}
			b.Close()
		})
	})
}
