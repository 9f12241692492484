package bifaci

import (
	"context"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/stages"
)

// ageFlusher sends the coalesced bytes of one stream when the oldest of them is 20 ms old, without a next write. It
// has a timer only while bytes wait, and a goroutine only while it sends.
type ageFlusher struct {
	sender *stages.Sender
	ctx    context.Context // of the stream: its end ends a flush that waits for credit

	mu      sync.Mutex
	timer   *time.Timer
	armed   bool
	stopped bool
	running sync.WaitGroup // flushes that the timer has started or will start
}

// start makes sender's small writes go out by age. It is called before the stream is used.
func (a *ageFlusher) start(ctx context.Context, sender *stages.Sender) {
	a.ctx, a.sender = ctx, sender
	sender.SetAgeFlush(func() { a.arm(stages.CoalesceAge) })
}

// arm makes the next flush due after d.
func (a *ageFlusher) arm(d time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.armed || a.stopped {
		return
	}
	a.armed = true
	a.running.Add(1)
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.flush)
		return
	}
	a.timer.Reset(d)
}

// flush runs on the timer's goroutine. An error has broken the stream, so whoever writes next, or the close, gets it.
func (a *ageFlusher) flush() {
	defer a.running.Done()
	a.mu.Lock()
	a.armed = false
	a.mu.Unlock()
	if left, err := a.sender.FlushAged(a.ctx); err == nil && left > 0 {
		a.arm(left) // the bytes that were due went with a write, and younger ones have come
	}
}

// stop ends the flusher. It does not wait for a flush that runs: see join.
func (a *ageFlusher) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.stopped {
		return
	}
	a.stopped = true
	if a.armed && a.timer.Stop() {
		a.armed = false
		a.running.Done()
	}
}

// join waits for a flush that runs, after stop. The stream's gate or context has ended, so it does not take long.
func (a *ageFlusher) join() { a.running.Wait() }
