package cartridgetest

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/pprof"
	"strings"
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
	h.base, _ = goroutines(h.label)
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

// WantIdle makes sure that nothing is left behind of the requests so far: each has its terminal, unless the link was broken, no
// pool has one active or in line, and no goroutine that a request started is left.
func (h *Host) WantIdle() {
	h.t.Helper()
	h.mu.Lock()
	requests := h.order
	if h.broken {
		requests = nil
	}
	h.mu.Unlock()
	for _, d := range requests {
		h.awaitOf(d, "the terminal of every request", func() bool { return d.in.terminal != nil })
	}
	select {
	case <-h.served: // Wait has seen the pools empty; only goroutines can be left
		h.wantGoroutines(0)
		return
	default:
	}
	var busy string
	h.poll("every pool to be empty", func() bool {
		busy = ""
		for name, p := range h.Probe().Pools {
			if p.Active > 0 || p.Queued > 0 {
				busy = fmt.Sprintf("pool %s has %d active and %d in line", name, p.Active, p.Queued)
			}
		}
		return busy == ""
	}, func() string { return busy })
	h.wantGoroutines(h.base)
}

func (h *Host) wantGoroutines(most int) {
	h.t.Helper()
	var n int
	var stacks string
	h.poll("the goroutines of requests to end", func() bool {
		n, stacks = goroutines(h.label)
		return n <= most
	}, func() string {
		return fmt.Sprintf("%d goroutines of the cartridge, %d without a request:\n%s", n, most, stacks)
	})
}

// poll asks until the answer is yes, less and less often.
func (h *Host) poll(what string, ask func() bool, instead func() string) {
	h.t.Helper()
	late := time.After(h.opts.patience)
	for pause := time.Millisecond; !ask(); pause *= 2 {
		select {
		case <-late:
			h.t.Fatalf("cartridgetest: waited %v for %s: %s", h.opts.patience, what, instead())
		case <-time.After(min(pause, h.opts.patience/16)):
		}
	}
}

// goroutines counts the goroutines with a label, and gives their stacks.
func goroutines(label string) (n int, stacks string) {
	var b strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return 0, err.Error()
	}
	want := fmt.Sprintf("%q:%q", "cartridgetest", label)
	for block := range strings.SplitSeq(b.String(), "\n\n") {
		if !strings.Contains(block, want) {
			continue
		}
		var k int
		if _, err := fmt.Sscanf(block, "%d @", &k); err != nil {
			continue
		}
		n += k
		stacks += block + "\n"
	}
	return n, stacks
}

// Pulse is the answer to a heartbeat probe.
type Pulse struct {
	Pools                        map[string]Pool
	Drops, Stragglers, Overruns  uint64
	FootprintMB, ResidentSetSize uint64 // MiB; 0 where the platform cannot tell
}

// Pool is the state of one pool, as the cartridge reports it.
type Pool struct {
	Declared, Configured, Active, Queued uint64
	Available                            *uint64
	Caps                                 []string
}

// Probe sends a heartbeat probe and waits for its answer.
func (h *Host) Probe() Pulse {
	h.t.Helper()
	return h.pulse(h.heartbeat(nil))
}

// SetCapacities is Probe with capacities that the operator wants, pool by pool.
func (h *Host) SetCapacities(desired map[string]uint64) Pulse {
	h.t.Helper()
	b, err := json.Marshal(desired)
	if err != nil {
		h.t.Fatalf("cartridgetest: %v", err)
	}
	return h.pulse(h.heartbeat(b))
}

// WantRefused sends a probe with desired capacities, any bytes, and waits for the ERR in place of the answer. It returns the
// message.
func (h *Host) WantRefused(desired []byte, code string) (message string) {
	h.t.Helper()
	f := h.heartbeat(desired)
	if f.Type() != frame.TypeErr || f.Failure().Code != code {
		h.t.Fatalf("cartridgetest: the answer to capacities %q is %s, want an ERR %s", desired, f, code)
	}
	return f.Failure().Message
}

// heartbeat sends a probe and gives the answer.
func (h *Host) heartbeat(desired []byte) (answer Frame) {
	h.t.Helper()
	h.mu.Lock()
	h.probe++
	id := frame.UintID(1<<40 + h.probe)
	h.mu.Unlock()
	h.send(HeartbeatFrame(desired).With(frame.KeyID, idValue(id)), false)
	return h.Answer(id)
}

// Answer waits for a frame that belongs to no request of the host: an answer to a probe, or an ERR for an id that a test made up.
func (h *Host) Answer(id frame.ID) (answer Frame) {
	h.t.Helper()
	h.await("an answer with id "+id.String(), func() bool {
		if len(h.answers[id]) == 0 {
			return false
		}
		answer, h.answers[id] = h.answers[id][0], h.answers[id][1:]
		return true
	})
	return answer
}

func (h *Host) pulse(f Frame) (p Pulse) {
	h.t.Helper()
	if f.Type() != frame.TypeHeartbeat {
		h.t.Fatalf("cartridgetest: the answer to a probe is %s", f)
	}
	m := f.Meta()
	raw, _ := m["pools"].([]byte)
	if err := json.Unmarshal(raw, &p.Pools); err != nil {
		h.t.Fatalf("cartridgetest: the pools of %s: %v", f, err)
	}
	for key, at := range map[string]*uint64{"drops_total": &p.Drops, "stragglers_total": &p.Stragglers,
		"overruns_total": &p.Overruns, "footprint_mb": &p.FootprintMB, "rss_mb": &p.ResidentSetSize} {
		*at, _ = m[key].(uint64)
	}
	return p
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

// await waits until the link is as wanted; ok is called under the lock.
func (h *Host) await(what string, ok func() bool) {
	h.t.Helper()
	h.awaitOf(nil, what, ok)
}

// awaitOf is await for something that d is to bring.
func (h *Host) awaitOf(d *dialogue, what string, ok func() bool) {
	h.t.Helper()
	var late <-chan time.Time
	for {
		h.mu.Lock()
		if ok() {
			h.mu.Unlock()
			return
		}
		changed, over := h.changed, h.readErr != nil
		h.mu.Unlock()
		if over {
			h.fatal(what, d)
		}
		if late == nil {
			late = time.After(h.opts.patience)
		}
		select {
		case <-changed:
		case <-late:
			h.fatal(what, d)
		}
	}
}

// fatal fails the test with what was awaited and what came instead.
func (h *Host) fatal(what string, d *dialogue) {
	h.t.Helper()
	h.mu.Lock()
	end := h.readErr
	h.mu.Unlock()
	var b strings.Builder
	if end != nil {
		fmt.Fprintf(&b, "the link has ended (%v) before %s", end, what)
	} else {
		fmt.Fprintf(&b, "waited %v for %s", h.opts.patience, what)
	}
	if d != nil {
		fmt.Fprintf(&b, " of request %s", short(d.id))
	}
	select {
	case <-h.served:
		fmt.Fprintf(&b, "; Serve returned %v", h.serveErr)
	default:
	}
	b.WriteString("; the last frames of the link were:\n\t")
	b.WriteString(strings.Join(h.check.Trace(), "\n\t"))
	h.t.Fatalf("cartridgetest: %s", b.String())
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
