package pools_test

import (
	"testing"

	"github.com/pipe-cartridge/pipe/pools"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// costs are the most places of the line that one operation of each kind has looked at, on a line of n.
func costs(t *testing.T, n int) (admission, refusal, cancel, configure uint64) {
	t.Helper()
	table, running, line := crowd(t, n)
	measure := func(worst *uint64, f func()) {
		before := table.Looks()
		f()
		*worst = max(*worst, table.Looks()-before)
	}
	for i := range 1000 {
		var next *pools.Waiter
		measure(&admission, func() {
			require.True(t, table.Finish(running))
			var ok bool
			next, ok = table.NextUp()
			require.True(t, ok)
		})
		measure(&refusal, func() {
			got, err := table.Arrive(i%crowdPatterns, running)
			require.NoError(t, err)
			require.False(t, got.Admitted)
		})
		running = next
		measure(&configure, func() { require.NoError(t, table.ApplyDesired(pools.Desired{"gpu": 1})) })
		measure(&cancel, func() {
			if w := &line[(i*7919)%n]; table.CancelWaiting(w) {
				_, err := table.Arrive(i%crowdPatterns, w)
				require.NoError(t, err)
			}
		})
	}
	return admission, refusal, cancel, configure
}

func TestCostDoesNotGrowWithTheLine(t *testing.T) {
	t.Run("R-5.12 R-5.13 an operation looks at patterns, not at who waits: 100 000 cost what 1000 do", func(t *testing.T) {
		type cost struct{ admission, refusal, cancel, configure uint64 }
		of := func(n int) (c cost) {
			c.admission, c.refusal, c.cancel, c.configure = costs(t, n)
			return c
		}
		long, short, ten := of(100_000), of(1_000), of(10)
		t.Logf("looks at most: %+v with 100 000 waiting, %+v with 1000, %+v with 10", long, short, ten)
		same := func(c cost) []uint64 { return []uint64{c.admission, c.refusal, c.configure} } // of a cancel it depends on who leaves
		assert.Equal(t, same(short), same(long))
		// Each pattern's place is looked at once to find who goes, and moved once; a search in their order is a logarithm.
		const most = 2*crowdPatterns + 2*5
		for _, c := range []uint64{long.admission, long.refusal, long.cancel, long.configure} {
			assert.LessOrEqual(t, c, uint64(most))
		}
		assert.Positive(t, ten.admission, "looks are counted")
		assert.LessOrEqual(t, ten.admission, uint64(most))
	})
}
