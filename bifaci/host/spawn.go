package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// spawn begins a life of a cartridge, outside of whoever needs it. h.mu is held.
func (h *Host) spawn(m *member) {
	again := m.state == Dead
	m.to(Spawning)
	if again {
		m.starts++
	}
	m.generation++
	m.ready = make(chan struct{})
	l := &life{m: m, generation: m.generation, quit: make(chan struct{})}
	m.life = l
	pause := h.pause(m)
	h.work.Go(func() { h.run(l, pause) }) // ends with the process; Shutdown waits
}

// pause is how long the next start is put off. h.mu is held.
func (h *Host) pause(m *member) time.Duration {
	if h.opts.backoffBase <= 0 || m.deaths == 0 {
		return 0
	}
	d := h.opts.backoffBase
	for range m.deaths - 1 {
		if d *= 2; d >= h.opts.backoffMax {
			break
		}
	}
	return min(d, h.opts.backoffMax)
}

// run is one life of a process, from its start until its end was collected.
func (h *Host) run(l *life, pause time.Duration) {
	m := l.m
	if pause > 0 {
		timer := time.NewTimer(pause)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-h.ctx.Done():
		}
	}
	o := h.linkOptions(l)
	o.spawned = func(p *Process) {
		h.mu.Lock()
		l.proc = p
		m.to(Handshaking)
		h.mu.Unlock()
	}
	p, err := start(h.ctx, m.spec.Path, o)
	if err != nil {
		h.failed(l, err)
		return
	}
	if h.becomeLive(l, p.over) {
		select {
		case <-p.over:
		case <-l.quit:
		case <-h.ctx.Done():
		}
	}
	byItself := p.Err() != nil
	if err := p.Shutdown(h.killCtx); err != nil && !byItself && h.ctx.Err() != nil {
		h.mu.Lock()
		h.ended = append(h.ended, fmt.Errorf("%s: %w", m.name(), err))
		h.mu.Unlock()
	}
}

// linkOptions are the options of one life.
func (h *Host) linkOptions(l *life) options {
	o, m := h.opts, l.m
	o.policy = nil // it is sent when the cartridge becomes live
	o.closed = ErrHostClosed
	if m.spec.Dir != "" {
		o.dir = m.spec.Dir
	}
	if m.spec.Env != nil {
		o.env = m.spec.Env
	}
	if f := h.opts.cartridgeStderr; f != nil {
		o.stderr = func(line string) { f(m.id, line) }
	}
	o.admitted = func(c *Conn) { l.conn = c } // before anybody else knows the link
	o.peer = func(c *Conn, f *frame.Frame) error { return h.peer(l, f) }
	o.ended = func(_ *Conn, err error) { h.linkEnded(l, err) }
	o.condemned = func(err error) { h.linkEnded(l, err) }
	return o
}

