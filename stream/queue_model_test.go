package stream_test

import (
	"context"
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// One goroutine, random calls, a plain slice beside it: what may not wait is compared exactly.
func TestQueueBehavesLikeASlice(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		maxItems := rapid.IntRange(1, 6).Draw(t, "max items")
		maxWeight := rapid.Int64Range(1, 20).Draw(t, "max weight")
		q := byValue(maxItems, maxWeight)
		var (
			model []int
			end   error
			buf   []int
		)
		weight := func() (sum int64) {
			for _, v := range model {
				sum += int64(v)
			}
			return sum
		}
		t.Repeat(map[string]func(*rapid.T){
			"put": func(t *rapid.T) {
				v := rapid.IntRange(0, 25).Draw(t, "item")
				fits := end == nil && len(model) < maxItems && (len(model) == 0 || weight()+int64(v) <= maxWeight)
				require.Equal(t, fits, q.TryPut(v))
				if fits {
					model = append(model, v)
				}
			},
			"take": func(t *rapid.T) {
				var ok bool
				buf, ok = q.TryTakeAll(buf)
				require.Equal(t, len(model) > 0, ok)
				require.Equal(t, len(model), len(buf))
				for i, v := range model {
					require.Equal(t, v, buf[i])
				}
				model = model[:0]
			},
			"close": func(t *rapid.T) {
				err := rapid.SampledFrom([]error{io.EOF, errBoom}).Draw(t, "end")
				q.Close(err)
				if end == nil {
					end = err
				}
			},
			"fail": func(t *rapid.T) {
				if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
					return
				}
				require.Len(t, q.Fail(errBoom), len(model))
				if end == nil || len(model) > 0 {
					end = errBoom
				}
				model = model[:0]
			},
			"": func(t *rapid.T) {
				require.Equal(t, len(model), q.Len())
				require.Equal(t, weight(), q.Weight())
				require.Equal(t, end, q.Err())
			},
		})
	})
}

// Many goroutines put runs, take, lose their contexts; in the end everything that was put has been taken, once, and
// each putter's items in order and its runs in one piece. A lost wake-up shows as a test that does not end.
func TestQueueF11ManyGoroutines(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const putters, takers = 5, 3
		q := weightless(rapid.IntRange(1, 9).Draw(t, "max items"))
		runs := rapid.IntRange(1, 40).Draw(t, "runs")
		runLength := rapid.IntRange(1, 12).Draw(t, "run length")
		leaveEvery := rapid.IntRange(2, 7).Draw(t, "leave every")
		fails := rapid.Bool().Draw(t, "fails in the middle")

		var putting, taking sync.WaitGroup
		var lost atomic.Int64 // items of runs whose context ended half-way
		for p := range putters {
			putting.Go(func() {
				next := p << 32
				for i := range runs {
					run := make([]int, runLength)
					for k := range run {
						run[k] = next + k
					}
					next += runLength
					ctx, cancel := context.WithCancelCause(context.Background())
					if i%leaveEvery == 1 {
						go cancel(errBoom)
					}
					if q.Put(ctx, run...) != nil {
						lost.Add(1)
					}
					cancel(nil)
				}
			})
		}
		taken := make([][]int, takers)
		ends := make([]error, takers)
		for k := range takers {
			taking.Go(func() {
				var buf []int
				for round := 1; ; round++ {
					ctx, cancel := context.WithCancelCause(context.Background())
					if round%leaveEvery == 1 {
						go cancel(errBoom)
					}
					var err error
					buf, err = q.TakeAll(ctx, buf)
					cancel(nil)
					taken[k] = append(taken[k], buf...)
					if err != nil && err != errBoom { // not only our own context
						ends[k] = err
						return
					}
				}
			})
		}
		discarded := 0
		if fails {
			discarded = len(q.Fail(io.ErrUnexpectedEOF))
		}
		putting.Wait()
		q.Close(nil)
		taking.Wait()

		seen := make(map[int]bool)
		for k := range takers {
			last := map[int]int{}
			for _, v := range taken[k] {
				require.False(t, seen[v], "item %x twice", v)
				seen[v] = true
				require.Greater(t, v+1, last[v>>32], "order of putter %d", v>>32)
				last[v>>32] = v + 1
			}
			want := io.EOF
			if fails {
				want = io.ErrUnexpectedEOF
			}
			require.Equal(t, want, ends[k])
		}
		total := putters * runs * runLength
		require.LessOrEqual(t, len(seen)+discarded, total)
		if !fails {
			require.GreaterOrEqual(t, len(seen), total-int(lost.Load())*runLength)
		}
	})
}

// However small the queue is, a run that has to wait is not mixed with another one.
func TestQueueKeepsARunTogether(t *testing.T) {
	q := weightless(3)
	var putting sync.WaitGroup
	const putters, runs, runLength = 4, 200, 7
	for p := range putters {
		putting.Go(func() {
			for i := range runs {
				run := make([]int, runLength)
				for k := range run {
					run[k] = p<<32 + i*runLength + k
				}
				if q.Put(context.Background(), run...) != nil {
					return
				}
			}
		})
	}
	go func() {
		putting.Wait()
		q.Close(nil)
	}()
	var all, buf []int
	var err error
	for {
		if buf, err = q.TakeAll(t.Context(), buf); err != nil {
			break
		}
		all = append(all, buf...)
	}
	require.Equal(t, io.EOF, err)
	require.Len(t, all, putters*runs*runLength)
	next := [putters]int{}
	for i, v := range all {
		p, n := v>>32, v&(1<<32-1)
		require.Equal(t, next[p], n)
		next[p]++
		if n%runLength > 0 {
			require.Equal(t, all[i-1], v-1, "a run was cut by another")
		}
	}
}
