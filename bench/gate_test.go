package bench

import (
	"math"
	"testing"

	"github.com/pipe-cartridge/pipe/credit"
)

func BenchmarkGate(b *testing.B) {
	b.Run("acquire", func(b *testing.B) {
		g := credit.NewGate(math.MaxUint64)
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			if err := g.Acquire(ctx, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("grant and acquire", func(b *testing.B) {
		g := credit.NewGate(0)
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			g.Grant(1)
			if err := g.Acquire(ctx, 1); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("ping-pong between two goroutines", func(b *testing.B) {
		there, back := credit.NewGate(0), credit.NewGate(0)
		ctx := b.Context()
		done := make(chan struct{})
		go func() {
			defer close(done)
			for there.Acquire(ctx, 1) == nil {
				back.Grant(1)
			}
		}()
		b.ReportAllocs()
		for b.Loop() {
			there.Grant(1)
			_ = back.Acquire(ctx, 1)
		}
		there.Close(nil)
		<-done
	})
	// A channel of tokens is what a gate would be without grants of many and without an end.
	b.Run("channel of tokens", func(b *testing.B) {
		tokens := make(chan struct{}, 32)
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			tokens <- struct{}{}
			select {
			case <-tokens:
			case <-ctx.Done():
				b.Fatal(ctx.Err())
			}
		}
	})
}