// failed ends a start that came to nothing; the cartridge is out of use.
func (h *Host) failed(l *life, err error) {
	kind, text := KindHandshakeFailed, err.Error()
	var start *startError
	if errors.As(err, &start) {
		kind, text = start.kind, start.Message
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	m := l.m
	m.to(Failed)
	m.forget()
	m.trouble = &AttachmentError{Kind: kind, Message: text, DetectedAtUnixSeconds: time.Now().Unix()}
	h.opts.log.Warn("a cartridge cannot be used", "cartridge", m.id, "name", m.name(), "kind", kind, "error", text)
	if h.closed {
		m.refuseWaiters(h, ErrHostClosed)
	} else {
		m.refuseWaiters(h, m.spawnFailed())
	}
	close(m.ready)
	if m.retired {
		h.remove(m)
	}
	h.reroute()
}

// becomeLive waits for the first policy, sends it, and lets requests in. It reports false, and the cartridge has
// failed, when its link ends first.
func (h *Host) becomeLive(l *life, over <-chan struct{}) bool {
	select {
	case <-h.policyGiven:
	case <-over:
	case <-h.ctx.Done():
	}
	h.mu.Lock()
	m, c := l.m, l.conn
	err := c.Err()
	switch {
	case err != nil:
	case h.closed:
		err = ErrHostClosed
	default:
		err = c.SetPolicy(*h.policy)
	}
	if err != nil || c.Err() != nil {
		h.mu.Unlock()
		if err == nil {
			err = c.Err()
		}
		h.failed(l, err)
		return false
	}
	defer h.mu.Unlock()
	m.to(Live)
	m.trouble = nil
	m.groups = slices.Clone(c.hello.Manifest.Groups)
	m.last = vitals{pools: c.Pools()}
	waiters := m.waiters
	m.waiters = nil
	l.busy += len(waiters)
	close(m.ready)
	h.reroute()
	desired := m.desired
	h.work.Go(func() { h.heartbeats(l, desired) }) // ends with the link; Shutdown waits
	if len(waiters) > 0 {
		h.work.Go(func() {
			for _, w := range waiters {
				w(l, nil)
			}
		})
	}
	switch {
	case m.retired:
		h.drain(m)
	case l.busy == 0:
		h.armIdle(l)
	}
	return true
}

// linkEnded takes note of the end of a life, or of the decision to end it, before its requests do. One that was stopped was
// forgotten before.
func (h *Host) linkEnded(l *life, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	m := l.m
	if m.life != l || m.state != Live && m.state != Draining {
		return
	}
	m.forget()
	m.to(Dead)
	m.deaths++
	if m.gone != nil {
		close(m.gone)
		m.gone = nil
	}
	if !h.closed {
		h.opts.log.Info("a cartridge has ended", "cartridge", m.id, "name", m.name(), "error", err)
	}
	if m.attached || m.retired {
		h.remove(m)
	}
}

// Attach makes a cartridge of a pair of streams that somebody else has connected: handshake, identity check, policy, live. It
// owns both streams from then on, as [Connect] does. When the link ends the cartridge is gone. Without a policy it returns after the
// identity check, and requests wait.
func (h *Host) Attach(ctx context.Context, r io.Reader, w io.Writer) (ID, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	unhook := context.AfterFunc(h.ctx, func() { cancel(ErrHostClosed) })
	defer unhook()
	m := &member{attached: true, lifecycle: lifecycle{state: Handshaking}, generation: 1, ready: make(chan struct{})}
	l := &life{m: m, generation: 1, quit: make(chan struct{})}
	m.life = l
	o := h.linkOptions(l)
	o.stderr = nil
	c, err := connect(ctx, r, w, o)
	if err != nil {
		return 0, failure.Newf(failure.SpawnFailed, failure.Environment, "attach: %w", err)
	}
	h.mu.Lock()
	if h.closed {
		h.mu.Unlock()
		c.Close()
		return 0, ErrHostClosed
	}
	h.nextID++
	m.id = h.nextID
	m.groups = slices.Clone(c.hello.Manifest.Groups)
	m.spec.Identity = Identity{RegistryURL: c.hello.Manifest.RegistryURL, Channel: c.hello.Manifest.Channel, Name: c.hello.Manifest.Name,
		Version: c.hello.Manifest.Version}
	h.observe(m)
	h.members = append(h.members, m)
	h.byID[m.id] = m
	h.reroute()
	hasPolicy := h.policy != nil
	live := make(chan bool, 1)
	h.work.Go(func() { // ends with the link; Shutdown waits
		ok := h.becomeLive(l, c.over)
		live <- ok
		h.runAttached(l, ok)
	})
	h.mu.Unlock()
	if hasPolicy && !<-live {
		return 0, failure.Newf(failure.SpawnFailed, failure.Environment, "attach: %w", c.Err())
	}
	return m.id, nil
}

// runAttached is the rest of an attached link's life.
func (h *Host) runAttached(l *life, live bool) {
	c := l.conn
	if live {
		select {
		case <-c.over:
		case <-l.quit:
		case <-h.ctx.Done():
		}
	} else {
		h.mu.Lock()
		h.remove(l.m)
		h.mu.Unlock()
	}
	c.CloseInput()
	timer := time.NewTimer(h.opts.shutdownGrace)
	defer timer.Stop()
	select {
	case <-c.over:
	case <-timer.C:
	case <-h.killCtx.Done():
	}
	c.Close()
}
