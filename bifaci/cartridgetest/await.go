package cartridgetest

import (
	"fmt"
	"strings"
	"time"
)

// await waits until the link is as wanted; ok is called under the lock.
func (h *Host) await(what string, ok func() bool) {
	h.t.Helper()
	h.awaitOf(nil, what, ok)
}

// awaitOf is await for something that d is to bring.
func (h *Host) awaitOf(d *dialogue, what string, ok func() bool) {
	h.t.Helper()
	var late <-chan time.Time
	for {
		h.mu.Lock()
		if ok() {
			h.mu.Unlock()
			return
		}
		changed, over := h.changed, h.readErr != nil
		h.mu.Unlock()
		if over {
			h.fatal(what, d)
		}
		if late == nil {
			late = time.After(h.opts.patience)
		}
		select {
		case <-changed:
		case <-late:
			h.fatal(what, d)
		}
	}
}

// fatal fails the test with what was awaited and what came instead.
func (h *Host) fatal(what string, d *dialogue) {
	h.t.Helper()
	h.mu.Lock()
	end := h.readErr
	h.mu.Unlock()
	var b strings.Builder
	if end != nil {
		fmt.Fprintf(&b, "the link has ended (%v) before %s", end, what)
	} else {
		fmt.Fprintf(&b, "waited %v for %s", h.opts.patience, what)
	}
	if d != nil {
		fmt.Fprintf(&b, " of request %s", short(d.id))
	}
	select {
	case <-h.served:
		fmt.Fprintf(&b, "; Serve returned %v", h.serveErr)
	default:
	}
	b.WriteString("; the last frames of the link were:\n\t")
	b.WriteString(strings.Join(h.check.Trace(), "\n\t"))
	h.t.Fatalf("cartridgetest: %s", b.String())
}
