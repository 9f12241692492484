package feed

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
)

// errStopped ends the context of a capture whose feed has ended.
var errStopped = errors.New("the feed has ended")

// Feed is an open live feed. [Open] and [New] make one; whoever has it reads it to its end, or ends it by Cancel or by the
// context it was opened with. All methods are safe for concurrent use; only Next and Items wait. Several readers share
// the items.
type Feed struct {
	meta     frame.Meta // constant
	started  time.Time  // constant
	limits   limits     // constant
	overruns *stats.Overruns
	stop     context.CancelCauseFunc // ends the capture's context
	done     chan struct{}           // closed by run
	ended    chan struct{}           // closed by conclude, with end
	wake     chan struct{}           // holds a token when there may be an item; never closed

	mu      sync.Mutex
	buf     buffer        // guarded by mu
	end     error         // guarded by mu: nil while capture goes on; what reads get behind the last item
	read    bool          // guarded by mu: a reader has got end, which is final then
	timers  []func() bool // guarded by mu: stops what would end the capture
	watched func() bool   // guarded by mu: stops watching the context of the feed
}

// New opens a feed of any backend. It blocks until the device is open or has refused; ctx releases it, and then its cause
// is the error. Other errors are FEED_SELECTOR for a bad param, and FEED_UNAVAILABLE or what the backend says.
//
// ctx is also the life of the feed: when it ends, the feed is cancelled with its cause. It should end some time, for it
// holds on to a feed that is not read to its end.
func New(ctx context.Context, b Backend, s Selector, opts ...Option) (*Feed, error) {
	o := newOptions(opts)
	ring, s, err := splitRing(s)
	if err != nil {
		return nil, err
	}
	capturing, stop := context.WithCancelCause(ctx)
	capture, err := b.Open(capturing, s)
	if err != nil {
		stop(errStopped)
		return nil, openError(ctx, err)
	}
	f := &Feed{
		meta: maps.Clone(capture.Meta), started: time.Now(), limits: newLimits(s.Stop), overruns: o.total.Feed(), stop: stop,
		done: make(chan struct{}), ended: make(chan struct{}), wake: make(chan struct{}, 1),
		buf: buffer{ringItems: ring, mostBytes: maxRingBytes, policy: s.OnOverrun},
	}
	f.arm(ctx, o.tap)
	go f.run(ctx, capturing, capture.Run) // ends with the capture; Done tells
	return f, nil
}

func openError(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var classified failure.Classified
	if errors.As(err, &classified) {
		if errors.Is(err, io.EOF) {
			f := *failure.From(err)
			f.Err = noEnd(f.Err)
			return &f
		}
		return err
	}
	return unavailable("the device cannot be opened: %w", noEnd(err))
}

// noEnd keeps an error of a device from matching io.EOF, which is what readers take for a clean end.
func noEnd(err error) error {
	if errors.Is(err, io.EOF) {
		return errors.New(err.Error())
	}
	return err
}

// arm sets up what ends the feed from outside, and ends it at once if nothing may be captured.
func (f *Feed) arm(ctx, tap context.Context) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.watched = context.AfterFunc(ctx, func() { f.Cancel(context.Cause(ctx)) })
	if tap != nil && tap.Err() != nil || f.limits.spent(0) || !f.limits.allows(0, 0) {
		f.conclude(io.EOF)
		return
	}
	if tap != nil {
		f.timers = append(f.timers, context.AfterFunc(tap, f.Close))
	}
	if f.limits.duration != nil {
		// Pushes look at the time as well, so the timer is only for a device that is silent at the end.
		f.timers = append(f.timers, time.AfterFunc(*f.limits.duration, f.Close).Stop)
	}
}

// errNoReturn is what a capture failed with that ended its goroutine instead of returning.
var errNoReturn = errors.New("the capture ended its goroutine")

// run is the feed's goroutine. A panic in a backend, or runtime.Goexit, is the device's failure and not the process's end.
func (f *Feed) run(ctx, capturing context.Context, capture func(context.Context, *Sink) error) {
	defer close(f.done)
	sink, err := &Sink{f}, errNoReturn
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
		switch {
		case ctx.Err() != nil: // the capture may have noticed it before the watch: no clean end then
			f.Cancel(context.Cause(ctx))
		case err != nil:
			sink.Fail(err)
		default:
			sink.Finish()
		}
	}()
	err = capture(capturing, sink)
}

// Meta is the meta of the stream: family and format of what is captured. The caller may keep and change it.
func (f *Feed) Meta() frame.Meta { return maps.Clone(f.meta) }

// Overruns is the number of items that this feed has lost so far.
func (f *Feed) Overruns() uint64 { return f.overruns.Total() }

// Done is closed when the capture has ended and its device is released, whatever is still to be read.
func (f *Feed) Done() <-chan struct{} { return f.done }

// Next gives the next item. It waits until there is one, until the feed ends, or until ctx does, whose cause is then the
// error. Behind the last item it gives io.EOF after a clean end, a FEED_FAILED or FEED_OVERRUN failure otherwise, and
// again at every further call. After Cancel it gives the cause at once.
func (f *Feed) Next(ctx context.Context) (Item, error) {
	for ctx.Err() == nil {
		item, ok, end := f.take()
		if ok || end != nil {
			return item, end
		}
		select {
		case <-f.wake:
		case <-f.ended:
		case <-ctx.Done():
		}
	}
	return Item{}, context.Cause(ctx)
}

// take is Next without waiting.
func (f *Feed) take() (item Item, ok bool, end error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if item, ok = f.buf.pop(); ok {
		if f.buf.handed.count > 0 {
			f.notify() // another reader may wait, and one token may stand for many items
		}
		return item, true, nil
	}
	if f.end != nil && !f.read {
		f.read = true
		f.watched()
	}
	return Item{}, false, f.end
}

// Items gives the items until a clean end, or until an error, which comes last. Leaving the loop does not end the feed.
func (f *Feed) Items(ctx context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for {
			item, err := f.Next(ctx)
			if err == io.EOF { // exactly: the cause of a cancel may wrap it and is an error all the same
				return
			}
			if !yield(item, err) || err != nil {
				return
			}
		}
	}
}

// Close taps the feed off, as CLOSE_STREAM does: capture stops, what was captured is still read, then io.EOF. It
// does not wait for the device; see Done. After the end of the capture it does nothing.
func (f *Feed) Close() { f.finish(io.EOF) }

// Cancel ends the feed and discards everything in it: reads fail with the cause, or with [context.Canceled] if it is nil
// . It does not wait for the device; see Done. It does nothing when a reader has got the end already.
func (f *Feed) Cancel(cause error) {
	if cause == nil {
		cause = context.Canceled
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.read {
		return
	}
	f.buf.dropAll()
	if f.end == nil {
		f.conclude(cause)
	}
	f.end, f.read = cause, true
	f.watched()
}

// finish ends the capture, unless it has ended.
func (f *Feed) finish(end error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.end == nil {
		f.conclude(end)
	}
}

// conclude is the end of the capture: readers get end behind what is in the buffer. The caller holds mu, and it is the
// first end.
func (f *Feed) conclude(end error) {
	f.end = end
	f.stop(errStopped)
	for _, stop := range f.timers {
		stop()
	}
	f.timers = nil
	close(f.ended)
}

// notify leaves a token for a reader.
func (f *Feed) notify() {
	select {
	case f.wake <- struct{}{}:
	default: // there is one
	}
}
