package host

import (
	"errors"
	"io"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/stages"
)

// maxNamedCap is how much of a capability's name goes into a refusal, bytes.
const maxNamedCap = 512

// read is the reader: it hands every frame to its call and never waits for a consumer.
func (c *Conn) read() {
	defer close(c.readEnd)
	var f frame.Frame
	for {
		// A cartridge that floods the host and does not read what it gets stops itself.
		err := c.lanes.WaitOwn(c.ctx, nil)
		var block *stages.Block
		if err == nil {
			block, err = c.dec.Next(&f)
		}
		if err == nil {
			err = c.dispatch(&f, block)
		}
		if err != nil {
			c.end(c.died(lastWord(err)))
			return
		}
	}
}

// lastWord is the identity of what ended the reader.
func lastWord(err error) *failure.Failure {
	var syntax *frame.SyntaxError
	var known *failure.Failure
	switch {
	case errors.As(err, &known):
		return known
	case errors.Is(err, io.ErrUnexpectedEOF):
		return failure.Newf(failure.CartridgeDied, failure.Environment, "the cartridge has ended its output inside a frame: %w", err)
	case errors.Is(err, io.EOF):
		// io.EOF itself must not be in the chain: to who reads an answer it is the clean end.
		return failure.New(failure.CartridgeDied, failure.Environment, "the cartridge has ended its output")
	case errors.As(err, &syntax):
		return violation("what the cartridge sent is no frame: %w", err)
	}
	return failure.Newf(failure.CartridgeDied, failure.Environment, "reading from the cartridge: %w", err)
}

// violation is a breach that ends the link.
func violation(format string, args ...any) *failure.Failure {
	return failure.Newf(failure.ProtocolError, failure.Internal, format, args...)
}

// dispatch brings one frame to where it belongs. An error ends the link.
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
	var r *relay
	if f.Routing.IsZero() && f.Type != frame.TypeCloseStream { // of its own call
		r = c.peers[f.ID]
	}
	call := c.served[f.ID]
	recent := call == nil && c.recent.Contains(f.ID)
	var probe chan probeResult
	answer := false
	if call == nil && f.Type == frame.TypeErr {
		probe, answer = c.takeProbe(f.ID)
	}
	c.mu.Unlock()
	switch {
	case r != nil:
		r.fromCaller(f, block)
		return nil
	case call != nil && (f.Type == frame.TypeCancel || f.Type == frame.TypeCloseStream):
		c.drop(stats.NoRoute, f.Type) // for calls of the cartridge only, and this is one of ours
	case call != nil && f.Routing != call.routing():
		call.violated(misrouted(f, call.routing()))
	case call != nil:
		call.deliver(f, block)
		return nil
	case answer: // a refused batch of capacities
		defer block.Release()
		return refused(probe, f)
	case recent:
		c.stragglers.Add(uint8(f.Type), 1)
	default:
		c.drop(stats.NoRoute, f.Type)
	}
	block.Release()
	return nil
}

// misrouted is the fault of an answer that does not carry its routing id: such a frame belongs to something else.
func misrouted(f *frame.Frame, want frame.ID) *failure.Failure {
	got := "none"
	if !f.Routing.IsZero() {
		got = f.Routing.String()
	}
	return violation("the %s of an answer has the routing id %s, want %s", f.Type, got, want)
}

func (call *Call) violated(fault *failure.Failure) {
	call.Abandon(fault, failure.HostAbort(failure.Internal, fault.Message))
}

// peer takes a call of the cartridge. Without a [Host] nobody else is here to serve it.
func (c *Conn) peer(f *frame.Frame) error {
	if !f.Routing.IsZero() {
		return violation("the cartridge sent a REQ with a routing id")
	}
	if c.opts.peer != nil {
		return c.opts.peer(c, f)
	}
	c.refuse(f.ID, frame.ID{}, noHandler(f.Cap))
	return nil
}

// noHandler says that nobody serves a cap.
func noHandler(capURN []byte) *failure.Failure {
	return failure.Newf(failure.NoHandler, failure.Environment, "No handler registered for cap: %.*s", maxNamedCap, capURN)
}

// refuse answers a REQ of the cartridge that never becomes a request.
func (c *Conn) refuse(id, routing frame.ID, e *failure.Failure) {
	var refusal frame.Frame
	refusal.Reset(frame.TypeErr, id)
	refusal.Meta = frame.AppendErrMeta(nil, e)
	refusal.Has = refusal.Has.With(frame.KeyMeta)
	refusal.WithRouting(routing)
	c.mu.Lock()
	c.recent.Add(id)
	c.mu.Unlock()
	if err := c.put(&refusal); err != nil {
		c.opts.log.Debug("a call of the cartridge could not be refused", "error", err) // the writer ends the link
	}
}
