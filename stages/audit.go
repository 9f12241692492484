package stages

import (
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// auditor verifies large payloads that nobody takes, so that a request whose handler does not read is poisoned all the same
// . It looks at streams with unverified chunks every auditInterval while there are any, and at a chunk only
// when it has lain there since the look before. Its goroutine belongs to the link, which ends it with Link.Close.
type auditor struct {
	mu      sync.Mutex
	streams []*Inbox
	timer   *time.Timer
	running sync.WaitGroup
	closed  bool
}

// watch puts a stream onto the list; it never waits.
func (a *auditor) watch(in *Inbox) {
	if in.listed.Swap(true) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return
	}
	a.streams = append(a.streams, in)
	if len(a.streams) == 1 {
		a.arm()
	}
}

// arm starts the next look; a.mu is held.
func (a *auditor) arm() {
	a.running.Add(1)
	a.timer = time.AfterFunc(auditInterval, func() {
		defer a.running.Done()
		a.look()
	})
}

func (a *auditor) look() {
	a.mu.Lock()
	streams := a.streams
	a.streams = nil
	a.mu.Unlock()
	var again []*Inbox
	for _, in := range streams {
		in.listed.Store(false)
		if in.audit() && !in.listed.Swap(true) {
			again = append(again, in)
		}
	}
	a.mu.Lock()
	idle := len(a.streams) == 0
	a.streams = append(a.streams, again...)
	if idle && len(a.streams) > 0 && !a.closed {
		a.arm()
	}
	a.mu.Unlock()
}

// Close ends the link's auditor and waits for it.
func (l *Link) Close() {
	a := &l.audit
	a.mu.Lock()
	a.closed = true
	if a.timer != nil && a.timer.Stop() {
		a.running.Done()
	}
	a.mu.Unlock()
	a.running.Wait()
}

// audit verifies the stream's chunks that were there at the previous look, one at a time and with the queue unlocked while
// it hashes. It reports whether unverified chunks are left.
func (in *Inbox) audit() (again bool) {
	defer in.audited()
	cq := in.queue()
	cq.mu.Lock()
	for i := 0; i < len(cq.q); i++ {
		c := &cq.q[i]
		if c.flags&(chunkVerified|chunkAuditing) != 0 { // the latter by a look that takes long
			continue
		}
		if c.flags&chunkSeen == 0 {
			c.flags |= chunkSeen
			again = true
			continue
		}
		c.flags |= chunkAuditing
		held := *c
		cq.mu.Unlock()
		fault := held.settle(frame.Checksum(held.payload))
		cq.mu.Lock()
		if i = cq.release(&held); i < 0 {
			cq.mu.Unlock() // the stream failed meanwhile and left the block to us
			held.block.Release()
			return false
		}
		if fault != nil {
			cq.mu.Unlock()
			in.recv.owner.Fault(fault)
			return false
		}
		cq.q[i].flags |= chunkVerified
	}
	cq.mu.Unlock()
	return again
}

// audited drops what a discard had to leave behind, as it was being audited.
func (in *Inbox) audited() {
	if in.discard.Load() {
		in.sweep()
	}
}

// release finds the chunk that was audited, takes the mark off it and wakes a reader that waits for it. It returns the
// chunk's place, or -1 when the queue was dropped. The lock is held.
func (cq *chunkQueue) release(held *chunk) int {
	for i := range cq.q {
		if c := &cq.q[i]; c.flags&chunkAuditing != 0 && c.in == held.in && &c.payload[0] == &held.payload[0] {
			c.flags &^= chunkAuditing
			if cq.waiting {
				cq.waiting = false
				cq.wake <- struct{}{}
			}
			return i
		}
	}
	return -1
}
