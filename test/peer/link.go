package peer

import (
	"bufio"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

const (
	maxUnwritten = 8 << 20 // how much may wait for the cartridge to read it, bytes; more makes Send wait
	traceLength  = 32      // frames shown by a failure
)

// Link is the conversation of a host with one cartridge.
type Link struct {
	t     testing.TB
	opts  options
	check *cartridgetest.Check // nil when unjudged
	more  func() string        // what else a failure shows

	toCartridge io.WriteCloser
	toHost      io.ReadCloser
	wake        chan struct{} // of the writer; one place
	readDone    chan struct{} // closed when the reader has returned
	writeDone   chan struct{} // closed when the writer has returned

	mu        sync.Mutex
	changed   chan struct{} // closed and replaced whenever something below, or of a request, changes
	unwritten [][]byte
	bytes     int  // in unwritten
	closing   bool // no more is sent; the writer closes its end
	writeErr  error
	readErr   error // why the reader has ended; io.EOF between two frames
	limits    Limits
	requests  map[string]*Request
	inbox     []Frame // what belongs to no request, in order
	trace     []traced
	xid       uint64
}

type traced struct {
	arrow string
	frame Frame
}

func newLink(t testing.TB, in io.WriteCloser, out io.ReadCloser, opts []Option) *Link {
	o := options{limits: DefaultLimits(), patience: defaultPatience}
	for _, opt := range opts {
		opt(&o)
	}
	l := &Link{t: t, opts: o, toCartridge: in, toHost: out, wake: make(chan struct{}, 1), readDone: make(chan struct{}),
		writeDone: make(chan struct{}), changed: make(chan struct{}), limits: o.limits, requests: map[string]*Request{},
		more: func() string { return "" }}
	if !o.unjudged {
		l.check = cartridgetest.NewCheck()
	}
	return l
}

// run starts the two goroutines; they end with the pipes.
func (l *Link) run() {
	go l.write()
	go l.read()
}

// read takes in what the cartridge says, never waiting for the test.
func (l *Link) read() {
	defer close(l.readDone)
	r := bufio.NewReaderSize(l.toHost, 64<<10)
	for {
		f, wire, err := ReadFrame(r)
		l.mu.Lock()
		l.judge(cartridgetest.ToHost, wire)
		if err != nil {
			if errors.Is(err, os.ErrClosed) {
				err = os.ErrClosed // closed by the test
			}
			l.readErr = err
			l.announce()
			l.mu.Unlock()
			return
		}
		l.remember("c2h", f)
		l.take(f)
		l.announce()
		l.mu.Unlock()
	}
}

// take sorts a frame in; l.mu is held.
func (l *Link) take(f Frame) {
	if r := l.requests[IDKey(f[KeyID])]; r != nil && f.Type() != TypeHeartbeat {
		r.take(f)
		return
	}
	l.inbox = append(l.inbox, f)
}

// write writes what was queued, in order.
func (l *Link) write() {
	defer close(l.writeDone)
	w := bufio.NewWriterSize(l.toCartridge, 64<<10)
	for {
		l.mu.Lock()
		batch, closing := l.unwritten, l.closing
		l.unwritten, l.bytes = nil, 0
		l.announce()
		l.mu.Unlock()
		var err error
		for _, b := range batch {
			if err == nil {
				_, err = w.Write(b)
			}
		}
		if err == nil {
			err = w.Flush()
		}
		if err != nil {
			l.mu.Lock()
			l.writeErr, l.closing = err, true
			l.announce()
			l.mu.Unlock()
		}
		if err != nil || closing {
			err := l.toCartridge.Close()
			_ = err // the pipe may be broken: that is what some tests are about
			return
		}
		<-l.wake
	}
}

// announce wakes whoever waits; l.mu is held.
func (l *Link) announce() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// queue appends bytes for the cartridge; l.mu is held. After a write error or CloseInput they go nowhere.
func (l *Link) queue(wire []byte) {
	if l.closing {
		return
	}
	l.judge(cartridgetest.ToCartridge, wire)
	l.unwritten = append(l.unwritten, wire)
	l.bytes += len(wire)
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

func (l *Link) judge(d cartridgetest.Direction, wire []byte) {
	if l.check == nil {
		return
	}
	if _, err := l.check.Tap(d, nil).Write(wire); err != nil {
		l.t.Errorf("peer: the judge: %v", err)
	}
}

// remember keeps the last frames for messages; l.mu is held.
func (l *Link) remember(arrow string, f Frame) {
	if len(l.trace) == traceLength {
		l.trace = append(l.trace[:0], l.trace[1:]...)
	}
	if p := f.Payload(); len(p) > 64 {
		f = f.With(KeyPayload, append([]byte(nil), p[:64]...))
	}
	l.trace = append(l.trace, traced{arrow, f})
}

// Send sends a frame as it is. It waits while the cartridge does not read.
func (l *Link) Send(f Frame) {
	l.t.Helper()
	l.await("the cartridge to read its input", func() bool { return l.bytes < maxUnwritten || l.closing })
	l.mu.Lock()
	l.remember("h2c", f)
	l.queue(f.Encode())
	l.mu.Unlock()
}

// SendWire sends the bytes of frames as they are.
func (l *Link) SendWire(wire []byte) {
	l.t.Helper()
	l.await("the cartridge to read its input", func() bool { return l.bytes < maxUnwritten || l.closing })
	l.mu.Lock()
	l.queue(wire)
	l.mu.Unlock()
}

// SendBroken sends bytes that break the link on purpose. From here on nothing that the host sends is judged.
func (l *Link) SendBroken(wire []byte) {
	l.t.Helper()
	if l.check != nil {
		l.check.ExcuseBytes()
	}
	l.SendWire(wire)
}

// SendHex is SendWire for bytes in hexadecimal; spaces are ignored.
func (l *Link) SendHex(text string) {
	l.t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(text, " ", ""))
	if err != nil {
		l.t.Fatalf("peer: %q: %v", text, err)
	}
	l.SendWire(b)
}

// Excuse says that the host breaks rules with this id on purpose. The cartridge is judged all the same.
func (l *Link) Excuse(id any) {
	if l.check == nil {
		return
	}
	switch id := id.(type) {
	case uint64:
		l.check.Excuse(frame.UintID(id))
	case []byte:
		l.check.Excuse(frame.UUIDFrom([16]byte(id)))
	}
}

// CloseInput ends the cartridge's input behind everything that was sent.
func (l *Link) CloseInput() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closing = true
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// CloseOutput closes the host's end of the cartridge's output: what the cartridge writes from now on fails.
func (l *Link) CloseOutput() {
	l.t.Helper()
	if err := l.toHost.Close(); err != nil {
		l.t.Errorf("peer: closing the cartridge's output: %v", err)
	}
	<-l.readDone
}

// await waits until ready, which is called with l.mu held. The failure shows what.
func (l *Link) await(what string, ready func() bool) {
	l.t.Helper()
	if late := l.awaitWithin(l.opts.patience, ready); late != "" {
		l.fatal(what, late)
	}
}

// awaitWithin waits until ready; otherwise it says why it gave up: the time is over, or nothing more can come.
func (l *Link) awaitWithin(d time.Duration, ready func() bool) (late string) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for {
		l.mu.Lock()
		ok, readErr, changed := ready(), l.readErr, l.changed
		l.mu.Unlock()
		switch {
		case ok:
			return ""
		case readErr != nil:
			return "the cartridge's output has ended: " + readErr.Error()
		}
		select {
		case <-changed:
		case <-timer.C:
			return "it did not come within " + d.String()
		}
	}
}

