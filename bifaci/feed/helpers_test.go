package feed

import (
	"context"
	"encoding/hex"
	"testing"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type hexBytes []byte

func (h *hexBytes) UnmarshalText(text []byte) (err error) {
	*h, err = hex.DecodeString(string(text))
	return err
}

type backendFunc func(ctx context.Context, s Selector) (Capture, error)

func (f backendFunc) Open(ctx context.Context, s Selector) (Capture, error) { return f(ctx, s) }

// bench is a device that a test plays by hand: it captures nothing until the test pushes.
type bench struct {
	*Feed
	sink     *Sink
	end      chan error    // what Run returns; or it returns when its context ends
	stopped  chan struct{} // closed when the context of Run has ended
	released chan struct{} // closed when Run returns
}

func (b *bench) Open(context.Context, Selector) (Capture, error) {
	return Capture{Meta: frame.Meta{"feed": "bench"}, Run: func(ctx context.Context, to *Sink) error {
		defer close(b.released)
		select {
		case err := <-b.end:
			return err
		case <-ctx.Done():
			close(b.stopped)
			return ctx.Err()
		}
	}}, nil
}

// openBench opens a feed whose device is a bench.
func openBench(ctx context.Context, tb testing.TB, s Selector, opts ...Option) *bench {
	tb.Helper()
	b := &bench{end: make(chan error, 1), stopped: make(chan struct{}), released: make(chan struct{})}
	f, err := New(ctx, b, s, opts...)
	require.NoError(tb, err)
	b.Feed, b.sink = f, &Sink{f}
	return b
}

// push pushes n items of one byte, the low byte of their number; item i at i milliseconds. It stops when no more is wanted.
func (b *bench) push(from, n int) bool {
	for i := from; i < from+n; i++ {
		if !b.sink.Push(Sample{Data: []byte{byte(i)}, PTS: time.Duration(i) * time.Millisecond}) {
			return false
		}
	}
	return true
}

// readAll reads to the end and gives what came with it.
func readAll(ctx context.Context, f *Feed) (items []Item, end error) {
	for {
		item, err := f.Next(ctx)
		if err != nil {
			return items, err
		}
		items = append(items, item)
	}
}

// seqs are the numbers of items.
func seqs(items []Item) []int64 {
	var all []int64
	for _, it := range items {
		all = append(all, it.Meta["seq"].(int64))
	}
	return all
}

// gapOf gives dropped and duration_us of an item; zeros if it has no gap.
func gapOf(it Item) (dropped, durationUS int64) {
	gap, ok := it.Meta["gap"].(map[string]any)
	if !ok {
		return 0, 0
	}
	return gap["dropped"].(int64), gap["duration_us"].(int64)
}

// span is from, from+1, … up to n numbers.
func span(from, n int) []int64 {
	var all []int64
	for i := range n {
		all = append(all, int64(from+i))
	}
	return all
}

// wantDone checks that the device is released; the caller is in a bubble and everything that could run has.
func wantDone(tb testing.TB, b *bench) {
	tb.Helper()
	select {
	case <-b.Done():
	default:
		assert.Fail(tb, "the feed is not done")
	}
	select {
	case <-b.released:
	default:
		assert.Fail(tb, "the device is not released")
	}
}
