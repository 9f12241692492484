package pools_test

import (
	"fmt"
	"testing"

	"github.com/pipe-cartridge/pipe/pools"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// unlimited is a table whose pools never say no.
func unlimited(tb testing.TB) *pools.Table {
	table, err := pools.NewTable(twoCaps, pools.Declarations{Pools: map[string][]string{"gpu": twoCaps}})
	require.NoError(tb, err)
	return table
}

// crowdPatterns is how many patterns a crowd waits for.
const crowdPatterns = 20

// crowd is a table with one request running, n waiting for its slot, spread over the patterns.
func crowd(tb testing.TB, n int) (table *pools.Table, running *pools.Waiter, line []pools.Waiter) {
	var patterns []string
	for i := range crowdPatterns {
		patterns = append(patterns, fmt.Sprintf("cap:%02d", i))
	}
	table, err := pools.NewTable(patterns, pools.Declarations{
		Pools: map[string][]string{"gpu": patterns}, Capacities: map[string]uint64{"gpu": 1},
	})
	require.NoError(tb, err)
	running = &pools.Waiter{}
	_, err = table.Arrive(0, running)
	require.NoError(tb, err)
	line = make([]pools.Waiter, n)
	for i := range line {
		_, err := table.Arrive(i%crowdPatterns, &line[i])
		require.NoError(tb, err)
	}
	return table, running, line
}

func TestNothingIsAllocatedPerRequest(t *testing.T) {
	t.Run("unlimited", func(t *testing.T) {
		table := unlimited(t)
		var w pools.Waiter
		assert.Zero(t, testing.AllocsPerRun(1000, func() {
			_, _ = table.Arrive(0, &w)
			table.Finish(&w)
		}))
	})
	t.Run("through the line", func(t *testing.T) {
		table, running, _ := crowd(t, 1000)
		assert.Zero(t, testing.AllocsPerRun(1000, func() {
			table.Finish(running)
			next, _ := table.NextUp()
			_, _ = table.Arrive(7, running)
			running = next
		}))
	})
}

// BenchmarkUnlimited is one arrival and its end where no pool has a bound.
func BenchmarkUnlimited(b *testing.B) {
	table := unlimited(b)
	var w pools.Waiter
	b.ReportAllocs()
	for b.Loop() {
		_, _ = table.Arrive(0, &w)
		table.Finish(&w)
	}
}

// BenchmarkThroughTheLine is one end, the admission that follows, and an arrival at the back of a line of constant length.
func BenchmarkThroughTheLine(b *testing.B) {
	for _, n := range []int{10, 1_000, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			table, running, _ := crowd(b, n)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				table.Finish(running)
				next, _ := table.NextUp()
				_, _ = table.Arrive(i%crowdPatterns, running)
				running = next
				i++
			}
		})
	}
}

// BenchmarkCancelWaiting takes one out of the middle of the line and puts it last.
func BenchmarkCancelWaiting(b *testing.B) {
	for _, n := range []int{10, 1_000, 100_000} {
		b.Run(fmt.Sprintf("waiting=%d", n), func(b *testing.B) {
			table, _, line := crowd(b, n)
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				w := &line[(i*7919)%n]
				table.CancelWaiting(w)
				_, _ = table.Arrive(i%crowdPatterns, w)
				i++
			}
		})
	}
}
