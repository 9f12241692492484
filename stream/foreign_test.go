package stream_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/reugn/go-streams"
	"github.com/reugn/go-streams/extension"
	"github.com/reugn/go-streams/flow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/stream"
)

// intSource is a go-streams source of n numbers that can be stopped.
func intSource(n int) (source streams.Source, stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	out := make(chan any)
	go func() { // ends with its numbers, or with stop
		defer close(out)
		for v := range n {
			select {
			case out <- v:
			case <-ctx.Done():
				return
			}
		}
		<-ctx.Done() // blocked in its read
	}()
	return extension.NewChanSource(out), cancel
}

func addOne() streams.Flow { return flow.NewMap(func(v int) int { return v + 1 }, 1) }

// The same across the adapters, in both directions and in all combinations.
func TestF1_TheConsumerLeavesFirstAcrossGoStreams(t *testing.T) {
	topologies := map[string]func(p *stream.Pipeline, w *witness) *stream.Stream[int]{
		"from a source": func(p *stream.Pipeline, w *witness) *stream.Stream[int] {
			source, stop := intSource(10_000)
			foreign := source.Via(flow.NewPassThrough()).Via(flow.NewPassThrough()).Via(flow.NewPassThrough())
			return w.stage(stream.FromSource[int](p, "foreign", foreign, stream.WithStop(stop)), "one")
		},
		"from a sink": func(p *stream.Pipeline, w *witness) *stream.Stream[int] {
			source, stop := intSource(10_000)
			sink, s := stream.FromSink[int](p, "foreign", stream.WithStop(stop))
			p.Go("topology", func(context.Context) error {
				source.Via(flow.NewPassThrough()).Via(flow.NewPassThrough()).To(sink)
				return nil
			})
			return w.stage(s, "one")
		},
		"via flows": func(p *stream.Pipeline, w *witness) *stream.Stream[int] {
			s := w.stage(w.source(p, 10_000), "one")
			s = stream.Via[int, int](s, "foreign", flow.NewPassThrough(), flow.NewPassThrough(), flow.NewPassThrough())
			return w.stage(s, "two")
		},
		"to a source and back": func(p *stream.Pipeline, w *witness) *stream.Stream[int] {
			source := stream.ToSource(w.stage(w.source(p, 10_000), "one"), "there")
			foreign := source.Via(flow.NewPassThrough()).Via(flow.NewPassThrough())
			return w.stage(stream.FromSource[int](p, "back", foreign, stream.WithStop(source.Stop)), "two")
		},
	}
	for topology, build := range topologies {
		for way, leave := range ways {
			t.Run(topology+", "+way, func(t *testing.T) {
				before := goleak.IgnoreCurrent()
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				p := stream.NewPipeline(ctx, stream.WithQueueItems(2))
				var w witness
				want := leave(t, cancel, build(p, &w))
				if err := p.Wait(); want == stream.ErrStopped {
					require.NoError(t, err)
				} else {
					require.Equal(t, want, err)
				}
				require.NoError(t, goleak.Find(before))
				for stage, cause := range w.causes {
					if cause != want { // a source that is stopped through the foreign side knows no more than that
						assert.Equal(t, stream.ErrStopped, cause, stage)
					}
				}
			})
		}
	}
}

// A foreign sink that takes one element and no more holds the pipeline up, but not its end.
func TestF1_AForeignSinkLeavesFirst(t *testing.T) {
	before := goleak.IgnoreCurrent()
	p := stream.NewPipeline(t.Context())
	sink := extension.NewChanSink(make(chan any))
	var w witness
	stream.ToSink(w.stage(w.source(p, 10_000), "one"), "foreign", sink)
	require.Equal(t, 0, <-sink.Out)
	p.Stop()
	require.NoError(t, p.Wait())
	_, ok := <-sink.Out
	require.False(t, ok, "the sink is closed whatever happens")
	require.NoError(t, goleak.Find(before))
}

// So does a foreign loop that breaks; it stops the source and drains what it was reading.
func TestF1_AForeignLoopLeavesFirst(t *testing.T) {
	before := goleak.IgnoreCurrent()
	p := stream.NewPipeline(t.Context())
	var w witness
	source := stream.ToSource(w.stage(w.source(p, 10_000), "one"), "foreign")
	end := source.Via(addOne()).Via(addOne())
	require.Equal(t, 2, <-end.Out())
	source.Stop()
	require.True(t, stream.Drain(end, 0))
	require.NoError(t, p.Wait())
	require.NoError(t, goleak.Find(before))
}

func TestF1_AForeignSourceThatIgnoresItsStopCostsOnlyItself(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		out := make(chan any)
		letGo := make(chan struct{})
		go func() {
			defer close(out)
			<-letGo
		}()
		begin := time.Now()
		p := stream.NewPipeline(t.Context())
		stopped := false
		sinkAll(stream.FromSource[int](p, "foreign", extension.NewChanSource(out), stream.WithGrace(time.Minute),
			stream.WithStop(func() { stopped = true })))
		synctest.Wait()
		p.Stop()
		require.NoError(t, p.Wait())
		require.True(t, stopped)
		require.Equal(t, time.Minute, time.Since(begin))
		require.False(t, stream.Drain(extension.NewChanSource(out), time.Minute))
		close(letGo)
		require.True(t, stream.Drain(extension.NewChanSource(out), time.Minute))
	})
}

