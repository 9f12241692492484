package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

// Identity tells installs apart. The zero value is that of a program nobody has installed.
type Identity struct {
	RegistryURL string `json:"registry_url"` // empty for a development build
	Channel     string `json:"channel"`
	Name        string `json:"id"`
	Version     string `json:"version"`
}

// Spec is what a host has to know of a cartridge before it runs.
type Spec struct {
	Path     string // of the program
	Identity Identity
	// Groups are the caps it is known to have. They are used for routing until the first HELLO; then the manifest's replace them.
	Groups []manifest.Group
	SHA256 string   // of the install, for the inventory; may be empty
	Dir    string   // working directory; that of [WithDir] when empty
	Env    []string // environment; that of [WithEnv] when nil
}

// member is one cartridge of a host. Its fields are guarded by the host's lock.
type member struct {
	lifecycle
	id       ID
	spec     Spec
	attached bool
	groups   []manifest.Group
	synced   bool // of the installs that were discovered
	broken   bool // an install that cannot be used
	retired  bool // finishes its work, then goes
	removed  bool // no longer of the host

	life       *life // while there is a process or a link that may serve
	generation uint64
	ready      chan struct{} // closed when the start that is under way has ended
	gone       chan struct{} // closed when the present life has ended; nil when nobody waits for that
	waiters    []func(*life, error)
	trouble    *AttachmentError
	starts     uint64
	deaths     int // in a row, for the back-off
	desired    pools.Desired
	last       vitals // of the present or latest life
}

// vitals are what a cartridge has said about itself.
type vitals struct {
	pools pools.States
	reply frame.HeartbeatReply
	at    time.Time // of reply
}

// life is one run of a cartridge: a generation. Fields are guarded by the host's lock unless they never change.
type life struct {
	m          *member
	generation uint64
	proc       *Process // nil for an attached link
	conn       *Conn    // set before the cartridge is Live
	busy       int      // requests it serves and calls it makes
	calls      int      // of them, calls it makes
	idle       *time.Timer
	limit      *time.Timer   // of draining
	quit       chan struct{} // closed when it shall end in order
	quitting   bool
}

func (l *life) reserve() {
	l.busy++
	if l.idle != nil {
		l.idle.Stop()
	}
}

// end asks for the end in order.
func (l *life) end() {
	if !l.quitting {
		l.quitting = true
		close(l.quit)
	}
}

// name is how messages name the cartridge.
func (m *member) name() string {
	switch {
	case m.spec.Identity.Name != "":
		return m.spec.Identity.Name
	case m.spec.Path != "":
		return m.spec.Path
	}
	return m.id.String()
}

// forget takes the life away from the cartridge: its events are of no concern any more.
func (m *member) forget() {
	l := m.life
	m.life = nil
	if l.conn != nil {
		m.last.pools = l.conn.Pools()
	}
	for _, t := range []*time.Timer{l.idle, l.limit} {
		if t != nil {
			t.Stop()
		}
	}
}

// spawnFailed is what requests get while the cartridge is Failed.
func (m *member) spawnFailed() error {
	return failure.Newf(failure.SpawnFailed, failure.Environment, "cartridge %s cannot be used: %s", m.name(), m.trouble.Message)
}

// refuseWaiters tells who waits for the start that there will be none. h.mu is held; waiters run on goroutines of the host's.
func (m *member) refuseWaiters(h *Host, err error) {
	waiters := m.waiters
	m.waiters = nil
	if len(waiters) == 0 {
		return
	}
	h.work.Go(func() {
		for _, w := range waiters {
			w(nil, err)
		}
	})
}

