package host

import (
	"strconv"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// metaActivityTimeout is the metadata of a cap that overrides the activity timeout, decimal seconds.
const metaActivityTimeout = "activity_timeout_secs"

// watcher looks at what arrives for one call: whether anything does, and whether it is what the cap has declared. A nil watcher sees
// nothing.
type watcher struct {
	limit  time.Duration
	def    *manifest.Cap
	breach func(def *manifest.Cap, err error) bool // reports whether the call may go on

	mu     sync.Mutex
	timer  *time.Timer
	paused bool
	over   bool
}

// newWatcher gives the watcher that a call needs, or nil.
func newWatcher(o *callOptions, def *manifest.Cap, breach func(*manifest.Cap, error) bool) *watcher {
	w := &watcher{limit: o.activity, def: def, breach: breach}
	if w.limit > 0 && def != nil {
		if s, err := strconv.ParseFloat(def.Metadata[metaActivityTimeout], 64); err == nil && s > 0 {
			w.limit = time.Duration(s * float64(time.Second))
		}
	}
	if def == nil || def.Output == nil || breach == nil {
		w.def = nil
	}
	if w.limit <= 0 && w.def == nil {
		return nil
	}
	return w
}

// watch is the watcher of a call of the host's.
func (h *Host) watch(o *callOptions, def *manifest.Cap) *watcher {
	return newWatcher(o, def, func(def *manifest.Cap, err error) bool {
		if o.contract {
			return false
		}
		h.mu.Lock()
		known := h.audited[def.URN]
		h.audited[def.URN] = true
		h.mu.Unlock()
		if !known {
			h.opts.log.Warn("an answer breaks the declared contract of its cap", "cap", def.URN, "error", err)
		}
		return true
	})
}

// start begins the time without activity.
func (w *watcher) start(call *Call) {
	if w == nil || w.limit <= 0 {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.over {
		return
	}
	w.timer = time.AfterFunc(w.limit, func() {
		w.mu.Lock()
		still := !w.over && !w.paused
		w.mu.Unlock()
		if still {
			f := failure.Newf(failure.ActivityTimeout, failure.Environment, "the cartridge has sent nothing for %v", w.limit)
			call.Abandon(f, failure.HostAbort(failure.Environment, f.Message))
		}
	})
}

// end stops the watch.
func (w *watcher) end() {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.over = true
	if w.timer != nil {
		w.timer.Stop()
	}
}

// saw notes that a frame has arrived. It reports false when the call was ended for it.
func (w *watcher) saw(call *Call, f *frame.Frame) bool {
	if w == nil {
		return true
	}
	w.active(f)
	if w.def == nil || f.Type != frame.TypeStreamStart {
		return true
	}
	err := bifaci.OutputBreach(w.def, f.IsSequence, f.Unbounded)
	if err == nil || w.breach(w.def, err) {
		return true
	}
	fault := failure.Newf(failure.ContractViolation, failure.Internal, "%w", err)
	call.Abandon(fault, failure.HostAbort(failure.Internal, fault.Message))
	return false
}

func (w *watcher) active(f *frame.Frame) {
	if w.limit <= 0 {
		return
	}
	queued := false
	if f.Type == frame.TypeLog {
		rec, err := f.LogRecord()
		queued = err == nil && rec.Level == "queued"
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.paused = queued
	switch {
	case w.timer == nil || w.over:
	case queued:
		w.timer.Stop()
	default:
		w.timer.Reset(w.limit)
	}
}
