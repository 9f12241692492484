package bifaci

import (
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// The processor watch. A goroutine that becomes ready waits for a slot of the scheduler, and handlers that compute hold
// every slot for a time slice each: measured on two processors, four of them delayed the answers to heartbeats to 75 ms, sixteen to
// 200 ms and more. A slot more than there are such handlers is the cure, but it costs where requests are short. So
// slots are added only while a timer comes late and handlers are seen that have not been in the runtime for two looks.
const (
	watchInterval = 10 * time.Millisecond
	watchLate     = 4 * time.Millisecond // a timer this late had to wait for a slot
	watchQuiet    = 2                    // looks without a visit, until a handler counts as computing
	watchMost     = 64                   // slots added at most
)

// quiet is what the watch knows of one request.
type quiet struct {
	visits uint32 // at the last look
	looks  uint8  // since they changed
}

// processorWatch adjusts the number of scheduler slots while handlers run. It has a timer while requests are in the table, and
// nothing otherwise. A nil watch does nothing.
type processorWatch struct {
	link  *link
	base  int // slots without it
	armed atomic.Bool

	mu     sync.Mutex
	timer  *time.Timer
	due    time.Time
	slots  int                    // now; base when nothing was added
	known  map[*wireRequest]quiet // the last look
	closed bool
}

func newProcessorWatch(l *link) *processorWatch {
	n := runtime.GOMAXPROCS(0)
	return &processorWatch{link: l, base: n, slots: n}
}

// arm starts the watch, unless it runs. It never waits.
func (p *processorWatch) arm() {
	if p == nil || p.armed.Load() || p.armed.Swap(true) {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.due = time.Now().Add(watchInterval)
	if p.timer == nil {
		p.timer = time.AfterFunc(watchInterval, p.tick) // ends with close, or when no request is left
	} else {
		p.timer.Reset(watchInterval)
	}
}

// close gives the slots back. Afterwards the watch does nothing; a tick that is under way ends by itself.
func (p *processorWatch) close() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	if p.timer != nil {
		p.timer.Stop()
	}
	p.give(p.base)
}

// tick looks whether the timer came late, and why.
func (p *processorWatch) tick() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	late := time.Since(p.due) >= watchLate
	active, computing := p.look(late || p.slots > p.base)
	p.give(slotsFor(p.base, p.slots, computing, late))
	if active == 0 && p.rest() {
		return
	}
	p.due = time.Now().Add(watchInterval)
	p.timer.Reset(watchInterval)
}

// rest disarms the watch and reports true, unless a request has come since the look and found it armed; p.mu is held.
func (p *processorWatch) rest() bool {
	p.armed.Store(false)
	active, _ := p.look(false)
	return active == 0 || p.armed.Swap(true) // in the latter case arm waits for p.mu
}

// give sets the number of slots; p.mu is held.
func (p *processorWatch) give(slots int) {
	switch {
	case slots == p.slots:
		return
	case slots == p.base:
		runtime.SetDefaultGOMAXPROCS()
	default:
		runtime.GOMAXPROCS(slots)
	}
	p.slots = slots
}

// slotsFor is how many slots there should be: one beside the base for each handler that computes once the timer has come late, and no
// more of those than before while it has not.
func slotsFor(base, now, computing int, late bool) int {
	most := base + min(computing, watchMost)
	if late {
		return most
	}
	return min(now, most)
}

// look counts the requests in the table and, if it is to look closer, those of them whose handlers have run without a visit for
// watchQuiet looks; p.mu is held.
func (p *processorWatch) look(closer bool) (active, computing int) {
	l := p.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if !closer {
		if l.active == 0 {
			p.known = nil
		}
		return l.active, 0
	}
	known := make(map[*wireRequest]quiet)
	for _, w := range l.requests {
		visits := w.act.Visits()
		if visits == 0 || w.act.Waits() { // 0: it has not run yet
			continue
		}
		q := quiet{visits: visits}
		if before, ok := p.known[w]; ok && before.visits == visits {
			q.looks = min(before.looks+1, watchQuiet)
		}
		if q.looks == watchQuiet {
			computing++
		}
		known[w] = q
	}
	p.known = known
	return l.active, computing
}
