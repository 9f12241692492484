package bifaci

import (
	"context"
	"errors"

	"github.com/reugn/go-streams"

	"github.com/pipe-cartridge/pipe/stream"
)

// Source is the items of one named argument, as [Request.Input] finds it, as a go-streams source of [Item] values. Together with
// [Request.Sink] it makes a handler of a go-streams topology:
//
//	req.Source("media:audio-frames;pcm").Via(flow.NewMap(decode, 1)).To(req.Sink())
//	return nil
//
// The topology belongs to the request: it is stopped and waited for when the handler returns, an error of the source or of the
// sink ends it and fails the request, and when the request ends it is stopped. Back-pressure reaches the sender as credit. Foreign
// flows that never end cost their goroutines; see package stream. A handler that reads an outlet by itself and leaves early calls
// Stop of the source and [stream.Drain], as a foreign flow can leave its send in no other way.
func (r *Request) Source(mediaURN string) *stream.Source[Item] {
	p := r.pipeline()
	var in *InputStream
	items := stream.FromFunc(p, "argument "+mediaURN, func(ctx context.Context) (Item, error) {
		if in == nil {
			var err error
			if in, err = r.Input(ctx, mediaURN); err != nil {
				return Item{}, err
			}
		}
		return in.Next(ctx)
	})
	return stream.ToSource(items, "argument "+mediaURN)
}

// Sink is the request's output as a go-streams sink. An [Item] goes on as the value it has, anything else as a CBOR value: as
// an item of a sequence, unless the output was started as a scalar stream. AwaitCompletion, and so To of a flow, returns when
// everything was emitted, or the topology was stopped.
func (r *Request) Sink() streams.Sink {
	p := r.pipeline()
	inlet, values := stream.FromSink[any](p, "output")
	s := &outputInlet{InletSink: inlet, done: make(chan struct{})}
	p.Go("output", func(ctx context.Context) error {
		defer close(s.done)
		return stream.Each(values, func(ctx context.Context, v any) error { return r.emit(ctx, v) })
	})
	return s
}

// outputInlet waits for what it took to be emitted.
type outputInlet struct {
	*stream.InletSink
	done chan struct{}
}

// AwaitCompletion waits until everything was emitted, or the topology was stopped.
func (s *outputInlet) AwaitCompletion() { <-s.done }

func (r *Request) emit(ctx context.Context, v any) error {
	if it, ok := v.(Item); ok {
		value, err := it.Value()
		if err != nil {
			return err
		}
		v = value
	}
	err := r.out.EmitItem(ctx, v, nil)
	if errors.Is(err, ErrStreamMode) {
		return r.out.EmitCBOR(ctx, v)
	}
	return err
}

// pipeline is the request's topology, made by the first source or sink.
func (r *Request) pipeline() *stream.Pipeline {
	g := &r.group
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.topology == nil {
		g.topology = stream.NewPipeline(r.ctx)
	}
	return g.topology
}

// endTopology stops the request's topology when its handler has returned, waits for it, and gives its error.
func (r *Request) endTopology(result error) error {
	g := &r.group
	g.mu.Lock()
	p := g.topology
	g.mu.Unlock()
	if p == nil {
		return result
	}
	p.Stop()
	if err := p.Wait(); result == nil && err != nil && !errors.Is(err, stream.ErrStopped) {
		var stage *stream.StageError
		if errors.As(err, &stage) {
			err = stage.Err
		}
		return err
	}
	return result
}
