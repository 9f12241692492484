package stages

import (
	"io"
	"runtime"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Writer is where encoded frames go.
type Writer interface{ io.Writer }

// BuffersWriter is a Writer that writes several buffers with one system call, in order and completely.
type BuffersWriter interface {
	Writer
	WriteBuffers(bufs [][]byte) (int64, error)
}

// Flusher is a Writer that holds bytes back until Flush.
type Flusher interface{ Flush() error }

// joinUnder is up to how many bytes a batch without large payloads is joined for a Writer that takes one buffer at a
// time.
const joinUnder = 64 << 10

// busyWithin is how long after a write the link counts as busy. Then a writer that is woken by the first of several senders lets the
// others go first; measured, that is a quarter of the cost of a small request. Not after a pause: with handlers that
// compute on every processor the turn that was given away would come back late.
const busyWithin = 10 * time.Millisecond

// Run writes what the lanes hold until Close was called and everything is written, or a write fails. It takes all there
// is, control before data, writes it whole, and flushes when both lanes are empty. A failed write fails
// every present and later send with wrap of that error. One goroutine calls it, once.
func (l *Lanes) Run(fail func(error) error) error {
	var ctl, data lane
	var bufs [][]byte
	var joined []byte
	var written time.Time
	for {
		l.mu.Lock()
		for l.ctl.frames == 0 && l.data.frames == 0 && len(l.deferred) == 0 {
			if l.closing {
				l.err = ErrLanesClosed
				l.failWaiters()
				l.mu.Unlock()
				return l.flush(fail)
			}
			l.writing = false
			l.mu.Unlock()
			if err := l.flush(fail); err != nil {
				return err
			}
			<-l.wake
			l.mu.Lock()
			if l.ctl.frames == 0 && !l.closing && time.Since(written) < busyWithin {
				l.mu.Unlock()
				runtime.Gosched() // behind the senders that can run: what they have goes out with the same write
				l.mu.Lock()
			}
		}
		for _, g := range l.deferred {
			n := g.merged
			g.merged = 0
			g.encode(n)
			l.ctl.own++
		}
		l.deferred = l.deferred[:0]
		l.turn++
		l.frames += uint64(l.ctl.frames + l.data.frames)
		l.bytes += uint64(l.ctl.bytes + l.data.bytes)
		l.ctl, ctl = ctl, l.ctl
		l.data, data = data, l.data
		l.letIn()
		l.mu.Unlock()

		bufs = ctl.appendTo(bufs[:0])
		bufs = data.appendTo(bufs)
		err := l.write(bufs, &joined)
		written = time.Now()
		own, size := ctl.own+data.own, ctl.size+data.size
		if err != nil {
			l.lose(&ctl)
			l.lose(&data)
		}
		ctl.reset()
		data.reset()
		clear(bufs)
		if err != nil {
			return l.fail(fail(err))
		}
		if own > 0 {
			l.mu.Lock()
			l.own -= own
			l.ownSize -= size
			if l.ownFree != nil && l.own <= ownMaxFrames/2 && l.ownSize <= ownMaxBytes/2 {
				close(l.ownFree)
				l.ownFree = nil
			}
			l.mu.Unlock()
		}
	}
}

// flush flushes an output that buffers.
func (l *Lanes) flush(fail func(error) error) error {
	if f, ok := l.out.(Flusher); ok {
		if err := f.Flush(); err != nil {
			return l.fail(fail(err))
		}
	}
	return nil
}

// write writes a batch whole; joined is memory to be used again.
func (l *Lanes) write(bufs [][]byte, joined *[]byte) error {
	if len(bufs) == 1 {
		return l.writeOne(bufs[0])
	}
	if w, ok := l.out.(BuffersWriter); ok {
		_, err := w.WriteBuffers(bufs)
		return err
	}
	total := 0
	for _, b := range bufs {
		total += len(b)
	}
	if total <= joinUnder {
		*joined = (*joined)[:0]
		for _, b := range bufs {
			*joined = append(*joined, b...)
		}
		return l.writeOne(*joined)
	}
	for _, b := range bufs {
		if err := l.writeOne(b); err != nil {
			return err
		}
	}
	return nil
}

// writeOne does not believe a Writer that takes less than it was given and says nothing.
func (l *Lanes) writeOne(b []byte) error {
	n, err := l.out.Write(b)
	if err == nil && n < len(b) {
		err = io.ErrShortWrite
	}
	return err
}

// fail makes every present and later send fail with err and drops what the lanes hold.
func (l *Lanes) fail(err error) error {
	l.mu.Lock()
	if l.err == nil || l.err == ErrLanesClosed {
		l.err = err
	}
	l.lose(&l.ctl)
	l.lose(&l.data)
	for _, g := range l.deferred {
		g.merged = 0
		l.Lost(frame.TypeCredit)
	}
	l.deferred = l.deferred[:0]
	l.ctl.reset()
	l.data.reset()
	l.own, l.ownSize = 0, 0
	l.failWaiters()
	l.mu.Unlock()
	return err
}

// failWaiters lets every waiting sender see l.err; the lock is held.
func (l *Lanes) failWaiters() {
	l.letIn()
	if l.ownFree != nil {
		close(l.ownFree)
		l.ownFree = nil
	}
}
