package bench

import (
	"fmt"
	"testing"

	"github.com/pipe-cartridge/pipe/pools"
)

// One admission and its end, by how many shared pools the cartridge has; a channel of slots is what one pool would be without a line,
// without limits that change and without the rule that a request takes all its slots at once.
func BenchmarkAdmission(b *testing.B) {
	for _, n := range []int{1, 10, 200} {
		b.Run(fmt.Sprintf("pools=%d", n), func(b *testing.B) {
			d := pools.Declarations{Pools: map[string][]string{}, Capacities: map[string]uint64{}}
			patterns := make([]string, n)
			for i := range n {
				patterns[i] = fmt.Sprintf("cap:%03d", i)
				pool := fmt.Sprintf("pool-%03d", i)
				d.Pools[pool], d.Capacities[pool] = patterns[i:i+1], 2
			}
			table, err := pools.NewTable(patterns, d)
			if err != nil {
				b.Fatal(err)
			}
			var w pools.Waiter
			i := 0
			b.ReportAllocs()
			for b.Loop() {
				if _, err := table.Arrive(i%n, &w); err != nil {
					b.Fatal(err)
				}
				if !table.Finish(&w) {
					b.Fatal("it was not running")
				}
				i++
			}
		})
	}
	b.Run("channel of slots", func(b *testing.B) {
		slots := make(chan struct{}, 2)
		b.ReportAllocs()
		for b.Loop() {
			slots <- struct{}{}
			<-slots
		}
	})
}
