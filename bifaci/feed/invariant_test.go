package feed

import (
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// traffic is a plan: how long producer and reader take for each item, and when the feed is closed.
type traffic struct {
	Ring    uint64
	Produce []time.Duration // pause before each item
	Lost    []uint64        // what the device loses before each item
	Read    []time.Duration // pause before each read, over and over
	Close   time.Duration   // 0: the device ends by itself
}

func traffics() *rapid.Generator[traffic] {
	return rapid.Custom(func(t *rapid.T) traffic {
		ms := func(most int) *rapid.Generator[time.Duration] {
			return rapid.Map(rapid.IntRange(0, most), func(n int) time.Duration { return time.Duration(n) * time.Millisecond })
		}
		plan := traffic{Ring: rapid.Uint64Range(1, 20).Draw(t, "ring")}
		plan.Produce = rapid.SliceOfN(ms(rapid.SampledFrom([]int{0, 2, 10}).Draw(t, "slowest item")), 0, 150).Draw(t, "produce")
		plan.Lost = rapid.SliceOfN(rapid.SampledFrom([]uint64{0, 0, 0, 0, 1, 5}), len(plan.Produce), len(plan.Produce)).Draw(t, "lost")
		plan.Read = rapid.SliceOfN(ms(rapid.SampledFrom([]int{0, 2, 30, 300}).Draw(t, "slowest read")), 1, 10).Draw(t, "read")
		plan.Close = rapid.SampledFrom([]time.Duration{0, 0, 50 * time.Millisecond, 400 * time.Millisecond}).Draw(t, "close")
		return plan
	})
}

// TestInvariant: a producer and a reader of any speeds.
func TestInvariant(t *testing.T) {
	t.Run("R-9.35 R-9.31 R-9.34 delivered and dropped are captured", func(t *testing.T) {
		rapid.Check(t, func(rt *rapid.T) {
			plan := traffics().Draw(rt, "plan")
			var broken error // from the bubble, in which rapid must not be used
			synctest.Test(t, func(t *testing.T) { broken = plan.run(t) })
			if broken != nil {
				rt.Fatal(broken)
			}
		})
	})
}

// run plays the plan and checks what came out of it.
func (plan traffic) run(t *testing.T) error {
	var total stats.Overruns
	b := openBench(t.Context(), t, Selector{Params: params(t, fmt.Sprintf(`{"ring":%d}`, plan.Ring))}, WithOverruns(&total))
	if plan.Close > 0 {
		time.AfterFunc(plan.Close, b.Close)
	}
	captured := make(chan uint64, 1)
	go func() { // ends with its plan; the reader waits for what it captured
		var n uint64
		for i, pause := range plan.Produce {
			time.Sleep(pause)
			if !b.sink.Push(Sample{Data: []byte{byte(i)}, PTS: time.Since(b.started), Lost: plan.Lost[i]}) {
				break
			}
			n += 1 + plan.Lost[i]
		}
		b.sink.Finish()
		captured <- n
	}()

	var delivered, dropped, expected, lastPTS int64
	for i := 0; ; i++ {
		time.Sleep(plan.Read[i%len(plan.Read)])
		it, err := b.Next(t.Context())
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		seq, pts := it.Meta["seq"].(int64), it.Meta["pts_us"].(int64)
		lost, duration := gapOf(it)
		switch {
		case seq != expected+lost:
			return fmt.Errorf("item %d after a gap of %d, want item %d", seq, lost, expected+lost)
		case lost > 0 && duration != pts-lastPTS:
			return fmt.Errorf("item %d: gap of %d µs, want %d", seq, duration, pts-lastPTS)
		case lost == 0 && it.Meta["gap"] != nil:
			return fmt.Errorf("item %d: a gap of nothing", seq)
		}
		expected, lastPTS = seq+1, pts
		delivered++
		dropped += lost
	}
	switch n := int64(<-captured); {
	case delivered+dropped != n:
		return fmt.Errorf("%d delivered and %d dropped are not %d captured", delivered, dropped, n)
	case total.Total() != uint64(dropped) || b.Overruns() != uint64(dropped):
		return fmt.Errorf("overruns are %d of %d, want %d", b.Overruns(), total.Total(), dropped)
	}
	return nil
}

// TestBufferIsTwoQueues holds the buffer against slices.
func TestBufferIsTwoQueues(t *testing.T) {
	t.Run("R-9.30 R-9.32 R-9.33 model", rapid.MakeCheck(func(t *rapid.T) {
		b := buffer{
			mostBytes: maxRingBytes,
			ringItems: rapid.Uint64Range(1, 30).Draw(t, "ring"),
			policy:    rapid.SampledFrom([]OverrunPolicy{DropOldest, DropOldest, Fail}).Draw(t, "policy"),
		}
		var handed, ring []int64
		var captured int64
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				for range rapid.IntRange(1, 12).Draw(t, "items") {
					wantLost, wantOver := uint64(0), false
					switch {
					case len(ring) == 0 && len(handed) < handOver:
						handed = append(handed, captured)
					case uint64(len(ring)) < b.ringItems:
						ring = append(ring, captured)
					case b.policy == Fail:
						wantLost, wantOver, ring = 1, true, nil
					default:
						wantLost, ring = 1, append(ring[1:], captured)
					}
					captured++
					lost, over := b.push(captured1(captured-1), 0)
					require.Equal(t, wantLost, lost)
					require.Equal(t, wantOver, over)
				}
			},
			"pop": func(t *rapid.T) {
				for range rapid.IntRange(1, 12).Draw(t, "items") {
					it, ok := b.pop()
					require.Equal(t, len(handed) > 0, ok)
					if !ok {
						return
					}
					assert.Equal(t, handed[0], it.Meta["seq"])
					assert.Equal(t, []byte{byte(handed[0])}, it.Data)
					handed = handed[1:]
					if len(ring) > 0 {
						handed, ring = append(handed, ring[0]), ring[1:]
					}
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(handed), b.handed.count)
				require.Equal(t, len(ring), b.ring.count)
				require.Equal(t, int64(len(ring))*captured1(0).cost(), b.ringBytes)
				require.LessOrEqual(t, len(b.handed.slots), 2*handOver)
			},
		})
	}))
}

func captured1(n int64) captured { return captured{data: []byte{byte(n)}} }

// TestMetaOfLargeNumbers: the types are those of a decoded meta at the far end too.
func TestMetaOfLargeNumbers(t *testing.T) {
	var b buffer
	meta := b.deliver(captured{seq: 1<<64 - 2, ptsUS: 1 << 63, captureUS: 1<<63 - 1}).Meta
	raw, err := frame.AppendMeta(nil, meta)
	require.NoError(t, err)
	decoded, err := frame.DecodeMeta(raw)
	require.NoError(t, err)
	assert.Equal(t, decoded, meta)
}
