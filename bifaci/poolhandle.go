package bifaci

import (
	"fmt"

	"github.com/pipe-cartridge/pipe/pools"
)

// PoolHandle lets a cartridge say what it can serve in one of its pools: it writes the pool's available number and nothing else
// . It may be made before the start. Safe for concurrent use; no method waits.
type PoolHandle struct {
	c    *Cartridge
	name string
}

// PoolHandle returns the handle of a pool: "all", a declared pool, or the URN of a registered pattern in any spelling. Whether
// the pool exists is told by Set.
func (c *Cartridge) PoolHandle(name string) *PoolHandle {
	return &PoolHandle{c, canonicalPool(name)}
}

// Set reports that the pool can serve n requests at a time; 0 means no bound, so the lowest report is 1. A raise starts
// requests in line at once, without a frame of the host; a lower number interrupts nobody. The error is an
// [*pools.UnknownPoolError], or matches [ErrNotRunning] before the start and after the end.
func (h *PoolHandle) Set(n uint64) error {
	return h.report(func(t *pools.Table) error { return t.SetAvailable(h.name, n) })
}

// Clear takes the report back: the pool is static again.
func (h *PoolHandle) Clear() error {
	return h.report(func(t *pools.Table) error { return t.ClearAvailable(h.name) })
}

func (h *PoolHandle) report(change func(*pools.Table) error) error {
	l := h.c.link.Load()
	if l == nil {
		return fmt.Errorf("pool %q: %w", h.name, ErrNotRunning)
	}
	l.mu.Lock()
	if l.over {
		l.mu.Unlock()
		return fmt.Errorf("pool %q: %w", h.name, ErrNotRunning)
	}
	err := change(l.pools)
	start := l.admitted()
	l.mu.Unlock()
	l.start(start)
	return err
}
