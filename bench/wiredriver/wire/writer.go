//go:build linux

package wire

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// Writer serializes frames onto a file; it is safe for concurrent use. Queue never blocks and leaves the
// bytes for the next flush; Write writes at once and may block.
type Writer struct {
	f    *os.File
	raw  syscall.RawConn
	fdmu sync.Mutex // held while writing to the file

	mu     sync.Mutex // guards the fields below
	cond   *sync.Cond
	pend   []byte
	spare  []byte
	kicked bool
	closed bool
	err    error

	done chan struct{} // closed by the flusher when it ends

	Bytes atomic.Uint64 // written so far
}

// NewWriter starts a Writer and its flusher goroutine.
func NewWriter(f *os.File) *Writer {
	w := &Writer{f: f, done: make(chan struct{})}
	w.cond = sync.NewCond(&w.mu)
	if raw, err := f.SyscallConn(); err == nil {
		w.raw = raw
	}
	go w.flusher() // Close waits for it
	return w
}

// Queue appends encoded frames to the pending output. They go out with the
// next Write, TryFlush or Kick.
func (w *Writer) Queue(p []byte) {
	w.mu.Lock()
	w.pend = append(w.pend, p...)
	w.mu.Unlock()
}

// Kick hands the pending output to the flusher goroutine.
func (w *Writer) Kick() {
	w.mu.Lock()
	if len(w.pend) > 0 && !w.kicked {
		w.kicked = true
		w.cond.Signal()
	}
	w.mu.Unlock()
}

// TryFlush writes the pending output without blocking, as far as the pipe
// takes it, and leaves the rest to the flusher goroutine. The file has to be
// in non-blocking mode (as the parent's end of an os.Pipe is).
func (w *Writer) TryFlush() {
	w.mu.Lock()
	empty := len(w.pend) == 0
	w.mu.Unlock()
	if empty {
		return
	}
	if w.raw == nil || !w.fdmu.TryLock() {
		w.Kick()
		return
	}
	buf := w.take()
	var n int
	var werr error
	if err := w.raw.Write(func(fd uintptr) bool {
		n, werr = syscall.Write(int(fd), buf)
		return true
	}); err != nil {
		werr = err
	}
	if n < 0 {
		n = 0
	}
	w.Bytes.Add(uint64(n))
	if n < len(buf) {
		if werr != nil && !errors.Is(werr, syscall.EAGAIN) && !errors.Is(werr, syscall.EINTR) {
			w.fail(werr)
		} else {
			w.mu.Lock()
			rest := append([]byte(nil), buf[n:]...)
			w.pend = append(rest, w.pend...)
			w.mu.Unlock()
		}
	}
	w.give(buf)
	w.fdmu.Unlock()
	w.Kick()
}

func (w *Writer) take() []byte {
	w.mu.Lock()
	b := w.pend
	w.pend = w.spare[:0]
	w.spare = nil
	w.mu.Unlock()
	return b
}

func (w *Writer) give(b []byte) {
	if cap(b) > 8<<20 {
		return
	}
	w.mu.Lock()
	w.spare = b[:0]
	w.mu.Unlock()
}

func (w *Writer) fail(err error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = err
	}
	w.mu.Unlock()
}

func (w *Writer) put(b []byte) error {
	n, err := w.f.Write(b)
	w.Bytes.Add(uint64(n))
	if err != nil {
		w.fail(err)
	}
	return err
}

// Write writes whatever is pending and then p, in that order.
func (w *Writer) Write(p []byte) error {
	w.fdmu.Lock()
	defer w.fdmu.Unlock()
	w.mu.Lock()
	if w.err != nil {
		err := w.err
		w.mu.Unlock()
		return err
	}
	w.mu.Unlock()
	buf := w.take()
	if len(buf) > 0 {
		if len(p) <= 16<<10 {
			buf = append(buf, p...)
			p = nil
		}
		if err := w.put(buf); err != nil {
			return err
		}
	}
	w.give(buf)
	if len(p) == 0 {
		return nil
	}
	return w.put(p)
}

func (w *Writer) flusher() {
	defer close(w.done)
	for {
		w.mu.Lock()
		for !w.kicked && !w.closed {
			w.cond.Wait()
		}
		if w.closed {
			w.mu.Unlock()
			return
		}
		w.kicked = false
		w.mu.Unlock()
		if w.Write(nil) != nil {
			return
		}
	}
}

// Err returns the first write error.
func (w *Writer) Err() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// Close closes the file and waits for the flusher goroutine to end. What is
// still pending is dropped; a Write that waits for the pipe fails.
func (w *Writer) Close() error {
	w.mu.Lock()
	w.closed = true
	w.cond.Signal()
	w.mu.Unlock()
	err := w.f.Close()
	<-w.done
	return err
}
