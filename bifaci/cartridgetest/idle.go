package cartridgetest

import (
	"fmt"
	"runtime/pprof"
	"strings"
	"time"
)

// WantIdle makes sure that nothing is left behind of the requests so far: each has its terminal, unless the link was broken, no
// pool has one active or in line, and no goroutine that a request started is left.
func (h *Host) WantIdle() {
	h.t.Helper()
	h.mu.Lock()
	requests := h.order
	if h.broken {
		requests = nil
	}
	h.mu.Unlock()
	for _, d := range requests {
		h.awaitOf(d, "the terminal of every request", func() bool { return d.in.terminal != nil })
	}
	select {
	case <-h.served: // Wait has seen the pools empty; only goroutines can be left
		h.wantGoroutines(0)
		return
	default:
	}
	var busy string
	h.poll("every pool to be empty", func() bool {
		busy = ""
		for name, p := range h.Probe().Pools {
			if p.Active > 0 || p.Queued > 0 {
				busy = fmt.Sprintf("pool %s has %d active and %d in line", name, p.Active, p.Queued)
			}
		}
		return busy == ""
	}, func() string { return busy })
	h.wantGoroutines(h.base)
}

// idleGoroutines is what a cartridge without a request has: Serve, its reader and its writer.
const idleGoroutines = 3

func (h *Host) wantGoroutines(most int) {
	h.t.Helper()
	var n int
	var stacks string
	h.poll("the goroutines of requests to end", func() bool {
		n, stacks = goroutines(h.label)
		return n <= most
	}, func() string {
		return fmt.Sprintf("%d goroutines of the cartridge, %d without a request:\n%s", n, most, stacks)
	})
}

// poll asks until the answer is yes, less and less often.
func (h *Host) poll(what string, ask func() bool, instead func() string) {
	h.t.Helper()
	late := time.After(h.opts.patience)
	for pause := time.Millisecond; !ask(); pause *= 2 {
		select {
		case <-late:
			h.t.Fatalf("cartridgetest: waited %v for %s: %s", h.opts.patience, what, instead())
		case <-time.After(min(pause, h.opts.patience/16)):
		}
	}
}

// goroutines counts the goroutines with a label, and gives their stacks.
func goroutines(label string) (n int, stacks string) {
	var b strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&b, 1); err != nil {
		return 0, err.Error()
	}
	want := fmt.Sprintf("%q:%q", "cartridgetest", label)
	for block := range strings.SplitSeq(b.String(), "\n\n") {
		if !strings.Contains(block, want) {
			continue
		}
		var k int
		if _, err := fmt.Sscanf(block, "%d @", &k); err != nil {
			continue
		}
		n += k
		stacks += block + "\n"
	}
	return n, stacks
}
