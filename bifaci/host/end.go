package host

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// How long endings wait for what should be there at once.
const (
	flushGrace = 500 * time.Millisecond // Close, for the writer to write what was sent before
	drainGrace = time.Second            // for the end of a stream whose writer has ended
)

// ErrClosed is what calls get after Close and during Shutdown.
var ErrClosed = errors.New("host: the connection is closed")

// write is the writer. When it fails, what the cartridge has written before it stopped reading is still read, so that an answer
// that is complete succeeds.
func (c *Conn) write() {
	defer close(c.writeEnd)
	err := c.lanes.Run(func(err error) error {
		return failure.Newf(failure.CartridgeDied, failure.Environment, "writing to the cartridge: %w", err)
	})
	c.closeOut()
	if err == nil {
		return
	}
	timer := time.NewTimer(drainGrace)
	defer timer.Stop()
	select {
	case <-c.over:
	case <-timer.C:
		c.end(c.died(failure.From(err)))
	}
}

// closeOut ends the cartridge's input.
func (c *Conn) closeOut() {
	if closer, ok := c.out.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			c.opts.log.Debug("closing the cartridge's input", "error", err)
		}
	}
}

// died is the reason that calls get: of a process also how it ended, and of a link that was being closed that.
func (c *Conn) died(f *failure.Failure) error {
	c.mu.Lock()
	closing := c.closing && f.Code == failure.CartridgeDied && c.verdict == nil
	if c.verdict != nil {
		f = c.verdict
	}
	c.mu.Unlock()
	if closing {
		return fmt.Errorf("%w: %w", c.opts.closed, f)
	}
	if c.opts.died != nil {
		f = c.opts.died(f)
	}
	return f
}

// condemn ends a cartridge for a reason of the host's: its process is killed, or the reading of its output is stopped. What it has
// written before is read first; then every request of it ends with f. It does not wait.
func (c *Conn) condemn(f *failure.Failure) {
	c.mu.Lock()
	first := c.err == nil && c.verdict == nil
	if first {
		c.verdict = f
	}
	c.mu.Unlock()
	if !first {
		return
	}
	if c.opts.condemned != nil {
		c.opts.condemned(f) // nobody is sent there any more
	}
	if c.opts.kill == nil {
		interrupt(c.in)
		return
	}
	c.opts.kill()
}

// end ends the link and every call on it. The first reason stands.
func (c *Conn) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err, c.closing = err, true
	calls := slices.Collect(maps.Values(c.served))
	peers := slices.Collect(maps.Values(c.peers))
	probes := c.probes
	c.probes = nil
	close(c.over)
	c.mu.Unlock()
	c.stop()
	if c.opts.ended != nil {
		c.opts.ended(c, err) // first: whoever learns of the end and calls again finds it known
	}
	for _, call := range calls {
		call.lost(err)
	}
	for _, r := range peers {
		r.callerLost(err)
	}
	for _, p := range probes {
		if p != nil {
			p <- probeResult{err: err}
		}
	}
	c.lanes.Close()
}

// Err is why the link has ended, or nil.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done is closed when the link has ended and its reader has returned: nothing more will come.
func (c *Conn) Done() <-chan struct{} { return c.readEnd }

// CloseInput ends the cartridge's input after everything that was sent; answers still come. No call can be made afterwards: it
// gets [ErrClosed], and so do those that the cartridge leaves unanswered.
func (c *Conn) CloseInput() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	c.lanes.Close()
}

// Close ends the link: unfinished calls fail with [ErrClosed], the cartridge's input is closed after what was sent, or after half
// a second if the cartridge does not read, and its output is read no more. It waits for the link's goroutines, but for one whose
// stream ignores interruption. It may be called any number of times, but not from the callback of [WithStderr].
func (c *Conn) Close() {
	c.end(c.opts.closed)
	c.stopReading()
	if !c.flushed() && interrupt(c.out) {
		<-c.writeEnd
	}
	c.link.Close()
}

// flushed waits for the writer, for a short time.
func (c *Conn) flushed() bool {
	timer := time.NewTimer(flushGrace)
	defer timer.Stop()
	select {
	case <-c.writeEnd:
		return true
	case <-timer.C:
		return false
	}
}

// stopReading interrupts the reader and waits for it where that is certain to help.
func (c *Conn) stopReading() {
	interrupt(c.in)
	if _, ok := c.in.(interface{ Interrupt() }); !ok {
		return
	}
	if in, ok := c.in.(interface{ Interruptible() bool }); ok && !in.Interruptible() {
		return
	}
	<-c.readEnd
}

// interrupt makes a blocked Read or Write of stream return, if it lets anybody do so.
func interrupt(stream any) bool {
	switch s := stream.(type) {
	case interface{ Interrupt() }:
		s.Interrupt()
	case io.Closer:
		err := s.Close()
		_ = err // it was closed to be interrupted; the cause of the end is reported
	default:
		return false
	}
	return true
}
