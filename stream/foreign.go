package stream

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"github.com/reugn/go-streams"
)

// ForeignOption tells an adapter about the go-streams topology it is connected to.
type ForeignOption func(*foreign)

// WithStop names the function that ends the foreign source, for instance the cancel function of the context it was made
// with. The adapter calls it once, when its stream is stopped before the foreign end; it must not block.
func WithStop(stop func()) ForeignOption { return func(f *foreign) { f.stop = stop } }

// WithGrace sets how long the adapter reads on for a foreign topology that was stopped and has not ended; the default is
// Grace.
func WithGrace(d time.Duration) ForeignOption { return func(f *foreign) { f.grace = d } }

// foreign is what an adapter knows about the other side.
type foreign struct {
	stop  func()
	grace time.Duration
}

func newForeign(opts []ForeignOption) foreign {
	f := foreign{stop: func() {}, grace: Grace}
	for _, opt := range opts {
		opt(&f)
	}
	return f
}

// FromSource makes what comes out of a go-streams source, or out of a flow behind one, a stream of the pipeline. An
// element that is not a T ends the pipeline with an error. The foreign end is a clean end: go-streams has no other.
//
// When the stream is stopped early, the foreign source is stopped if WithStop says how, and what still comes is read and
// thrown away until the outlet is closed, since a foreign stage can only leave its send that way; the pipeline waits for
// that. A source that has not ended within the grace time keeps its goroutines, blocked in a send or in whatever it waits
// for, and whatever those hold: stop sources that are endless.
func FromSource[T any](p *Pipeline, name string, outlet streams.Outlet, opts ...ForeignOption) *Stream[T] {
	return fromOutlet[T](p, name, outlet.Out(), newForeign(opts))
}

func fromOutlet[T any](p *Pipeline, name string, outlet <-chan any, f foreign) *Stream[T] {
	return produce(p, name, func(ctx context.Context, out *Queue[T]) error {
		err := receive(ctx, name, outlet, out)
		if err != nil {
			out.Close(err) // the consumer need not wait while we read on
			f.stop()
			drain(outlet, f.grace)
		}
		return err
	})
}

// ToSource makes a stream a go-streams source. Elements go out one by one on an unbuffered channel; it is closed at the
// end of the stream, after an error as well as after a clean end, since a foreign stage cannot tell them apart: ask
// Pipeline.Wait.
//
// When the foreign side stops reading, nothing tells the pipeline: call Stop of the source, or stop the pipeline. What
// then still waits in the foreign topology is released by reading its end until it is closed; see Drain.
func ToSource[T any](s *Stream[T], name string) *Source[T] {
	// The context outlives a clean end of the source, or Via would lose the last element; the pipeline ends it.
	ctx, stop := context.WithCancelCause(s.pipeline.ctx)
	source := &Source[T]{stream: s, ctx: ctx, stop: stop, name: name, out: make(chan any)}
	atEnd(s, name, func(_ context.Context, in *Queue[T]) error {
		return send(ctx, in, source.out)
	})
	return source
}

// Source is a stream as a streams.Source.
type Source[T any] struct {
	stream *Stream[T]
	ctx    context.Context // of the source; ends before that of its pipeline if Stop is called
	stop   context.CancelCauseFunc
	name   string
	out    chan any
}

var _ streams.Source = (*Source[any])(nil)

// Out returns the channel of the elements. It is closed at the end.
func (s *Source[T]) Out() <-chan any { return s.out }

// Via lets the elements run into a flow and returns the flow. It does not block; the goroutine belongs to the pipeline
// and ends with the source even if the flow takes nothing any more.
func (s *Source[T]) Via(flow streams.Flow) streams.Flow {
	s.stream.pipeline.start(s.ctx, s.name+" via", func(ctx context.Context) error {
		in := flow.In()
		defer close(in)
		for v := range s.out { // closed when the context has ended
			select {
			case in <- v:
			case <-ctx.Done():
			}
		}
		return nil
	}, func(error) {})
	return flow
}

// Stop ends the source, and everything in front of it, without an error. It does not wait; the pipeline does.
func (s *Source[T]) Stop() { s.stop(ErrStopped) }