func TestForeignTopologiesCarryEverything(t *testing.T) {
	const n = 1000
	want := make([]int, n)
	for v := range want {
		want[v] = v + 2
	}
	t.Run("via flows", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		got, err := collect(stream.Via[int, int](stream.FromSeq(p, "numbers", count(n)), "foreign", addOne(), addOne()))
		require.NoError(t, err)
		require.NoError(t, p.Wait())
		require.Equal(t, want, got)
	})
	t.Run("out and in again", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		source := stream.ToSource(stream.FromSeq(p, "numbers", count(n)), "out")
		sink, s := stream.FromSink[int](p, "in")
		p.Go("topology", func(context.Context) error {
			source.Via(addOne()).Via(addOne()).To(sink)
			return nil
		})
		got, err := collect(s)
		require.NoError(t, err)
		require.NoError(t, p.Wait())
		require.Equal(t, want, got)
	})
	t.Run("into a sink", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		sink := extension.NewChanSink(make(chan any, 2*n))
		stream.ToSink(stream.Via[int, int](stream.FromSeq(p, "numbers", count(n)), "foreign", addOne(), addOne()), "sink", sink)
		require.NoError(t, p.Wait())
		got := []int{}
		for v := range sink.Out {
			got = append(got, v.(int))
		}
		require.Equal(t, want, got)
	})
	t.Run("R-4.29 an error goes around the flows", func(t *testing.T) {
		q := weightless(8)
		require.NoError(t, q.Put(t.Context(), 1, 2, 3))
		q.Close(errBoom)
		p := stream.NewPipeline(t.Context())
		_, err := collect(stream.Via[int, int](stream.FromQueue(p, q), "foreign", addOne()))
		require.ErrorIs(t, err, errBoom)
		require.ErrorIs(t, p.Wait(), errBoom)
	})
	t.Run("flows that end early end the stream", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		numbers := stream.FromSeq(p, "numbers", count(1<<40))
		got, err := collect(stream.Via[int, int](numbers, "foreign", firstThree()))
		require.NoError(t, err)
		require.NoError(t, p.Wait())
		require.Equal(t, []int{0, 1, 2}, got)
	})
	t.Run("an element of another type is an error that names both", func(t *testing.T) {
		p := stream.NewPipeline(t.Context())
		source := make(chan any, 1)
		source <- "text"
		close(source)
		_, err := collect(stream.FromSource[int](p, "foreign", extension.NewChanSource(source)))
		require.Error(t, err)
		require.EqualError(t, p.Wait(), "stage foreign: go-streams element is of type string, want int")
	})
	t.Run("F1 also from a flow, which is then fed no more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := stream.NewPipeline(t.Context())
			texts := flow.NewMap(func(int) string { return "text" }, 1)
			sinkAll(stream.Via[int, int](stream.FromFunc(p, "slow", func(ctx context.Context) (int, error) {
				select {
				case <-time.After(time.Minute):
					return 1, nil
				case <-ctx.Done():
					return 0, ctx.Err()
				}
			}), "foreign", texts))
			begin := time.Now()
			require.EqualError(t, p.Wait(), "stage foreign: go-streams element is of type string, want int")
			require.Equal(t, time.Minute, time.Since(begin), "waited for a second element")
		})
	})
	t.Run("a nil element is one of an interface type only", func(t *testing.T) {
		source := func() streams.Outlet {
			c := make(chan any, 1)
			c <- nil
			close(c)
			return extension.NewChanSource(c)
		}
		p := stream.NewPipeline(t.Context())
		got, err := collect(stream.FromSource[error](p, "foreign", source()))
		require.NoError(t, err)
		require.Equal(t, []error{nil}, got)
		require.NoError(t, p.Wait())
		p = stream.NewPipeline(t.Context())
		_, err = collect(stream.FromSource[*int](p, "foreign", source()))
		require.Error(t, err)
		require.EqualError(t, p.Wait(), "stage foreign: go-streams element is of type <nil>, want *int")
	})
	t.Run("a sink that takes its time to complete is waited for", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := stream.NewPipeline(t.Context())
			sink := &slowSink{in: make(chan any), takes: time.Hour}
			begin := time.Now()
			stream.ToSink(stream.FromSeq(p, "numbers", count(3)), "sink", sink)
			for range sink.in {
			}
			require.NoError(t, p.Wait())
			require.Equal(t, time.Hour, time.Since(begin))
		})
	})
	t.Run("F1 a sink that never completes costs its goroutine when the pipeline is stopped", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := stream.NewPipeline(t.Context())
			sink := &slowSink{in: make(chan any), takes: time.Hour}
			begin := time.Now()
			stream.ToSink(stream.FromSeq(p, "numbers", count(3)), "sink", sink)
			for range sink.in {
			}
			synctest.Wait()
			p.Stop()
			require.NoError(t, p.Wait())
			require.Equal(t, stream.Grace, time.Since(begin))
			time.Sleep(time.Hour) // let it complete, so that the bubble can end
		})
	})
}

type slowSink struct {
	in    chan any
	takes time.Duration
}

func (s *slowSink) In() chan<- any   { return s.in }
func (s *slowSink) AwaitCompletion() { time.Sleep(s.takes) }

// firstThree is a flow that closes its outlet after three elements and takes no more.
func firstThree() streams.Flow {
	return &shortFlow{Flow: flow.NewPassThrough(), in: make(chan any), out: make(chan any)}
}

type shortFlow struct {
	streams.Flow
	in, out chan any
	once    sync.Once
}

func (f *shortFlow) In() chan<- any { return f.in }

func (f *shortFlow) Out() <-chan any {
	f.once.Do(func() {
		unused := f.Flow.In()
		close(unused) // the embedded flow is there for its other methods only
		go func() {
			defer close(f.out)
			for range 3 {
				f.out <- <-f.in
			}
		}()
	})
	return f.out
}
