package host

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Errors of a host.
var (
	// ErrHostClosed is what calls get that a [Host.Shutdown] ends, and every method after it.
	ErrHostClosed = fmt.Errorf("host: the host is shut down: %w", ErrClosed)
	// ErrUnknownCartridge says that no cartridge has this id.
	ErrUnknownCartridge = errors.New("host: no such cartridge")
	// ErrNotFailed says that a cartridge cannot be reset because it has not failed.
	ErrNotFailed = errors.New("host: the cartridge has not failed")
)

// ID names a cartridge of a host. It is never used again.
type ID uint64

// String is the number.
func (id ID) String() string { return strconv.FormatUint(uint64(id), 10) }

// Host runs any number of cartridges and lets callers, and the cartridges themselves, call their capabilities. Programs are started
// when they are needed first, watched, and started again after they have died. Make it with [New]; [Host.Shutdown] ends it. Its
// methods are safe for concurrent use.
type Host struct {
	opts    options
	ctx     context.Context // ends with Shutdown
	stop    context.CancelCauseFunc
	killCtx context.Context // ends when Shutdown has no more patience
	kill    context.CancelFunc
	work    sync.WaitGroup // one for every process, attached link and heartbeat
	xid     atomic.Uint64
	events  *callbackQueue[Event] // for the observer; nil without one

	mu          sync.Mutex
	members     []*member // in order of registration
	byID        map[ID]*member
	nextID      ID
	routes      routes
	policy      *bifaci.Policy
	policyGiven chan struct{} // closed by the first policy
	closed      bool
	ended       []error         // processes that did not end well at the shutdown
	audited     map[string]bool // caps whose breach of contract was reported
}

// New makes a host without cartridges. Options that concern links and processes apply to all of its cartridges.
func New(opts ...Option) *Host {
	h := &Host{opts: newOptions(opts), byID: make(map[ID]*member), policyGiven: make(chan struct{}), audited: make(map[string]bool)}
	h.ctx, h.stop = context.WithCancelCause(context.Background())
	h.killCtx, h.kill = context.WithCancel(context.Background())
	if f := h.opts.observer; f != nil {
		missed := 0
		h.events = newCallbackQueue(func(e *Event, lost int) {
			if e != nil {
				e.Lost = missed
				missed = 0
				f(*e)
			}
			missed += lost
		})
	}
	h.reroute()
	if h.opts.policy != nil {
		h.policy = h.opts.policy
		close(h.policyGiven)
	}
	return h
}

// SetPolicy replaces the network policy of every cartridge that runs and of those to come. The first one lets the
// requests go that have waited for it. It does not wait.
func (h *Host) SetPolicy(p bifaci.Policy) error {
	if !p.Valid() {
		return errors.New("host: a policy needs a name")
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrHostClosed
	}
	if h.policy == nil {
		close(h.policyGiven)
	}
	h.policy = &p
	for _, m := range h.members {
		if m.life != nil && (m.state == Live || m.state == Draining) {
			if err := m.life.conn.SetPolicy(p); err != nil {
				h.opts.log.Debug("a policy could not be sent", "cartridge", m.id, "error", err) // the link is ending
			}
		}
	}
	return nil
}

// Shutdown ends the host: nothing new is taken, the input of every cartridge is closed, and what has not ended within the grace, or
// when ctx ends, is killed. Calls that are still answered succeed; the others get [ErrHostClosed]. It returns when every
// process has ended and was waited for; the error names those that did not end well. A second call waits as well.
func (h *Host) Shutdown(ctx context.Context) error {
	impatient := context.AfterFunc(ctx, h.kill)
	defer impatient()
	h.mu.Lock()
	h.closed = true
	for _, m := range h.members {
		m.refuseWaiters(h, ErrHostClosed)
	}
	h.mu.Unlock()
	h.stop(ErrHostClosed)
	h.work.Wait()
	h.events.close()
	h.mu.Lock()
	defer h.mu.Unlock()
	return errors.Join(h.ended...)
}