// Via lets a stream run through a go-streams flow, or through several, one behind the other, which it connects. Ends and
// errors of the stream arrive behind the flows as they were.
//
// When either side stops early, the flows get the end of their input, and what is in them is read and thrown away, for no
// longer than Grace. Flows that end by themselves end the stream cleanly.
func Via[I, O any](s *Stream[I], name string, flow streams.Flow, more ...streams.Flow) *Stream[O] {
	last := flow
	for _, next := range more {
		last = last.Via(next)
	}
	return behind(s, name, func(ctx context.Context, in *Queue[I], out *Queue[O]) error {
		feeding, stopFeeding := context.WithCancelCause(ctx)
		defer stopFeeding(nil)
		fed := background(func() error { return send(feeding, in, flow.In()) })
		err := receive(ctx, name, last.Out(), out)
		if err != nil {
			out.Close(err)
			stopFeeding(err)
			drain(last.Out(), Grace)
			<-fed // it sees its context
			return err
		}
		stopFeeding(ErrStopped) // if the flows ended by themselves
		if err := <-fed; err != ErrStopped {
			return err // if there is one, what came out was cut off
		}
		return nil
	})
}

// ToSink lets a stream run into a go-streams sink, closes it at the end and waits until it has completed. A sink that has
// not completed within the grace time after the stream was stopped costs its goroutine.
func ToSink[T any](s *Stream[T], name string, sink streams.Sink, opts ...ForeignOption) {
	f := newForeign(opts)
	atEnd(s, name, func(ctx context.Context, in *Queue[T]) error {
		err := send(ctx, in, sink.In())
		completed := background(func() error {
			sink.AwaitCompletion()
			return nil
		})
		if err == nil { // a clean end: all the time the sink wants, unless the pipeline ends
			select {
			case err := <-completed:
				return err
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		timer := time.NewTimer(f.grace)
		defer timer.Stop()
		select {
		case <-completed:
		case <-timer.C:
		}
		return err
	})
}

// FromSink returns a go-streams sink and the stream of what runs into it. The inlet must be closed by the foreign side,
// as the flows of go-streams do. When the stream is stopped early, the sink goes on taking, as FromSource does.
func FromSink[T any](p *Pipeline, name string, opts ...ForeignOption) (*InletSink, *Stream[T]) {
	in := make(chan any)
	s := fromOutlet[T](p, name, in, newForeign(opts))
	return &InletSink{in: in, done: s.done}, s
}

// InletSink is the entrance to a stream as a streams.Sink.
type InletSink struct {
	in   chan any
	done <-chan struct{}
}

var _ streams.Sink = (*InletSink)(nil)

// In returns the channel that takes the elements. The foreign side closes it.
func (s *InletSink) In() chan<- any { return s.in }

// AwaitCompletion waits until all elements have been handed to the stream, or the stream has been stopped.
func (s *InletSink) AwaitCompletion() { <-s.done }

// Drain reads an outlet until it is closed and throws away what comes, for code that ranges over a go-streams outlet and
// leaves early. It gives up after d, if d is positive, and reports whether the outlet was closed. It blocks.
func Drain(outlet streams.Outlet, d time.Duration) bool {
	if d <= 0 {
		for range outlet.Out() {
		}
		return true
	}
	return drain(outlet.Out(), d)
}

// drain is Drain of a channel with a limit.
func drain(outlet <-chan any, limit time.Duration) bool {
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case _, ok := <-outlet:
			if !ok {
				return true
			}
		case <-timer.C:
			return false
		}
	}
}

// receive puts what comes out of a foreign channel, until it is closed.
func receive[T any](ctx context.Context, name string, outlet <-chan any, out *Queue[T]) error {
	for {
		select {
		case element, ok := <-outlet:
			if !ok {
				return nil
			}
			v, ok := element.(T)
			if want := reflect.TypeFor[T](); !ok && (element != nil || want.Kind() != reflect.Interface) {
				return named(name, fmt.Errorf("go-streams element is of type %T, want %s", element, want))
			}
			if err := out.Put(ctx, v); err != nil {
				return err
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// send sends what is in a queue to a foreign channel and closes it, after an end of any kind.
func send[T any](ctx context.Context, in *Queue[T], inlet chan<- any) error {
	defer close(inlet)
	return consume(ctx, in, func(v T) error {
		select {
		case inlet <- v:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
}
