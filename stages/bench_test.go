package stages

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// nowhere is an output that costs nothing, with and without a system call for several buffers.
type nowhere struct{}

func (nowhere) Write(p []byte) (int, error) { return len(p), nil }

func (nowhere) WriteBuffers(bufs [][]byte) (n int64, err error) {
	for _, b := range bufs {
		n += int64(len(b))
	}
	return n, nil
}

// benchLink is a link whose writer runs until the benchmark ends.
func benchLink(b *testing.B, credit uint64) *Link {
	link := &Link{Pool: new(Pool), Limits: frame.DefaultLimits()}
	link.Limits.InitialCredit = credit
	link.Lanes = NewLanes(nowhere{}, link.Limits.MaxFrame, nil)
	done := make(chan error, 1)
	go func() { done <- link.Lanes.Run(func(err error) error { return err }) }()
	b.Cleanup(func() {
		link.Lanes.Close()
		if err := <-done; err != nil {
			b.Error(err)
		}
		link.Close()
	})
	return link
}

// From a value to its bytes in the lane, beside a writer that takes them away.
func BenchmarkEmitItem(b *testing.B) {
	for _, size := range []int{32, 1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			link := benchLink(b, 1<<62)
			flow := NewFlow(frame.NewUUID(), frame.NewUUID())
			var s Sender
			s.Init(link, flow, []byte("8e3bb1a8-1111-4222-8333-123456789abc"), []byte("media:bytes"), nil)
			ctx, item := context.Background(), make([]byte, size)
			var v any = item
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := s.EmitItem(ctx, v, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// faulty fails a benchmark whose data is refused.
type faulty struct{ *testing.B }

func (b faulty) Fault(f *failure.Failure) { b.Error(f) }

// One CHUNK from the reader's hands into the stream and out again, with its grants.
func BenchmarkRouteChunk(b *testing.B) {
	for _, sequence := range []bool{false, true} {
		for _, size := range []int{32, 4 << 10, 64 << 10} {
			b.Run(fmt.Sprintf("sequence=%t/size=%d", sequence, size), func(b *testing.B) {
				link := benchLink(b, 32)
				var r Receiver
				r.Init(link, NewFlow(frame.NewUUID(), frame.NewUUID()), frame.CreditRequest, faulty{b})
				var start frame.Frame
				start.Reset(frame.TypeStreamStart, frame.ID{})
				start.StreamID, start.MediaURN, start.IsSequence = []byte("8e3bb1a8-1111-4222-8333-123456789abc"), []byte("media:bytes"), sequence
				start.Has = start.Has.With(frame.KeyStreamID).With(frame.KeyMediaURN).With(frame.KeyIsSequence)
				if fault := r.Start(&start); fault != nil {
					b.Fatal(fault)
				}
				ctx := context.Background()
				in, err := r.Stream(ctx, 0)
				if err != nil {
					b.Fatal(err)
				}
				enc := append(frame.AppendBytesHead(nil, size), make([]byte, size)...)
				var f frame.Frame
				f.Reset(frame.TypeChunk, frame.ID{})
				f.StreamID, f.Payload, f.Checksum = start.StreamID, enc, frame.Checksum(enc)
				f.Has = f.Has.With(frame.KeyStreamID).With(frame.KeyPayload).With(frame.KeyChunkIndex).With(frame.KeyChecksum)
				b.ReportAllocs()
				b.SetBytes(int64(size))
				for b.Loop() {
					if _, fault := r.Chunk(&f, nil); fault != nil {
						b.Fatal(fault)
					}
					f.ChunkIndex++
					if _, err := in.Next(ctx); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// A verified chunk sent on as it came.
func BenchmarkForward(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10} {
		b.Run(fmt.Sprintf("size=%d", size), func(b *testing.B) {
			link := benchLink(b, 1<<62)
			var s Sender
			s.Init(link, NewFlow(frame.NewUUID(), frame.NewUUID()), []byte("8e3bb1a8-1111-4222-8333-123456789abc"), []byte("media:bytes"), nil)
			enc := append(frame.AppendBytesHead(nil, size), make([]byte, size)...)
			p := Piece{enc: enc, sum: frame.Checksum(enc), first: true, last: true}
			ctx := context.Background()
			b.ReportAllocs()
			b.SetBytes(int64(size))
			for b.Loop() {
				if err := s.Forward(ctx, p); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// Many requests that append to one lane at the same time.
func BenchmarkLanes(b *testing.B) {
	for _, senders := range []int{1, 4, 64} {
		b.Run(fmt.Sprintf("senders=%d", senders), func(b *testing.B) {
			link := benchLink(b, 1<<62)
			payload := make([]byte, 256)
			var work sync.WaitGroup
			perSender := make(chan struct{}, 1024)
			for range senders {
				work.Go(func() {
					flow := NewFlow(frame.NewUUID(), frame.ID{})
					for range perSender {
						for range 64 {
							batch, err := link.Lanes.Begin(context.Background(), nil)
							if err != nil {
								b.Error(err)
								return
							}
							f := batch.Frame(frame.TypeChunk)
							f.Payload = payload
							f.Has = f.Has.With(frame.KeyPayload).With(frame.KeyChunkIndex).With(frame.KeyChecksum)
							if err := batch.Put(flow, f, nil); err != nil {
								b.Error(err)
							}
							batch.End()
						}
					}
				})
			}
			b.ReportAllocs()
			for b.Loop() {
				perSender <- struct{}{}
			}
			close(perSender)
			work.Wait()
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(64*b.N), "ns/frame")
		})
	}
}
