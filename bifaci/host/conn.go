package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/pools"
	"github.com/pipe-cartridge/pipe/stages"
)

// ErrClosed is what calls get after Close.
var ErrClosed = errors.New("host: the connection is closed")

// Conn is a live link to one cartridge. Safe for concurrent use.
type Conn struct {
	opts     options
	hello    HandshakeResult
	link     stages.Link
	pool     stages.Pool
	lanes    *stages.Lanes
	dec      *stages.Decoder
	in       io.Reader
	out      io.Writer
	readEnd  chan struct{} // closed when the reader has returned
	writeEnd chan struct{} // closed when the writer has returned

	drops      stats.Drops
	stragglers stats.Stragglers

	mu         sync.Mutex
	calls      map[frame.ID]*Call
	recent     stats.Recent[frame.ID]
	probes     map[frame.ID]chan probeResult
	xid        uint64
	states     pools.States
	err        error         // why the link has ended
	policySent chan struct{} // closed by the first policy
	hasPolicy  bool
}

// probeResult is the answer to a heartbeat probe.
type probeResult struct {
	reply frame.HeartbeatReply
	err   error
}

// frameDecoder is a stages.Decoder as a frameReader, for the time before the link is live.
type frameDecoder struct {
	d *stages.Decoder
	f frame.Frame
}

func (d *frameDecoder) Next() (*frame.Frame, error) {
	_, err := d.d.Next(&d.f) // a block is the collector's
	return &d.f, err
}

func (d *frameDecoder) SetMaxFrame(n uint64) { d.d.SetMaxFrame(n) }

// Connect makes a live link of two streams: handshake, identity check, policy. It owns both from then on: Close
// closes out if it is an io.Closer, and interrupts in through its Interrupt or Close method.
func Connect(ctx context.Context, in io.Reader, out io.Writer, opts ...Option) (*Conn, error) {
	o := newOptions(opts)
	c := &Conn{opts: o, in: in, out: out, readEnd: make(chan struct{}), writeEnd: make(chan struct{}),
		calls: make(map[frame.ID]*Call), probes: make(map[frame.ID]chan probeResult), policySent: make(chan struct{})}
	c.dec = stages.NewDecoder(in, &c.pool, frame.DefaultLimits().MaxFrame)
	if err := c.becomeLive(ctx); err != nil {
		return nil, err
	}
	c.lanes = stages.NewLanes(out, c.hello.Limits.MaxFrame, counters{c})
	c.link.Lanes, c.link.Pool, c.link.Decoder, c.link.Limits = c.lanes, &c.pool, c.dec, c.hello.Limits
	c.states = c.hello.Pools
	go c.write() // ends after Close or with a write error
	if o.policy != nil {
		if err := c.SetPolicy(*o.policy); err != nil {
			c.Close()
			return nil, err
		}
	}
	go c.read() // ends with the input
	return c, nil
}

// becomeLive makes the handshake and the identity check within their time limits.
func (c *Conn) becomeLive(ctx context.Context) error {
	r := &frameDecoder{d: c.dec}
	write := func(f *frame.Frame) error {
		if err := frame.CheckSize(f, len(f.Payload), c.limit()); err != nil {
			return err
		}
		_, err := c.out.Write(frame.Append(nil, f))
		return err
	}
	err := c.within(ctx, c.opts.helloTimeout, "the cartridge sent no hello", func(ctx context.Context) (err error) {
		c.hello, err = handshake(ctx, r, write, c.opts.limits)
		return err
	})
	if err != nil {
		return err
	}
	return c.within(ctx, c.opts.identityTimeout, "the cartridge did not answer the identity check", func(ctx context.Context) error {
		return verifyIdentity(ctx, r, write)
	})
}

func (c *Conn) limit() uint64 {
	if c.hello.Limits.MaxFrame == 0 {
		return frame.DefaultLimits().MaxFrame
	}
	return c.hello.Limits.MaxFrame
}

// within runs step with a time limit; the reader is interrupted when it is over, so that a blocked read returns.
func (c *Conn) within(ctx context.Context, limit time.Duration, late string, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s within %v", late, limit))
	defer cancel()
	stop := context.AfterFunc(ctx, func() { interrupt(c.in) })
	err := step(ctx)
	if !stop() && err == nil {
		err = context.Cause(ctx) // too late by a hair: the reader is lost
	}
	return err
}

// interrupt makes a blocked Read return, if r lets it.
func interrupt(r io.Reader) {
	switch r := r.(type) {
	case interface{ Interrupt() }:
		r.Interrupt()
	case io.Closer:
		err := r.Close()
		_ = err // it was closed to be interrupted; the cause of the end is reported
	}
}

// counters counts for the lanes.
type counters struct{ c *Conn }

func (n counters) Straggler(t frame.Type)     { n.c.stragglers.Add(uint8(t), 1) }
func (n counters) ChannelClosed(t frame.Type) { n.c.drops.Add(stats.ChannelClosed, uint8(t), 1) }

// Hello is what the handshake agreed on.
func (c *Conn) Hello() HandshakeResult { return c.hello }

// Pools are the cartridge's pool states, of its HELLO or of its latest heartbeat reply.
func (c *Conn) Pools() pools.States {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.states
}

// Stats are the counters of a link.
type Stats struct {
	FramesIn, FramesOut uint64 // in: from the cartridge
	BytesIn, BytesOut   uint64 // with the length prefixes
	CreditWaits         uint64 // how often a sender of the host waited for credit
	CreditWaited        time.Duration
	Drops               stats.DropSnapshot
	Stragglers          stats.StragglerSnapshot
}

