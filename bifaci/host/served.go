package host

import (
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stages"
)

// served is a request that the cartridge of a link serves: a [Call] of the host's own, or the handler's side of a relay.
type served interface {
	routing() frame.ID
	// deliver takes a frame of the answer, or a grant for the body, on the link's reader; it never waits.
	deliver(f *frame.Frame, block *stages.Block)
	// violated ends the request because the cartridge broke a rule.
	violated(fault *failure.Failure)
	// lost ends the request because its link has ended.
	lost(err error)
	// kids are the calls that the cartridge makes for the request; guarded by the link's lock.
	kids() *children
}

// children are the unfinished calls that a cartridge makes on behalf of one request, so that a cancel reaches them.
// Guarded by the lock of the caller's link.
type children struct{ set map[*relay]struct{} }

func (c *children) add(r *relay) {
	if c.set == nil {
		c.set = make(map[*relay]struct{})
	}
	c.set[r] = struct{}{}
}

func (c *children) remove(r *relay) { delete(c.set, r) }

// cancelledRing remembers why the last requests were cancelled: a call that their handler made meanwhile is cancelled as well.
type cancelledRing struct {
	ids     [cancelledRingSize]frame.ID
	reasons map[frame.ID]failure.CancelReason
	next    int
}

// cancelledRingSize is how many cancelled requests of a link are remembered.
const cancelledRingSize = 64

func (c *cancelledRing) add(id frame.ID, reason failure.CancelReason) {
	if c.reasons == nil {
		c.reasons = make(map[frame.ID]failure.CancelReason)
	}
	if old := c.ids[c.next]; !old.IsZero() {
		delete(c.reasons, old)
	}
	c.ids[c.next] = id
	c.next = (c.next + 1) % cancelledRingSize
	c.reasons[id] = reason
}

// cancelling notes that a request which the cartridge serves is being cancelled.
func (c *Conn) cancelling(id frame.ID, reason failure.CancelReason) {
	c.mu.Lock()
	c.cancelled.add(id, reason)
	c.mu.Unlock()
}

// cascade cancels the calls that were made for a request, each once, with the request's reason and never by force.
func (c *Conn) cascade(below *children, reason failure.CancelReason) {
	c.mu.Lock()
	relays := make([]*relay, 0, len(below.set))
	for r := range below.set {
		relays = append(relays, r)
	}
	c.mu.Unlock()
	for _, r := range relays {
		r.cancel(reason)
	}
}
