package cartridgetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime/pprof"
	"sync"
	"testing"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Host is a host in the test's own process: it speaks with a cartridge frame by frame, over pipes in memory, and remembers
// everything. Its methods, and those of its requests, belong to the goroutine of the test: what is awaited and does not come
// fails the test there, with what came instead. At the end of the test the link is ended, and the frames of both directions are
// held to the properties of [Check].
type Host struct {
	t     testing.TB
	opts  options
	check *Check
	label string // of the cartridge's goroutines

	in, out  *pipe // of the cartridge
	cancel   context.CancelCauseFunc
	served   chan struct{} // closed when Serve has returned
	serveErr error         // set before served is closed
	readDone chan struct{} // closed when the host's reader has returned

	mu       sync.Mutex
	changed  chan struct{} // closed and replaced whenever something below, or of a dialogue, changes
	closed   bool          // the cartridge's input was ended
	broken   bool          // answers may be missing: the input or the output was broken on purpose
	hello    Frame
	limits   frame.Limits
	xid      uint64
	probe    uint64
	answers  map[frame.ID][]Frame // to probes, and what belongs to no request
	requests map[frame.ID]*dialogue
	calls    []*PeerCall // of the cartridge, in order
	taken    int         // calls that the test has taken
	order    []*dialogue
	readErr  error // why the reader has ended
	base     int   // goroutines of the idle cartridge
}

// Start serves c to a host and brings the link to life: HELLO both ways, then POLICY. The cartridge is started once, as in a
// process.
func Start(t testing.TB, c *bifaci.Cartridge, opts ...Option) *Host {
	t.Helper()
	h := &Host{t: t, opts: newOptions(t.Context(), opts), check: NewCheck(), served: make(chan struct{}),
		readDone: make(chan struct{}), changed: make(chan struct{}), answers: map[frame.ID][]Frame{}, requests: map[frame.ID]*dialogue{}}
	h.label = fmt.Sprintf("%p", h)
	h.in = newPipe(0, h.opts.readMax, h.check.Tap(ToCartridge, nil))
	h.out = newPipe(outputPipeBytes, 0, h.check.Tap(ToHost, nil))
	h.limits = h.opts.limits
	ctx, cancel := context.WithCancelCause(h.opts.ctx)
	h.cancel = cancel
	go func() { // ends with Serve; end waits for it
		pprof.Do(ctx, pprof.Labels("cartridgetest", h.label), func(ctx context.Context) {
			h.serveErr = c.Serve(ctx, h.in, h.out)
		})
		close(h.served) // first, so that who sees the end of the output knows the reason
		h.out.closeWrite(io.EOF)
	}()
	go h.read() // ends with the cartridge's output
	t.Cleanup(h.end)
	if h.opts.bare {
		return h
	}
	h.send(HelloFrame(h.opts.limits), false)
	h.await("the cartridge's HELLO", func() bool { return h.hello != nil })
	if h.opts.policy != nil {
		h.Policy(*h.opts.policy)
	}
	h.Probe() // both sides are at rest now
	h.base = idleGoroutines
	return h
}

// Hello is the cartridge's HELLO.
func (h *Host) Hello() Frame {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.hello
}

// Limits are the negotiated limits.
func (h *Host) Limits() frame.Limits {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.limits
}

// Check is the judge of the link, for its trace and its breaches so far.
func (h *Host) Check() *Check { return h.check }

// Policy sends a network policy, which replaces the one before.
func (h *Host) Policy(p bifaci.Policy) { h.send(PolicyFrame(p), false) }

// Send sends frames as they are, but for a missing id, which becomes integer 0, and a missing seq, which becomes 0. Use it to
// break rules on purpose: the host's frames with this id are not judged any more.
func (h *Host) Send(frames ...Frame) {
	for _, f := range frames {
		if !f.Has(frame.KeyID) {
			f = f.With(frame.KeyID, uint64(0))
		}
		h.send(f, true)
	}
}

// SendBytes sends bytes that may be no frame. Nothing that the host sends is judged any more, and answers may be missing.
func (h *Host) SendBytes(b []byte) {
	h.check.ExcuseBytes()
	h.mu.Lock()
	h.broken = true
	h.mu.Unlock()
	h.write(b)
}

// CloseInput ends the cartridge's input cleanly, after everything that was sent.
func (h *Host) CloseInput() {
	h.mu.Lock()
	h.closed = true
	h.mu.Unlock()
	h.in.closeWrite(io.EOF)
}

// BreakOutput makes the cartridge's next write fail with err.
func (h *Host) BreakOutput(err error) {
	h.mu.Lock()
	h.broken = true
	h.mu.Unlock()
	h.out.breakRead(err)
}

// AllowUnanswered says that requests may stay without an answer: handlers outlive the link in this test.
func (h *Host) AllowUnanswered() {
	h.mu.Lock()
	h.broken = true
	h.mu.Unlock()
}

