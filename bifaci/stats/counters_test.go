package stats

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestOverruns(t *testing.T) {
	t.Run("R-11.4 one total and one per feed", func(t *testing.T) {
		var total Overruns
		microphone, synthetic := total.Feed(), total.Feed()
		microphone.Add(3)
		synthetic.Add(1)
		microphone.Add(1)
		assert.EqualValues(t, 4, microphone.Total())
		assert.EqualValues(t, 1, synthetic.Total())
		assert.EqualValues(t, 5, total.Total())
	})
}

func TestConcurrentReading(t *testing.T) {
	t.Run("R-11.7 counters are read while everybody counts", func(t *testing.T) {
		const counters, each = 4, 2_000
		var (
			drops      Drops
			stragglers Stragglers
			overruns   Overruns
			counting   sync.WaitGroup
		)
		for range counters {
			counting.Go(func() {
				feed := overruns.Feed()
				for i := range each {
					drops.Add(Reason(i%reasonCount), uint8(i%16), 1)
					stragglers.Add(uint8(i%16), 1)
					feed.Add(1)
				}
			})
		}
		var lastDrops, lastStragglers uint64
		for lastDrops < counters*each || lastStragglers < counters*each { // ends because nobody waits for the reader
			d, s := drops.Snapshot(), stragglers.Snapshot()
			var byReason, byType uint64
			for _, n := range d.ByReason {
				byReason += n
			}
			for _, n := range s.ByFrameType {
				byType += n
			}
			if d.Total != byReason || s.Total != byType || d.Total < lastDrops || s.Total < lastStragglers {
				t.Errorf("snapshot does not add up or went back: %+v after %d, %+v after %d", d, lastDrops, s, lastStragglers)
				break
			}
			lastDrops, lastStragglers = d.Total, s.Total
		}
		counting.Wait()
		assert.EqualValues(t, counters*each, drops.Total())
		assert.EqualValues(t, counters*each, stragglers.Total())
		assert.EqualValues(t, counters*each, overruns.Total())
	})

	t.Run("R-11.7 counting allocates nothing", func(t *testing.T) {
		var drops Drops
		var stragglers Stragglers
		assert.Zero(t, testing.AllocsPerRun(100, func() {
			drops.Add(NoRoute, 3, 1)
			stragglers.Add(3, 1)
			_ = drops.Total() + stragglers.Total()
		}))
	})
}
