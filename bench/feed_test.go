package bench

import (
	"context"
	"fmt"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/feed"
)

// onDemand is a device that captures a sample whenever it is asked, so that none is lost.
type onDemand struct{ samples chan feed.Sample }

func (d onDemand) Open(context.Context, feed.Selector) (feed.Capture, error) {
	return feed.Capture{Run: func(ctx context.Context, to *feed.Sink) error {
		for {
			select {
			case s := <-d.samples:
				to.Push(s)
			case <-ctx.Done():
				return nil
			}
		}
	}}, nil
}

// One sample from the capture edge to the reader, and the same hand-over by two channels.
func BenchmarkFeed(b *testing.B) {
	for _, size := range []int{64, 3200} {
		b.Run(fmt.Sprintf("feed/size=%d", size), func(b *testing.B) {
			ctx, cancel := context.WithCancel(b.Context())
			device := onDemand{make(chan feed.Sample)}
			f, err := feed.New(ctx, device, feed.Selector{})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				select {
				case device.samples <- feed.Sample{Data: make([]byte, size)}: // the feed takes it over
				case <-f.Done():
					b.Fatal("the feed has ended")
				}
				it, err := f.Next(ctx)
				if err != nil || len(it.Data) != size {
					b.Fatal(len(it.Data), err)
				}
			}
			cancel()
			<-f.Done()
		})
		b.Run(fmt.Sprintf("channels/size=%d", size), func(b *testing.B) {
			ask, answer := make(chan []byte), make(chan []byte, 8)
			go func() { // ends when ask is closed, and closes answer
				defer close(answer)
				for v := range ask {
					answer <- v
				}
			}()
			b.ReportAllocs()
			for b.Loop() {
				ask <- make([]byte, size)
				<-answer
			}
			close(ask)
			<-answer
		})
	}
}
