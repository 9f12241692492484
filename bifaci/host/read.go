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
		block, err := c.dec.Next(&f)
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
	call := c.calls[f.ID]
	recent := call == nil && c.recent.Contains(f.ID)
	var probe chan probeResult
	answer := false
	if call == nil && f.Type == frame.TypeErr {
		probe, answer = c.takeProbe(f.ID)
	}
	c.mu.Unlock()
	switch {
	case call != nil && (f.Type == frame.TypeCancel || f.Type == frame.TypeCloseStream):
		c.drop(stats.NoRoute, f.Type) // for calls of the cartridge only, and this is one of ours
	case call != nil && f.Routing != call.Routing():
		call.misrouted(f)
	case call != nil:
		call.Deliver(f, block)
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

// misrouted fails a call whose answer does not carry its routing id: such a frame belongs to something else.
func (call *Call) misrouted(f *frame.Frame) {
	got := "none"
	if !f.Routing.IsZero() {
		got = f.Routing.String()
	}
	fault := violation("the %s of an answer has the routing id %s, want %s", f.Type, got, call.Routing())
	call.Abandon(fault, failure.HostAbort(failure.Internal, fault.Message))
}

// peer answers a call of the cartridge: nobody else is here to serve it.
func (c *Conn) peer(f *frame.Frame) error {
	if !f.Routing.IsZero() {
		return violation("the cartridge sent a REQ with a routing id")
	}
	e := failure.Newf(failure.NoHandler, failure.Environment, "No handler registered for cap: %.*s", maxNamedCap, f.Cap)
	var refusal frame.Frame
	refusal.Reset(frame.TypeErr, f.ID)
	refusal.Meta = frame.AppendErrMeta(nil, e)
	refusal.Has = refusal.Has.With(frame.KeyMeta)
	c.mu.Lock()
	c.recent.Add(f.ID)
	c.mu.Unlock()
	if err := c.put(&refusal); err != nil {
		c.opts.log.Debug("a call of the cartridge could not be refused", "error", err) // the writer ends the link
	}
	return nil
}
