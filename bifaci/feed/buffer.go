package feed

import (
	"math"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

const (
	// handOver is the capacity of the delivery stage behind the ring, in items.
	handOver = 8
	// maxRingBytes bounds what a stalled reader can cost, whatever the ring's capacity in items; our choice.
	maxRingBytes = 256 << 20
)

// buffer is the way of items from the capture edge to the reader: the ring, and behind it the hand-over, from which
// nothing is lost any more. It is a plain value without lock, clock or goroutine.
type buffer struct {
	handed    fifo[captured]
	ring      fifo[captured]
	ringItems uint64 // capacity of the ring, 1 or more
	mostBytes int64  // the same in bytes; one item that is larger alone is let in
	ringBytes int64  // cost of what is in it
	policy    OverrunPolicy

	captured uint64 // items so far, lost ones included: the next seq
	expected uint64 // the seq that follows what the reader got last
	lastPTS  uint64 // of what the reader got last, microseconds
}

// push takes a captured item in. lost is how many items that cost, of the ring's or the device's; overrun says that the
// policy is Fail and the feed is over: what was in the ring is discarded and c with it.
func (b *buffer) push(c captured, lostBefore uint64) (lost uint64, overrun bool) {
	b.captured += lostBefore
	lost = lostBefore
	if lost > 0 && b.policy == Fail {
		b.dropRing()
		return lost, true
	}
	c.seq = b.captured
	b.captured++
	if b.handed.count < handOver { // then the ring is empty: pop leaves no room behind what is in it
		b.handed.push(c)
		return lost, false
	}
	for b.full(c) {
		lost++
		if b.policy == Fail {
			b.dropRing()
			return lost, true
		}
		b.ringBytes -= b.ring.pop().cost()
	}
	b.ring.push(c)
	b.ringBytes += c.cost()
	return lost, false
}

// full reports that the ring has no room for c. An empty ring has room for anything.
func (b *buffer) full(c captured) bool {
	return b.ring.count > 0 && (uint64(b.ring.count) >= b.ringItems || b.ringBytes+c.cost() > b.mostBytes)
}

// pop gives the reader the oldest item, and moves the ring's oldest into the room that it leaves.
func (b *buffer) pop() (Item, bool) {
	if b.handed.count == 0 {
		return Item{}, false
	}
	c := b.handed.pop()
	if b.ring.count > 0 {
		next := b.ring.pop()
		b.ringBytes -= next.cost()
		b.handed.push(next)
	}
	return b.deliver(c), true
}

// deliver writes the item's meta. Whatever was lost before it, and wherever, shows as the distance to what the reader
// got before.
func (b *buffer) deliver(c captured) Item {
	meta := frame.Meta{"seq": integer(c.seq), "pts_us": integer(c.ptsUS), "capture_ts_us": integer(c.captureUS)}
	if c.seq > b.expected {
		meta["gap"] = map[string]any{
			"dropped":     integer(c.seq - b.expected),
			"duration_us": integer(c.ptsUS - min(b.lastPTS, c.ptsUS)),
		}
	}
	b.expected, b.lastPTS = c.seq+1, c.ptsUS
	return Item{Data: c.data, Meta: meta}
}

func (b *buffer) dropRing() { b.ring, b.ringBytes = fifo[captured]{}, 0 }

func (b *buffer) dropAll() {
	b.dropRing()
	b.handed = fifo[captured]{}
}

// integer gives n the type it would have after decoding.
func integer(n uint64) any {
	if n <= math.MaxInt64 {
		return int64(n)
	}
	return n
}
