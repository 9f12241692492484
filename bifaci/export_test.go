package bifaci

import (
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/credit"
)

// Drops are the drop counters of the link.
func (c *Cartridge) Drops() stats.DropSnapshot { return c.link.Load().drops.Snapshot() }

// Stragglers are the straggler counters of the link.
func (c *Cartridge) Stragglers() stats.StragglerSnapshot { return c.link.Load().stragglers.Snapshot() }

// Handlers is how many patterns are registered.
func (c *Cartridge) Handlers() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.handlers)
}

// CallsKept is how many peer calls a request remembers.
func CallsKept(r *Request) int { return len(r.wire.openCalls()) }

// GateOf is the gate of a request's answer.
func GateOf(r *Request) *credit.Gate { return r.wire.sender.Gate() }

// ArgGates are the gates of a call's arguments, by stream id.
func ArgGates(c *PeerCall) map[string]*credit.Gate {
	c.mu.Lock()
	defer c.mu.Unlock()
	gates := make(map[string]*credit.Gate, len(c.args))
	for _, a := range c.args {
		gates[string(a.sender.ID())] = a.sender.Gate()
	}
	return gates
}
