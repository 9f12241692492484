package bifaci

import "github.com/pipe-cartridge/pipe/bifaci/stats"

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
