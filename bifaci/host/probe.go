package host

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/pools"
)

// Probe sends a heartbeat and waits for its answer. desired, when not nil, are the operator's capacities; a refused batch is a
// [*failure.Remote] with the code UNKNOWN_POOL and changes nothing.
func (c *Conn) Probe(ctx context.Context, desired pools.Desired) (frame.HeartbeatReply, error) {
	var f frame.Frame
	f.Reset(frame.TypeHeartbeat, frame.NewUUID())
	if desired != nil {
		b, err := json.Marshal(desired)
		if err != nil {
			return frame.HeartbeatReply{}, err
		}
		f.Meta = frame.AppendDesiredMeta(nil, b)
		f.Has = f.Has.With(frame.KeyMeta)
	}
	answer := make(chan probeResult, 1)
	c.mu.Lock()
	if c.err != nil {
		err := c.err
		c.mu.Unlock()
		return frame.HeartbeatReply{}, err
	}
	c.probes[f.ID] = answer
	c.mu.Unlock()
	if err := c.lanes.Control(&f); err != nil {
		c.mu.Lock()
		delete(c.probes, f.ID)
		c.mu.Unlock()
		return frame.HeartbeatReply{}, err
	}
	select {
	case r := <-answer:
		return r.reply, r.err
	case <-ctx.Done():
		c.mu.Lock()
		delete(c.probes, f.ID)
		c.mu.Unlock()
		return frame.HeartbeatReply{}, context.Cause(ctx)
	}
}

// takeProbe takes the waiting probe with this id; c.mu is held.
func (c *Conn) takeProbe(id frame.ID) chan probeResult {
	p := c.probes[id]
	delete(c.probes, id)
	return p
}

// heartbeat takes a reply to a probe of ours, or answers one of the cartridge's.
func (c *Conn) heartbeat(f *frame.Frame) error {
	c.mu.Lock()
	probe := c.takeProbe(f.ID)
	c.mu.Unlock()
	if probe == nil {
		var reply frame.Frame
		reply.Reset(frame.TypeHeartbeat, f.ID)
		return c.lanes.Control(&reply)
	}
	reply, err := f.HeartbeatReply()
	if err != nil {
		return violation("a heartbeat reply: %w", err)
	}
	reply.Pools = bytes.Clone(reply.Pools)
	states, err := pools.DecodeStates(reply.Pools)
	if err != nil {
		return violation("a heartbeat reply: pools: %w", err)
	}
	c.mu.Lock()
	c.states = states
	c.mu.Unlock()
	probe <- probeResult{reply: reply}
	return nil
}
