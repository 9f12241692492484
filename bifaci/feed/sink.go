package feed

import (
	"io"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// Sink is where a backend puts what it captures: the capture edge. Its methods never block and may be called by any
// goroutine, though samples need an order, which only one goroutine can give them. After the end of the feed they do
// nothing.
type Sink struct{ f *Feed }

// Started is when the device was open: the beginning of the feed's time.
func (s *Sink) Started() time.Time { return s.f.started }

// Push takes a sample in and decides what becomes of it when the ring is full. False means that nothing more is wanted:
// the feed has ended, perhaps with this sample. The backend then has to release the device.
func (s *Sink) Push(x Sample) bool {
	f := s.f
	now := time.Now()
	if x.Captured.IsZero() {
		x.Captured = f.started.Add(x.PTS)
	}
	c := captured{data: x.Data, ptsUS: micros(x.PTS), captureUS: uint64(max(x.Captured.UnixMicro(), 0))}

	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.end != nil:
		return false
	case f.limits.spent(now.Sub(f.started)), !f.limits.allows(f.buf.captured, x.Lost):
		f.conclude(io.EOF)
		return false
	}
	lost, overrun := f.buf.push(c, x.Lost)
	f.overruns.Add(lost)
	if overrun {
		f.conclude(overrunFailure(x.Lost, f.buf.ringItems))
		return false
	}
	f.notify()
	if !f.limits.allows(f.buf.captured, 0) {
		f.conclude(io.EOF)
	}
	return f.end == nil
}

// overrunFailure is the failure of. A loss in front of the ring is one as well: the selector wants none.
func overrunFailure(lostByDevice, ringItems uint64) *failure.Failure {
	if lostByDevice > 0 {
		return failure.Newf(failure.FeedOverrun, failure.Resource, "live feed: the device lost %d items, and the selector allows no loss", lostByDevice)
	}
	return failure.Newf(failure.FeedOverrun, failure.Resource,
		"live feed: the ring of %d items was full when another was captured, and the selector allows no loss; the reader is too slow", ringItems)
}

// Fail ends the feed because the device failed: what was captured is still read, then FEED_FAILED, class environment
//
func (s *Sink) Fail(err error) {
	s.f.finish(failure.Newf(failure.FeedFailed, failure.Environment, "live feed: the device failed: %w", noEnd(err)))
}

// Finish ends the feed because the device is through: what was captured is still read, then io.EOF.
func (s *Sink) Finish() { s.f.finish(io.EOF) }

// limits are the stop conditions of a selector.
type limits struct {
	items    *uint64
	duration *time.Duration
}

func newLimits(s Stop) limits {
	l := limits{items: s.MaxItems}
	if s.DurationMS != nil {
		const most = uint64(maxDuration / time.Millisecond)
		d := time.Duration(min(*s.DurationMS, most)) * time.Millisecond
		l.duration = &d
	}
	return l
}

// maxDuration is the longest that can be told: 292 years.
const maxDuration = time.Duration(1<<63 - 1)

// spent reports that capture has gone on for as long as it may.
func (l limits) spent(passed time.Duration) bool { return l.duration != nil && passed >= *l.duration }

// allows reports that another item may be captured behind so many captured and lost ones.
func (l limits) allows(captured, lost uint64) bool {
	return l.items == nil || captured < *l.items && lost < *l.items-captured
}
