package host

// Event is a step in the life of a cartridge.
type Event struct {
	Cartridge  ID
	From, To   State
	Generation uint64 // of the process, from 1; 0 before the first
	PID        int    // of the process that runs, or 0
	Lost       int    // events that came before this one faster than they were taken
}

// WithObserver calls f with every step of every cartridge of a host, in order, from one goroutine of the host's. A slow f holds back
// nothing; of more than 1024 events that wait, the newest are lost and counted in the next one. f must return; it may call the host's
// methods that do not wait. The last event comes before [Host.Shutdown] returns, unless f takes longer than a second.
func WithObserver(f func(Event)) Option { return func(o *options) { o.observer = f } }

// observe tells who wants to know about the steps of a cartridge. h.mu is held then.
func (h *Host) observe(m *member) {
	if h.events == nil {
		return
	}
	m.steps = func(from, to State) {
		e := Event{Cartridge: m.id, From: from, To: to, Generation: m.generation}
		if l := m.life; l != nil && l.proc != nil {
			e.PID = l.proc.PID()
		}
		h.events.put(e, 1)
	}
}