// fatal fails the test: what was awaited, why it will not come, and what came instead.
func (l *Link) fatal(what, why string) {
	l.t.Helper()
	l.mu.Lock()
	var b strings.Builder
	for _, e := range l.trace {
		b.WriteString("\n  " + e.arrow + " " + e.frame.String())
	}
	l.mu.Unlock()
	l.t.Fatalf("peer: awaited %s: %s%s\nthe last frames:%s", what, why, l.more(), b.String())
}

// Await waits for the first frame that belongs to no known request and matches, and takes it out.
func (l *Link) Await(what string, match func(Frame) bool) (found Frame) {
	l.t.Helper()
	l.await(what, func() bool {
		for i, f := range l.inbox {
			if match(f) {
				found = f
				l.inbox = append(l.inbox[:i:i], l.inbox[i+1:]...)
				return true
			}
		}
		return false
	})
	return found
}

// Unclaimed are the frames that belong to no known request and were not taken.
func (l *Link) Unclaimed() []Frame {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]Frame(nil), l.inbox...)
}

// AwaitEnd waits for the end of the cartridge's output and returns what ended it, io.EOF between two frames.
func (l *Link) AwaitEnd() error {
	l.t.Helper()
	select {
	case <-l.readDone:
	case <-time.After(l.opts.patience):
		l.fatal("the end of the cartridge's output", "it did not come within "+l.opts.patience.String())
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.readErr
}
