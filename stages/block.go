package stages

import "sync"

// Sizes of the payload memory.
const (
	blockSlack     = 1024      // room in every class for the frame around a payload of a round size, bytes
	blockClasses   = 10        // 16 KiB << 0 … 16 KiB << 9 (8 MiB), each plus blockSlack
	blockSmallest  = 16 << 10  // bytes, without slack
	poolMaxBytes   = 16 << 20  // what one pool keeps for reuse, bytes; the rest goes to the collector
	inlinePayload  = 4 << 10   // payloads up to this are verified in route, bytes
	laneInline     = 8<<10 + 8 // payloads up to this are copied into the lane: a whole coalesced batch, bytes
	maxAliasedBody = 16 << 10  // frame bodies up to this alias the read buffer while they are routed, bytes
	slabSize       = 16 << 10  // small payloads that live on share slabs of this size, bytes
)

// Block is a piece of payload memory that came from a [Pool]. It belongs to the frame it was read for, then to the chunk,
// then to the item; whoever drops the last of these may give it back with Release, once. A block that is never given
// back is the garbage collector's.
type Block struct {
	Buf  []byte
	pool *Pool
}

// Release gives b back to its pool. The bytes must not be touched afterwards. Release of a nil block does nothing; a
// second Release of one block is the caller's bug and is ignored.
func (b *Block) Release() {
	if b == nil {
		return
	}
	p, buf := b.pool, b.Buf
	b.pool, b.Buf = nil, nil
	if p != nil {
		p.put(buf)
	}
}

// Pool keeps blocks for reuse, in size classes, at most poolMaxBytes of them. The zero value is ready. Safe for
// concurrent use.
type Pool struct {
	mu    sync.Mutex
	free  [blockClasses][][]byte
	bytes int // in free, never above poolMaxBytes
}

// classOf is the smallest class with room for n bytes, or -1 above the largest.
func classOf(n int) int {
	for c := 0; c < blockClasses; c++ {
		if n <= blockSmallest<<c+blockSlack {
			return c
		}
	}
	return -1
}

// Get returns a block whose Buf has length n and, unless n is above the largest class, the capacity of its class.
func (p *Pool) Get(n int) *Block {
	c := classOf(n)
	if c < 0 {
		return &Block{Buf: make([]byte, n)}
	}
	p.mu.Lock()
	if k := len(p.free[c]); k > 0 {
		buf := p.free[c][k-1]
		p.free[c][k-1] = nil
		p.free[c] = p.free[c][:k-1]
		p.bytes -= cap(buf)
		p.mu.Unlock()
		return &Block{Buf: buf[:n], pool: p}
	}
	p.mu.Unlock()
	return &Block{Buf: make([]byte, n, blockSmallest<<c+blockSlack), pool: p}
}

func (p *Pool) put(buf []byte) {
	c := classOf(cap(buf))
	if c < 0 || cap(buf) != blockSmallest<<c+blockSlack {
		return
	}
	poison(buf[:cap(buf)])
	p.mu.Lock()
	if p.bytes+cap(buf) <= poolMaxBytes {
		p.free[c] = append(p.free[c], buf)
		p.bytes += cap(buf)
	}
	p.mu.Unlock()
}

// Held is how many bytes the pool keeps for reuse.
func (p *Pool) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

// slab hands out small pieces of shared memory that the collector frees when the last of them is gone; a kept piece pins
// slabSize bytes at most. One goroutine uses it.
type slab struct{ rest []byte }

// keep returns a copy of b.
func (s *slab) keep(b []byte) []byte {
	if len(b) == 0 {
		return []byte{}
	}
	if len(b) > slabSize/4 {
		return append(make([]byte, 0, len(b)), b...)
	}
	if len(b) > len(s.rest) {
		s.rest = make([]byte, slabSize)
	}
	c := s.rest[:len(b):len(b)]
	s.rest = s.rest[len(b):]
	copy(c, b)
	return c
}