// Call sends a REQ for capURN to the cartridge that serves it best. It waits, under ctx, for a cartridge that has to be
// started, for the first policy, and for room on the link. The error is NO_HANDLER when nobody serves the cap, SPAWN_FAILED when who
// does cannot be started, [ErrHostClosed] after Shutdown. See [Conn.Call] for the rest.
func (h *Host) Call(ctx context.Context, capURN string, opts ...CallOption) (*Call, error) {
	o := callOptions{reason: failure.Unattributed(), activity: h.opts.activity, contract: h.opts.contractChecks}
	for _, opt := range opts {
		opt(&o)
	}
	m, route, err := h.choose(capURN, &o)
	if err != nil {
		return nil, err
	}
	l, err := h.acquire(ctx, m)
	if err != nil {
		return nil, err
	}
	release := sync.OnceFunc(func() { h.release(l) })
	call := &Call{release: release, watcher: h.watch(&o, route)}
	call, err = l.conn.call(ctx, capURN, h.newXID(), call, o)
	if err != nil {
		release()
		return nil, err
	}
	return call, nil
}

// CallBytes is [Conn.CallBytes] on the cartridge that serves capURN best.
func (h *Host) CallBytes(ctx context.Context, capURN string, args ...Argument) ([]byte, error) {
	call, err := h.Call(ctx, capURN)
	if err != nil {
		return nil, err
	}
	return call.exchange(ctx, args)
}

// newXID is the next routing id.
func (h *Host) newXID() frame.ID { return frame.UintID(h.xid.Add(1)) }

// acquire gives the life of a cartridge, which it starts if it must, and counts one request for it. The caller releases it.
func (h *Host) acquire(ctx context.Context, m *member) (*life, error) {
	for {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		h.mu.Lock()
		l, ready, err := h.tryAcquire(m)
		h.mu.Unlock()
		if l != nil || err != nil {
			return l, err
		}
		select {
		case <-ready:
		case <-ctx.Done():
		case <-h.ctx.Done():
		}
	}
}

// tryAcquire is acquire without waiting: ready is closed when it is worth another try. h.mu is held.
func (h *Host) tryAcquire(m *member) (l *life, ready <-chan struct{}, err error) {
	switch {
	case h.closed:
		return nil, nil, ErrHostClosed
	case m.removed || m.retired && m.state != Spawning && m.state != Handshaking:
		return nil, nil, failure.Newf(failure.CartridgeRetired, failure.Environment, "cartridge %s was retired", m.name())
	}
	switch m.state {
	case Live:
		m.life.reserve()
		return m.life, nil, nil
	case Failed:
		return nil, nil, m.spawnFailed()
	case Draining:
		return nil, m.gone, nil
	case Registered, Dead:
		h.spawn(m)
	}
	return nil, m.ready, nil
}

// release counts one request less.
func (h *Host) release(l *life) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.releaseLocked(l)
}

// releaseCall counts one call of the cartridge's own less.
func (h *Host) releaseCall(l *life) {
	h.mu.Lock()
	defer h.mu.Unlock()
	l.calls--
	h.releaseLocked(l)
}

func (h *Host) releaseLocked(l *life) {
	if l.busy--; l.busy > 0 || l.m.life != l {
		return
	}
	switch l.m.state {
	case Live:
		h.armIdle(l)
	case Draining:
		l.end()
	}
}

// armIdle stops a cartridge that has nothing to do for the idle time. h.mu is held.
func (h *Host) armIdle(l *life) {
	if h.opts.idle <= 0 || l.m.attached {
		return
	}
	if l.idle != nil {
		l.idle.Stop()
	}
	l.idle = time.AfterFunc(h.opts.idle, func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		if l.m.life != l || l.m.state != Live || l.busy > 0 || h.closed {
			return
		}
		l.m.to(Registered)
		l.m.forget()
		l.end()
	})
}

// find gives a cartridge by its id. h.mu is held.
func (h *Host) find(id ID) (*member, error) {
	if m := h.byID[id]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("%w: %s", ErrUnknownCartridge, id)
}