// Register makes a program known; nothing is started. An identity that is being retired comes back with its process and
// its id; one that is registered already is an error.
func (h *Host) Register(spec Spec) (ID, error) {
	if spec.Path == "" {
		return 0, errors.New("host: a cartridge needs the path of its program")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return 0, ErrHostClosed
	}
	if spec.Identity != (Identity{}) {
		for _, m := range h.members {
			if m.spec.Identity != spec.Identity || m.attached {
				continue
			}
			if !m.retired {
				return 0, fmt.Errorf("host: %s %s is registered already", spec.Identity.Name, spec.Identity.Version)
			}
			h.takeBack(m)
			return m.id, nil
		}
	}
	m := h.add(spec)
	h.reroute()
	return m.id, nil
}

// add makes a member. h.mu is held.
func (h *Host) add(spec Spec) *member {
	h.nextID++
	m := &member{id: h.nextID, spec: spec, groups: slices.Clone(spec.Groups)}
	h.observe(m)
	h.members = append(h.members, m)
	h.byID[m.id] = m
	return m
}

// remove forgets a member that has no life any more. h.mu is held.
func (h *Host) remove(m *member) {
	m.removed = true
	delete(h.byID, m.id)
	h.members = slices.DeleteFunc(h.members, func(o *member) bool { return o == m })
	m.refuseWaiters(h, failure.Newf(failure.CartridgeRetired, failure.Environment, "cartridge %s was retired", m.name()))
	h.reroute()
}

// Reset lets a cartridge that has failed be tried again.
func (h *Host) Reset(id ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, err := h.find(id)
	switch {
	case err != nil:
		return err
	case m.broken:
		return fmt.Errorf("host: an install that cannot be used comes back through Sync: %w", m.trouble)
	case m.state != Failed:
		return fmt.Errorf("%w: it is %s", ErrNotFailed, m.state)
	}
	m.to(Registered)
	m.trouble = nil
	h.reroute()
	return nil
}

// Spawn starts a cartridge if it does not run, and waits under ctx until it is live.
func (h *Host) Spawn(ctx context.Context, id ID) error {
	h.mu.Lock()
	m, err := h.find(id)
	h.mu.Unlock()
	if err != nil {
		return err
	}
	l, err := h.acquire(ctx, m)
	if err != nil {
		return err
	}
	h.release(l)
	return nil
}

// Retire takes a cartridge off: it leaves the routing table at once, finishes what it is doing within the limit of [WithRetireLimit],
// and is then stopped and forgotten. Requests it does not finish get CARTRIDGE_RETIRED. Retire does not wait.
func (h *Host) Retire(id ID) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	m, err := h.find(id)
	if err == nil {
		h.retire(m)
	}
	return err
}

// retire is Retire with h.mu held.
func (h *Host) retire(m *member) {
	if m.retired {
		return
	}
	m.retired = true
	switch m.state {
	case Live:
		h.drain(m)
	case Registered, Dead, Failed:
		h.remove(m)
	}
	h.reroute()
}

// drain lets a live cartridge finish and then end. h.mu is held.
func (h *Host) drain(m *member) {
	l := m.life
	m.to(Draining)
	if l.idle != nil {
		l.idle.Stop()
	}
	if l.busy == 0 {
		l.end()
		return
	}
	l.limit = time.AfterFunc(h.opts.retireLimit, func() {
		h.mu.Lock()
		late := m.life == l && m.state == Draining && m.retired
		h.mu.Unlock()
		if late {
			l.conn.condemn(failure.Newf(failure.CartridgeRetired, failure.Environment, "the cartridge was retired and did not finish within %v", h.opts.retireLimit))
		}
	})
}

// takeBack keeps a cartridge that was being retired. h.mu is held.
func (h *Host) takeBack(m *member) {
	m.retired = false
	if m.state == Draining && !m.life.quitting {
		if m.life.limit != nil {
			m.life.limit.Stop()
		}
		m.to(Live)
		if m.life.busy == 0 {
			h.armIdle(m.life)
		}
	}
	if m.state == Draining { // it is stopping already: it will be started again
		m.gone = make(chan struct{})
	}
	h.reroute()
}
