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
	over     chan struct{} // closed when the link has ended, for whatever reason: err is set

	drops      stats.Drops
	stragglers stats.Stragglers

	ctx  context.Context // ends with the link
	stop context.CancelFunc

	mu         sync.Mutex
	served     map[frame.ID]served // the requests that the cartridge serves, by their id on this link
	peers      map[frame.ID]*relay // the calls that the cartridge makes; a frame of theirs has no routing id
	recent     stats.Recent[frame.ID]
	cancelled  cancelledRing
	verdict    *failure.Failure              // why the host ends the cartridge
	probes     map[frame.ID]chan probeResult // nil for one that was given up and is not answered yet
	xid        uint64
	states     pools.States
	closing    bool          // no call can be made any more
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

// Connect makes a live link of two streams: handshake, identity check, policy. It owns both from then on, also when it
// fails: out is closed if it is an io.Closer, and in is interrupted through its Interrupt or Close method. A stream that ignores
// this may cost a goroutine, never the return within the time limits.
func Connect(ctx context.Context, in io.Reader, out io.Writer, opts ...Option) (*Conn, error) {
	return connect(ctx, in, out, newOptions(opts))
}

func connect(ctx context.Context, in io.Reader, out io.Writer, o options) (*Conn, error) {
	c := &Conn{opts: o, in: in, out: out, readEnd: make(chan struct{}), writeEnd: make(chan struct{}), over: make(chan struct{}),
		served: make(map[frame.ID]served), peers: make(map[frame.ID]*relay), probes: make(map[frame.ID]chan probeResult), policySent: make(chan struct{})}
	c.ctx, c.stop = context.WithCancel(context.Background())
	c.dec = stages.NewDecoder(in, &c.pool, frame.DefaultLimits().MaxFrame)
	if err := c.becomeLive(ctx); err != nil {
		interrupt(in)
		interrupt(out)
		c.closeOut()
		c.stop()
		return nil, err
	}
	c.lanes = stages.NewLanes(out, c.hello.Limits.MaxFrame, counters{c})
	c.link.Lanes, c.link.Pool, c.link.Decoder, c.link.Limits = c.lanes, &c.pool, c.dec, c.hello.Limits
	c.states = c.hello.Pools
	if o.admitted != nil {
		o.admitted(c) // before the first frame can come
	}
	go c.write() // ends after Close or with a write error
	go c.read()  // ends with the input
	if o.policy != nil {
		if err := c.SetPolicy(*o.policy); err != nil {
			c.Close()
			return nil, err
		}
	}
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
	err := within(ctx, c.opts.helloTimeout, bifaci.ErrHandshake, "the cartridge sent no hello", func(ctx context.Context) (err error) {
		c.hello, err = handshake(ctx, r, write, c.opts.limits)
		return err
	})
	if err != nil {
		return err
	}
	return within(ctx, c.opts.identityTimeout, ErrIdentity, "the cartridge did not answer the identity check", func(ctx context.Context) error {
		return verifyIdentity(ctx, r, write)
	})
}

func (c *Conn) limit() uint64 {
	if c.hello.Limits.MaxFrame == 0 {
		return frame.DefaultLimits().MaxFrame
	}
	return c.hello.Limits.MaxFrame
}

// within runs step with a time limit. When that is over, or ctx ends, it returns without waiting for step, whose streams the
// caller then interrupts.
func within(ctx context.Context, limit time.Duration, what error, late string, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s within %v", late, limit))
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- step(ctx) }() // ends with its streams
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", what, context.Cause(ctx))
	}
}

// counters counts for the lanes.
type counters struct{ c *Conn }

func (n counters) Straggler(t frame.Type)     { n.c.stragglers.Add(uint8(t), 1) }
func (n counters) ChannelClosed(t frame.Type) { n.c.drops.Add(stats.ChannelClosed, uint8(t), 1) }

func (c *Conn) drop(r stats.Reason, t frame.Type) { c.drops.Add(r, uint8(t), 1) }

// lost counts a frame of a call that was not delivered.
func (c *Conn) lost(t frame.Type, fate stats.Fate) {
	if fate == stats.Straggled {
		c.stragglers.Add(uint8(t), 1)
	} else if reason, ok := fate.Reason(); ok {
		c.drop(reason, t)
	}
}

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
