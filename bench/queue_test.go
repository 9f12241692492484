package bench

import (
	"fmt"
	"sync"
	"testing"

	"github.com/pipe-cartridge/pipe/stream"
)

// One goroutine hands items to another; an operation is one item.
func BenchmarkHandOff(b *testing.B) {
	for _, runLength := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("queue/run=%d", runLength), func(b *testing.B) {
			q := stream.NewQueue[int](1024, 0, nil)
			ctx := b.Context()
			var wg sync.WaitGroup
			wg.Go(func() {
				var buf []int
				var err error
				for err == nil {
					buf, err = q.TakeAll(ctx, buf)
				}
			})
			run := make([]int, runLength)
			b.ReportAllocs()
			b.ResetTimer()
			for n := 0; n < b.N; n += runLength {
				_ = q.Put(ctx, run...)
			}
			q.Close(nil)
			wg.Wait()
		})
	}
	for _, size := range []int{0, 1024} {
		b.Run(fmt.Sprintf("channel/buffer=%d", size), func(b *testing.B) {
			c := make(chan int, size)
			ctx := b.Context()
			var wg sync.WaitGroup
			sum := 0
			wg.Go(func() {
				for v := range c {
					sum += v
				}
			})
			b.ReportAllocs()
			b.ResetTimer()
			for range b.N {
				select {
				case c <- 1:
				case <-ctx.Done():
				}
			}
			close(c)
			wg.Wait()
			if sum != b.N {
				b.Fatal("lost items")
			}
		})
	}
}
