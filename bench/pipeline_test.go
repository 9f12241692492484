package bench

import (
	"context"
	"iter"
	"testing"

	"github.com/reugn/go-streams/extension"
	"github.com/reugn/go-streams/flow"

	"github.com/pipe-cartridge/pipe/stream"
)

// Six stages that do nothing, so that what is measured is what lies between them; an operation is one item.
func BenchmarkSixStages(b *testing.B) {
	const stages = 6
	b.Run("one at a time", func(b *testing.B) { benchmarkStages(b, stages, 1) })
	b.Run("batched", func(b *testing.B) { benchmarkStages(b, stages, 256) })
	b.Run("bare channels", func(b *testing.B) {
		c := make(chan int)
		source := c
		for range stages {
			next := make(chan int)
			go func(in <-chan int, out chan<- int) {
				defer close(out)
				for v := range in {
					out <- v
				}
			}(c, next)
			c = next
		}
		b.ReportAllocs()
		b.ResetTimer()
		go func() {
			defer close(source)
			for v := range b.N {
				source <- v
			}
		}()
		n := 0
		for range c {
			n++
		}
		if n != b.N {
			b.Fatal("lost items")
		}
	})
	b.Run("go-streams", func(b *testing.B) {
		source, sink := make(chan any), make(chan any)
		last := extension.NewChanSource(source).Via(flow.NewMap(func(v int) int { return v }, 1))
		for range stages - 1 {
			last = last.Via(flow.NewMap(func(v int) int { return v }, 1))
		}
		b.ReportAllocs()
		b.ResetTimer()
		go func() {
			defer close(source)
			for v := range b.N {
				source <- v
			}
		}()
		go last.To(extension.NewChanSink(sink))
		n := 0
		for range sink {
			n++
		}
		if n != b.N {
			b.Fatal("lost items")
		}
	})
}

func benchmarkStages(b *testing.B, stages, queueItems int) {
	p := stream.NewPipeline(b.Context(), stream.WithQueueItems(queueItems))
	b.ReportAllocs()
	b.ResetTimer()
	s := stream.FromSeq(p, "numbers", count(b.N))
	for range stages {
		s = stream.Then(s, "same", stream.Map(same))
	}
	n := 0
	err := stream.Each(s, func(context.Context, int) error {
		n++
		return nil
	})
	if err != nil || p.Wait() != nil || n != b.N {
		b.Fatal("lost items", err)
	}
}

// count gives the first n numbers.
func count(n int) iter.Seq2[int, error] {
	return func(yield func(int, error) bool) {
		for v := range n {
			if !yield(v, nil) {
				return
			}
		}
	}
}

func same(v int) (int, error) { return v, nil }