// HoldOutput stops the host from reading the cartridge's output, or lets it go on. 64 KiB fit into the pipe meanwhile.
func (h *Host) HoldOutput(on bool) { h.out.hold(on) }

// Unread is how many bytes the cartridge has not read of its input yet.
func (h *Host) Unread() int { return h.in.unread() }

// Stop ends the context of Serve with a cause.
func (h *Host) Stop(cause error) { h.cancel(cause) }

// Wait waits until Serve has returned and everything it wrote was read, and returns its error. It does not end the link: see
// [Host.CloseInput] and [Host.Stop].
func (h *Host) Wait() error {
	h.t.Helper()
	late := time.After(h.opts.patience)
	for _, done := range []chan struct{}{h.served, h.readDone} {
		select {
		case <-done:
		case <-late:
			h.fatal("the end of Serve", nil)
		}
	}
	return h.serveErr
}

// send numbers nothing: f is complete but for an absent seq. forced frames are not judged.
func (h *Host) send(f Frame, forced bool) {
	h.t.Helper()
	if !f.Has(frame.KeySeq) {
		f = f.With(frame.KeySeq, uint64(0))
	}
	if forced {
		h.check.Excuse(f.ID())
	}
	b, err := f.encode()
	if err != nil {
		h.t.Fatalf("cartridgetest: %v", err)
	}
	h.write(b)
}

// write does not complain about a link that has ended: the test finds out by what does not come.
func (h *Host) write(b []byte) {
	_, err := h.in.Write(b)
	if err != nil && !errors.Is(err, io.ErrClosedPipe) {
		h.t.Errorf("cartridgetest: %v", err)
	}
}

// read is the host's reader.
func (h *Host) read() {
	defer close(h.readDone)
	var head [4]byte
	for {
		f, err := func() (Frame, error) {
			if _, err := io.ReadFull(h.out, head[:]); err != nil {
				return nil, err
			}
			body := make([]byte, binary.BigEndian.Uint32(head[:]))
			if _, err := io.ReadFull(h.out, body); err != nil {
				return nil, fmt.Errorf("inside a frame: %w", err)
			}
			return decodeFrame(body)
		}()
		h.mu.Lock()
		if err != nil {
			h.readErr = err
			h.change()
			h.mu.Unlock()
			return
		}
		grant := h.take(f)
		h.change()
		h.mu.Unlock()
		if grant != nil {
			if b, err := grant.encode(); err == nil {
				h.write(b)
			}
		}
	}
}

// change wakes everybody who waits; h.mu is held.
func (h *Host) change() {
	close(h.changed)
	h.changed = make(chan struct{})
}

// take sorts a frame of the cartridge in, and gives the CREDIT that it earns; h.mu is held.
func (h *Host) take(f Frame) (grant Frame) {
	id := f.ID()
	d := h.requests[id]
	switch {
	case f.Type() == frame.TypeHello && h.hello == nil:
		h.hello = f
		for key, at := range map[string]*uint64{"max_frame": &h.limits.MaxFrame, "max_chunk": &h.limits.MaxChunk,
			"max_reorder_buffer": &h.limits.MaxReorderBuffer, "initial_credit": &h.limits.InitialCredit} {
			if n, ok := f.Meta()[key].(uint64); ok {
				*at = min(*at, n)
			}
		}
	case f.Type() == frame.TypeReq && d == nil:
		p := &PeerCall{dialogue: dialogue{h: h, id: id, answers: true, in: newIncoming(f)}, cap: f.Text(frame.KeyCap)}
		h.requests[id] = &p.dialogue
		h.calls = append(h.calls, p)
	case d != nil:
		return d.take(f)
	default:
		h.answers[id] = append(h.answers[id], f)
	}
	return nil
}

// end ends the link when the test is over, and judges it.
func (h *Host) end() {
	h.t.Helper()
	h.out.hold(false)
	h.cancel(errors.New("the test is over"))
	stuck := time.After(h.opts.patience)
	for _, done := range []chan struct{}{h.served, h.readDone} {
		select {
		case <-done:
		case <-stuck:
			_, stacks := goroutines(h.label)
			h.t.Errorf("cartridgetest: Serve does not end when its context does; goroutines of the cartridge:\n%s", stacks)
			h.out.breakRead(errPipeBroken)
			h.out.closeWrite(io.EOF)
			return
		}
	}
	for _, b := range h.check.Breaches() {
		h.t.Errorf("cartridgetest: %s", b)
	}
	h.mu.Lock()
	broken, hello := h.broken, h.hello != nil
	h.mu.Unlock()
	if !broken && hello {
		for _, id := range h.check.Unanswered() {
			h.t.Errorf("cartridgetest: request %s was never answered", id)
		}
	}
}
