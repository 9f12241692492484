package cartridgetest

import (
	"errors"
	"io"
	"sync"
)

// errPipeBroken is what writes get after the reading end was broken.
var errPipeBroken = errors.New("cartridgetest: the reading end is closed")

// pipe is one direction of a link in memory. It waits on conditions only, which testing/synctest counts as waiting. Written
// bytes pass the tap before anybody can read them, so that effects are always judged after their causes.
type pipe struct {
	limit   int // bytes that may be unread; 0 means no bound
	readMax int // bytes of one Read; 0 means no bound
	tap     io.Writer

	writing sync.Mutex // one Write at a time, so that the tap sees whole writes in order

	mu       sync.Mutex
	changed  sync.Cond
	buf      []byte
	readErr  error // after everything that was written
	writeErr error
	stopped  bool // reads end at once
	held     bool // reads wait although there is something
}

func newPipe(limit, readMax int, tap io.Writer) *pipe {
	p := &pipe{limit: limit, readMax: readMax, tap: tap}
	p.changed.L = &p.mu
	return p
}

// Write waits while the pipe is full.
func (p *pipe) Write(b []byte) (n int, err error) {
	p.writing.Lock()
	defer p.writing.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.writeErr == nil && p.tap != nil {
		p.mu.Unlock()
		_, err := p.tap.Write(b)
		p.mu.Lock()
		if err != nil {
			return 0, err
		}
	}
	for {
		if p.writeErr != nil {
			return n, p.writeErr
		}
		room := len(b) - n
		if p.limit > 0 {
			room = min(room, p.limit-len(p.buf))
		}
		if room > 0 || len(b) == 0 {
			p.buf = append(p.buf, b[n:n+room]...)
			n += room
			p.changed.Broadcast()
		}
		if n == len(b) {
			return n, nil
		}
		p.changed.Wait()
	}
}

// Read waits for something to read. What was written before the end is read before the end.
func (p *pipe) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	if p.readMax > 0 {
		b = b[:min(len(b), p.readMax)]
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.stopped:
			return 0, io.ErrClosedPipe
		case p.held:
		case len(p.buf) > 0:
			n := copy(b, p.buf)
			p.buf = p.buf[n:]
			p.changed.Broadcast()
			return n, nil
		case p.readErr != nil:
			return 0, p.readErr
		}
		p.changed.Wait()
	}
}

func (p *pipe) set(change func()) {
	p.mu.Lock()
	change()
	p.changed.Broadcast()
	p.mu.Unlock()
}

// closeWrite ends the pipe for its reader with err, after everything that was written.
func (p *pipe) closeWrite(err error) {
	p.set(func() {
		if p.readErr == nil {
			p.readErr = err
		}
		if p.writeErr == nil {
			p.writeErr = io.ErrClosedPipe
		}
	})
}

// breakRead makes every write fail.
func (p *pipe) breakRead(err error) {
	p.set(func() { p.writeErr = err })
}

// hold makes reads wait, or lets them go on.
func (p *pipe) hold(on bool) { p.set(func() { p.held = on }) }

// unread is how many bytes were written and not read.
func (p *pipe) unread() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.buf)
}

// Interrupt makes a blocked Read return for good.
func (p *pipe) Interrupt() { p.set(func() { p.stopped = true }) }
