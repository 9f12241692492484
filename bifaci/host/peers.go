package host

import (
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// peer takes a REQ of a cartridge, on the reader of its link. It never waits: a cartridge that has to be started gets the
// request later.
func (h *Host) peer(l *life, f *frame.Frame) error {
	c, capURN := l.conn, string(f.Cap)
	var handler *life
	r := newRelay(c, f.ID, h.newXID(), capURN, func(r *relay) {
		h.releaseCall(l)
		if handler := r.served; handler != nil {
			h.release(handler)
		}
	})
	c.mu.Lock()
	known := c.peers[f.ID]
	parent := f.ParentID()
	reason, orphan := c.cancelled.reasons[parent]
	if known == nil && !orphan {
		c.peers[f.ID] = r
		if p := c.served[parent]; p != nil {
			r.parent = p.kids()
			r.parent.add(r)
		}
	}
	c.mu.Unlock()
	switch {
	case known != nil:
		known.violated(violation("a second REQ with the id of a live call"))
		return nil
	case orphan: // what it was made for was cancelled while it was on its way
		c.refuse(f.ID, r.xid, reason.Terminal())
		return nil
	}
	h.mu.Lock()
	l.busy++ // its own call, which may outlive its request
	l.calls++
	m, err := h.peerTarget(f)
	if err == nil {
		var ready <-chan struct{}
		if handler, ready, err = h.tryAcquire(m); ready != nil {
			m.waiters = append(m.waiters, func(handler *life, err error) { h.bind(r, handler, err) })
		}
	}
	h.mu.Unlock()
	r.fromCaller(f, nil)
	if handler != nil || err != nil {
		h.bind(r, handler, err)
	}
	return nil
}

// bind gives a relay its handler, or the reason why it has none.
func (h *Host) bind(r *relay, handler *life, err error) {
	if err != nil {
		r.refused(err)
		return
	}
	if !r.bind(handler) {
		h.release(handler)
	}
}

// peerTarget finds who serves a REQ. h.mu is held.
func (h *Host) peerTarget(f *frame.Frame) (*member, error) {
	if !f.Has.Has(frame.KeyCap) {
		return nil, failure.New(failure.InvalidRequest, failure.Internal, "a REQ without a cap")
	}
	i, ok, err := h.routes.index.LookupBytes(f.Cap)
	if err != nil || !ok {
		return nil, noHandler(f.Cap)
	}
	return h.routes.to[i].m, nil
}
