package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/pools"
)

// errUnanswered is why a probe is given up that was not answered in time.
var errUnanswered = errors.New("host: the probe was not answered")

// heartbeats probes a live cartridge until its link ends. Each probe has its own time.
func (h *Host) heartbeats(l *life, desired pools.Desired) {
	if len(desired) > 0 {
		if _, err := h.probe(h.ctx, l, desired, true); err != nil {
			h.opts.log.Warn("capacities were refused", "cartridge", l.m.id, "error", err)
		}
	}
	if h.opts.heartbeat <= 0 {
		return
	}
	ticker := time.NewTicker(h.opts.heartbeat)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-l.conn.over:
			return
		case <-h.ctx.Done():
			return
		}
		if _, err := h.probe(h.ctx, l, nil, false); err != nil {
			h.opts.log.Debug("a probe failed", "cartridge", l.m.id, "error", err) // the link has ended, or is about to
		}
	}
}

// probe sends a heartbeat and holds the cartridge to the allowance. first sends it in order behind what was sent before, the policy;
// otherwise it overtakes.
func (h *Host) probe(ctx context.Context, l *life, desired pools.Desired, first bool) (pools.States, error) {
	timed, cancel := context.WithTimeoutCause(ctx, h.opts.allowance, errUnanswered)
	defer cancel()
	reply, err := l.conn.probe(timed, desired, first)
	if errors.Is(err, errUnanswered) {
		l.conn.condemn(failure.Newf(failure.CartridgeUnhealthy, failure.Environment, "the cartridge has not answered a heartbeat within %v", h.opts.allowance))
		return nil, fmt.Errorf("%w within %v", errUnanswered, h.opts.allowance)
	}
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	states := l.conn.Pools()
	if l.m.generation == l.generation {
		l.m.last = vitals{pools: states, reply: reply, at: time.Now()}
		l.m.deaths = 0
	}
	return states, nil
}

// ApplyCapacities sets configured capacities of a cartridge. For one that runs it sends a probe at once and returns its new
// pool states when that was answered, or UNKNOWN_POOL and nothing has changed. For one that does not run it returns nil at once; the
// values ride on a probe right behind the policy when it starts, then and whenever it is started again.
func (h *Host) ApplyCapacities(ctx context.Context, id ID, d pools.Desired) (pools.States, error) {
	h.mu.Lock()
	m, err := h.find(id)
	if err != nil {
		h.mu.Unlock()
		return nil, err
	}
	l := m.life
	if m.state != Live && m.state != Draining {
		m.keepDesired(d)
		h.mu.Unlock()
		return nil, nil
	}
	h.mu.Unlock()
	states, err := h.probe(ctx, l, d, false)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	m.keepDesired(d)
	h.mu.Unlock()
	return states, nil
}

func (m *member) keepDesired(d pools.Desired) {
	all := maps.Clone(m.desired)
	if all == nil {
		all = make(pools.Desired, len(d))
	}
	maps.Copy(all, d)
	m.desired = all
}

// KillCause says why a process is killed.
type KillCause uint8

// The causes.
const (
	Unexplained KillCause = iota // its requests end with CARTRIDGE_DIED/environment
	OutOfMemory                  // a memory watchdog's decision: OOM_KILLED/resource
)

// Kill ends the process of a cartridge at once; an attached link is cut. Its requests end with the cause's code, the next one starts
// it again. It does not wait. Killing one that does not run does nothing.
func (h *Host) Kill(id ID, cause KillCause) error {
	h.mu.Lock()
	m, err := h.find(id)
	var c *Conn
	if err == nil && m.life != nil && (m.state == Live || m.state == Draining) {
		c = m.life.conn
	}
	h.mu.Unlock()
	if err != nil || c == nil {
		return err
	}
	f := failure.New(failure.CartridgeDied, failure.Environment, "the cartridge was killed by the host")
	if cause == OutOfMemory {
		f = failure.New(failure.OOMKilled, failure.Resource, "the cartridge was killed because it took too much memory")
	}
	c.condemn(f)
	return nil
}