// Stats are the link's counters so far, without the handshake's own writes.
func (c *Conn) Stats() Stats {
	s := Stats{Drops: c.drops.Snapshot(), Stragglers: c.stragglers.Snapshot(), CreditWaits: c.link.CreditWaits.Load(),
		CreditWaited: time.Duration(c.link.CreditWaitNanos.Load())}
	s.FramesIn, s.BytesIn = c.dec.Counts()
	s.FramesOut, s.BytesOut = c.lanes.Counts()
	return s
}

// SetPolicy sends a network policy, which replaces the one before at once, also for running handlers.
func (c *Conn) SetPolicy(p bifaci.Policy) error {
	if !p.Valid() {
		return errors.New("host: a policy needs a name")
	}
	if err := c.put(frame.NewPolicy(p)); err != nil {
		return err
	}
	c.mu.Lock()
	first := !c.hasPolicy
	c.hasPolicy = true
	c.mu.Unlock()
	if first {
		close(c.policySent)
	}
	return nil
}

// put appends a frame of the host's own to the data lane, where it keeps its place before and behind requests.
func (c *Conn) put(f *frame.Frame) error {
	b, err := c.lanes.Own()
	if err != nil {
		return err
	}
	var none stages.Flow
	none.Init(f.ID, f.Routing)
	err = b.Put(&none, f, nil)
	b.EndOwn(1)
	return err
}

// write is the writer.
func (c *Conn) write() {
	defer close(c.writeEnd)
	err := c.lanes.Run(func(err error) error { return fmt.Errorf("host: writing to the cartridge: %w", err) })
	if err != nil {
		c.end(err)
	}
	if closer, ok := c.out.(io.Closer); ok {
		if err := closer.Close(); err != nil {
			c.opts.log.Debug("closing the cartridge's input", "error", err)
		}
	}
}

// read is the reader: it hands every frame to its call and never waits for a consumer.
func (c *Conn) read() {
	defer close(c.readEnd)
	var f frame.Frame
	for {
		block, err := c.dec.Next(&f)
		if err == nil {
			err = c.dispatch(&f, block)
		}
		if err != nil {
			if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				err = failure.New(failure.CartridgeDied, failure.Environment, "the cartridge has ended its output")
			}
			c.end(err)
			return
		}
	}
}

// violation is a breach that ends the link.
func violation(format string, args ...any) error {
	return failure.Newf(failure.ProtocolError, failure.Internal, format, args...)
}

func (c *Conn) dispatch(f *frame.Frame, block *stages.Block) error {
	switch f.Type {
	case frame.TypeHeartbeat:
		defer block.Release()
		return c.heartbeat(f)
	case frame.TypeHello, frame.TypePolicy, frame.TypeRelayNotify, frame.TypeRelayState:
		block.Release()
		return violation("the cartridge sent a %s frame", f.Type)
	case frame.TypeReq:
		defer block.Release()
		return c.peer(f)
	}
	c.mu.Lock()
	call := c.calls[f.ID]
	recent := call == nil && c.recent.Contains(f.ID)
	var probe chan probeResult
	if call == nil && f.Type == frame.TypeErr {
		probe = c.takeProbe(f.ID)
	}
	c.mu.Unlock()
	switch {
	case call != nil:
		call.Deliver(f, block)
		return nil
	case probe != nil: // the answer to a refused batch of capacities
		defer block.Release()
		e, err := f.Failure()
		if err != nil {
			return violation("the ERR in answer to a probe: %w", err)
		}
		probe <- probeResult{err: &failure.Remote{Failure: *e}}
		return nil
	case recent:
		c.stragglers.Add(uint8(f.Type), 1)
	default:
		c.drops.Add(stats.NoRoute, uint8(f.Type), 1)
	}
	block.Release()
	return nil
}

// peer answers a call of the cartridge: nobody else is here to serve it.
func (c *Conn) peer(f *frame.Frame) error {
	if !f.Routing.IsZero() {
		return violation("the cartridge sent a REQ with a routing id")
	}
	e := failure.Newf(failure.NoHandler, failure.Environment, "No handler registered for cap: %s", f.Cap)
	var refusal frame.Frame
	refusal.Reset(frame.TypeErr, f.ID)
	refusal.Meta = frame.AppendErrMeta(nil, e)
	refusal.Has = refusal.Has.With(frame.KeyMeta)
	c.mu.Lock()
	c.recent.Add(f.ID)
	c.mu.Unlock()
	return c.put(&refusal)
}

// end ends the link and every call on it. The first reason stands.
func (c *Conn) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	calls := make([]*Call, 0, len(c.calls))
	for _, call := range c.calls {
		calls = append(calls, call)
	}
	probes := c.probes
	c.probes = nil
	c.mu.Unlock()
	for _, call := range calls {
		call.Lost(err)
	}
	for _, p := range probes {
		p <- probeResult{err: err}
	}
	c.lanes.Close()
}

// Err is why the link has ended, or nil.
func (c *Conn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// Done is closed when the link's reader has returned: nothing more will come.
func (c *Conn) Done() <-chan struct{} { return c.readEnd }

// CloseInput ends the cartridge's input after everything that was sent; answers still come. No call can be made afterwards.
func (c *Conn) CloseInput() { c.lanes.Close() }

// Close ends the link: unfinished calls fail with [ErrClosed], the cartridge's input is closed, and its output is read no
// more. It waits for the link's goroutines. A reader that ignores interruption may cost its one goroutine.
func (c *Conn) Close() {
	c.end(ErrClosed)
	interrupt(c.in)
	if i, ok := c.out.(interface{ Interrupt() }); ok {
		i.Interrupt()
	}
	<-c.writeEnd
	c.link.Close()
}
