package stream_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/stream"
)

// F2: three items and then the end, at once: exactly one final group, every time, and nobody waits for the period.
func TestF2_ClosingEarlyKeepsTheLastGroup(t *testing.T) {
	const runs = 2000
	for name, stage := range map[string]func() stream.Stage[int, []int]{
		"F2 batch by count":            func() stream.Stage[int, []int] { return stream.Batch[int](10, 0) },
		"F2 batch by count and time":   func() stream.Stage[int, []int] { return stream.Batch[int](10, time.Hour) },
		"F2 batch by time":             func() stream.Stage[int, []int] { return stream.Batch[int](0, time.Hour) },
		"F2 batch without a limit":     func() stream.Stage[int, []int] { return stream.Batch[int](0, 0) },
		"F2 tumbling window":           func() stream.Stage[int, []int] { return stream.Tumbling[int](time.Hour, 0) },
		"F2 tumbling window, bounded":  func() stream.Stage[int, []int] { return stream.Tumbling[int](time.Hour, 10) },
		"F2 session window":            func() stream.Stage[int, []int] { return stream.Session[int](time.Hour, 0) },
		"F2 session window, bounded":   func() stream.Stage[int, []int] { return stream.Session[int](time.Hour, 10) },
		"F2 session window, exact fit": func() stream.Stage[int, []int] { return stream.Session[int](time.Hour, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			for run := range runs {
				in, out := weightless(1+run%4), stream.NewQueue[[]int](4, 0, nil)
				done := make(chan error, 1)
				go func() { done <- stream.Run(t.Context(), stage(), in, out) }()
				for v := range 3 {
					require.NoError(t, in.Put(t.Context(), v))
				}
				in.Close(nil)
				require.NoError(t, <-done)
				groups, err := out.TakeAll(t.Context(), nil)
				require.NoError(t, err)
				require.Equal(t, [][]int{{0, 1, 2}}, groups, "run %d", run)
			}
			require.Less(t, time.Since(begin), time.Hour, "waited for the period")
		})
	}
}

// event is what a test puts in at a time, and group what it wants out at a time, both since the beginning.
type event struct {
	at    time.Duration
	value int
}

type group struct {
	At     time.Duration
	Values []int
}

// groups plays events to a stage in virtual time; the input ends at the given time.
func groups(t *testing.T, stage stream.Stage[int, []int], end time.Duration, events ...event) (all []group) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		p := stream.NewPipeline(t.Context())
		s := stream.FromSeq(p, "events", func(yield func(int, error) bool) {
			for _, e := range events {
				time.Sleep(e.at - time.Since(begin))
				if !yield(e.value, nil) {
					return
				}
			}
			time.Sleep(end - time.Since(begin))
		})
		for g, err := range stream.Then(s, "groups", stage).All() {
			require.NoError(t, err)
			all = append(all, group{time.Since(begin), g})
		}
		require.NoError(t, p.Wait())
	})
	return all
}

const ms = time.Millisecond

func TestBatchByTime(t *testing.T) {
	got := groups(t, stream.Batch[int](3, 100*ms), 500*ms,
		event{10 * ms, 1}, event{20 * ms, 2}, event{30 * ms, 3}, // full
		event{40 * ms, 4}, event{139 * ms, 5}, // the period counts from the first
		event{300 * ms, 6}, event{450 * ms, 7})
	require.Equal(t, []group{{30 * ms, []int{1, 2, 3}}, {140 * ms, []int{4, 5}}, {400 * ms, []int{6}}, {500 * ms, []int{7}}}, got)
}

func TestTumblingWindow(t *testing.T) {
	got := groups(t, stream.Tumbling[int](100*ms, 3), 560*ms,
		event{50 * ms, 1}, event{60 * ms, 2}, // the grid begins at 50
		event{160 * ms, 3},
		event{370 * ms, 4},                                                             // windows 250–350 were empty
		event{460 * ms, 5}, event{461 * ms, 6}, event{462 * ms, 7}, event{463 * ms, 8}, // full before its time
	)
	require.Equal(t, []group{{150 * ms, []int{1, 2}}, {250 * ms, []int{3}}, {450 * ms, []int{4}}, {462 * ms, []int{5, 6, 7}},
		{550 * ms, []int{8}}}, got)
}

func TestSessionWindow(t *testing.T) {
	got := groups(t, stream.Session[int](100*ms, 4), 900*ms,
		event{0, 1}, event{99 * ms, 2}, event{198 * ms, 3}, // never a gap
		event{400 * ms, 4}, event{401 * ms, 5}, event{402 * ms, 6}, event{403 * ms, 7}, event{404 * ms, 8}, // full
		event{850 * ms, 9})
	require.Equal(t, []group{{298 * ms, []int{1, 2, 3}}, {403 * ms, []int{4, 5, 6, 7}}, {504 * ms, []int{8}}, {900 * ms, []int{9}}}, got)
}

// A stage that never waits, because there is always input, still keeps its periods.
func TestBusyStagesLookAtTheClock(t *testing.T) {
	for name, stage := range map[string]stream.Stage[int, []int]{
		"batch":    stream.Batch[int](0, 100*ms),
		"tumbling": stream.Tumbling[int](100*ms, 0),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var sizes []int
				for v := range 100 {
					time.Sleep(10 * ms)
					require.NoError(t, stage.Step(v, func(g []int) error {
						sizes = append(sizes, len(g))
						return nil
					}))
				}
				require.GreaterOrEqual(t, len(sizes), 8)
				for _, n := range sizes {
					require.InDelta(t, 10, n, 1)
				}
			})
		})
	}
}

// F3: a group is the receiver's; the next one is another slice.
func TestF3_GroupsAreNotTouchedAgain(t *testing.T) {
	for _, stage := range []stream.Stage[int, []int]{stream.Batch[int](5, time.Hour), stream.Tumbling[int](time.Hour, 5), stream.Session[int](time.Hour, 5)} {
		p := stream.NewPipeline(t.Context())
		all, err := collect(stream.Then(stream.FromSeq(p, "numbers", count(5000)), "groups", stage))
		require.NoError(t, err)
		require.NoError(t, p.Wait())
		require.Len(t, all, 1000)
		for i, g := range all {
			require.Equal(t, []int{5 * i, 5*i + 1, 5*i + 2, 5*i + 3, 5*i + 4}, g)
		}
	}
}

// F1: a stage that waits for its period ends with its context.
func TestF1_AWaitingWindowIsReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		in, out := weightless(4), stream.NewQueue[[]int](4, 0, nil)
		done := later(func() error { return stream.Run(ctx, stream.Session[int](time.Hour, 0), in, out) })
		require.NoError(t, in.Put(t.Context(), 1))
		synctest.Wait()
		cancel(errBoom)
		require.Equal(t, errBoom, <-done)
		require.Equal(t, errBoom, out.Err())
		require.Equal(t, errBoom, in.Err())
	})
}
