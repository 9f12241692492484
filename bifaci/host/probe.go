package host

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/pools"
)

// Probe sends a heartbeat and waits for its answer. desired, when not nil, are the operator's capacities; a refused batch is a
// [*failure.Remote] with the code UNKNOWN_POOL and changes nothing. It ends early with ctx, or with the link. Safe for concurrent
// use.
func (c *Conn) Probe(ctx context.Context, desired pools.Desired) (frame.HeartbeatReply, error) {
	return c.probe(ctx, desired, false)
}

// probe is Probe; in order, the heartbeat does not overtake what was sent before it.
func (c *Conn) probe(ctx context.Context, desired pools.Desired, inOrder bool) (frame.HeartbeatReply, error) {
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
	send := c.lanes.Control
	if inOrder {
		send = c.put
	}
	if err := send(&f); err != nil {
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
		if c.probes[f.ID] != nil {
			c.probes[f.ID] = nil // a late answer must not pass for a probe of the cartridge's: both sides would answer for ever
		}
		c.mu.Unlock()
		return frame.HeartbeatReply{}, context.Cause(ctx)
	}
}

// takeProbe takes the unanswered probe with this id; answer is nil when nobody waits for it any more. c.mu is held.
func (c *Conn) takeProbe(id frame.ID) (answer chan probeResult, ok bool) {
	answer, ok = c.probes[id]
	delete(c.probes, id)
	return answer, ok
}

// settle hands the answer of a probe over.
func settle(answer chan probeResult, r probeResult) {
	if answer != nil {
		answer <- r // it has room for the one answer
	}
}

// refused takes the ERR in place of a reply.
func refused(answer chan probeResult, f *frame.Frame) error {
	e, err := f.Failure()
	if err != nil {
		fault := violation("the ERR in answer to a probe: %w", err)
		settle(answer, probeResult{err: fault})
		return fault
	}
	settle(answer, probeResult{err: &failure.Remote{Failure: *e}})
	return nil
}

// heartbeat takes a reply to a probe of ours, or answers one of the cartridge's.
func (c *Conn) heartbeat(f *frame.Frame) error {
	c.mu.Lock()
	probe, ours := c.takeProbe(f.ID)
	c.mu.Unlock()
	if !ours {
		var reply frame.Frame
		reply.Reset(frame.TypeHeartbeat, f.ID)
		if err := c.lanes.Control(&reply); err != nil {
			c.opts.log.Debug("a heartbeat could not be answered", "error", err) // the writer ends the link
		}
		return nil
	}
	reply, states, err := readReply(f)
	if err != nil {
		fault := violation("a heartbeat reply: %w", err)
		settle(probe, probeResult{err: fault})
		return fault
	}
	c.mu.Lock()
	c.states = states
	c.mu.Unlock()
	settle(probe, probeResult{reply: reply})
	return nil
}

func readReply(f *frame.Frame) (frame.HeartbeatReply, pools.States, error) {
	reply, err := f.HeartbeatReply()
	if err != nil {
		return reply, nil, err
	}
	reply.Pools = bytes.Clone(reply.Pools)
	states, err := pools.DecodeStates(reply.Pools)
	if err != nil {
		return reply, nil, fmt.Errorf("pools: %w", err)
	}
	return reply, states, nil
}
