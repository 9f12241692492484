//go:build linux

package main

import (
	"sync"

	"github.com/pipe-cartridge/pipe/bench/wiredriver/wire"
)

type request struct {
	id, xid wire.ID
	op      string
	stream  []byte // response stream id
	seq     uint64
	index   uint64 // chunks sent
	arg     []byte
	bytes   uint64
	unacked uint64
	started bool

	mu     sync.Mutex
	cond   *sync.Cond
	credit uint64
	closed bool
}

func (q *request) frame(typ uint64) wire.Frame {
	f := wire.Frame{Version: version, Type: typ, ID: q.id, Has: 1 << wire.KSeq, Seq: q.seq}
	q.seq++
	if q.xid.Int {
		f.XID = q.xid
		f.Has |= 1 << wire.KXID
	}
	return f
}

func (q *request) start(seqMode bool) wire.Frame {
	f := q.frame(wire.StreamStart)
	f.Has |= 1<<wire.KStreamID | 1<<wire.KMediaURN | 1<<wire.KIsSequence
	f.StreamID, f.MediaURN, f.IsSequence = q.stream, []byte("media:"), seqMode
	return f
}

func (q *request) chunk() wire.Frame {
	f := q.frame(wire.Chunk)
	f.Has |= 1<<wire.KStreamID | 1<<wire.KChunkIndex
	f.StreamID, f.ChunkIndex = q.stream, q.index
	q.index++
	return f
}

func (q *request) finish(b []byte) []byte {
	f := q.frame(wire.StreamEnd)
	f.Has |= 1<<wire.KStreamID | 1<<wire.KChunkCount
	f.StreamID, f.ChunkCount = q.stream, q.index
	b = f.Append(b)
	g := q.frame(wire.End)
	g.Has |= 1<<wire.KEOF | 1<<wire.KMeta
	g.EOF, g.Meta = true, metaDone
	return g.Append(b)
}

func (q *request) acquire(n uint64) uint64 {
	q.mu.Lock()
	defer q.mu.Unlock()
	for q.credit == 0 && !q.closed {
		q.cond.Wait()
	}
	if q.closed {
		return 0
	}
	n = min(n, q.credit)
	q.credit -= n
	return n
}

func (q *request) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cond.Broadcast()
}

func (s *server) source(q *request, n int) {
	g := q.start(false)
	s.write(g.Append(nil))
	data := make([]byte, maxChunk)
	for i := range data {
		data[i] = byte(i)
	}
	slab := wire.NewSlab(wire.CBORBytes(data))
	for sent := 0; n > 0; sent++ {
		if q.acquire(1) == 0 {
			return
		}
		k := min(n, int(maxChunk))
		if k < int(maxChunk) {
			slab = wire.NewSlab(wire.CBORBytes(data[:k]))
		} else if verify {
			slab.Sum = wire.Checksum(slab.Payload)
		} else if verify4 && sent%4 == 0 {
			slab.Sum = wire.Checksum4(&[4][]byte{slab.Payload, slab.Payload, slab.Payload, slab.Payload})[0]
		}
		f := q.chunk()
		s.write(slab.Build(&f))
		n -= k
	}
	s.write(q.finish(nil))
}

// small sends n chunks of one small payload, as many per write as the credit
// allows.
func (s *server) small(q *request, seqMode bool, payload []byte, n, perWrite int) {
	g := q.start(seqMode)
	b := g.Append(nil)
	sum := wire.Checksum(payload)
	for n > 0 {
		k := int(q.acquire(uint64(min(n, perWrite, 512))))
		if k == 0 {
			return
		}
		n -= k
		for ; k > 0; k-- {
			if verify {
				sum = wire.Checksum(payload)
			}
			f := q.chunk()
			f.Has |= 1<<wire.KPayload | 1<<wire.KChecksum
			f.Payload, f.Checksum = payload, sum
			b = f.Append(b)
		}
		s.write(b)
		b = b[:0]
	}
	s.write(q.finish(b))
}

func (s *server) tokens(q *request, n int) {
	if n == 0 {
		g := q.start(false)
		s.write(q.finish(g.Append(nil)))
		return
	}
	g := q.start(false)
	b := g.Append(nil)
	batch := make([]byte, 0, 4096)
	send := func() bool {
		if q.acquire(1) == 0 {
			return false
		}
		p := wire.CBORBytes(batch)
		f := q.chunk()
		f.Has |= 1<<wire.KPayload | 1<<wire.KChecksum
		f.Payload, f.Checksum = p, wire.Checksum(p)
		b = f.Append(b)
		if len(b) > 32<<10 || q.dry() {
			s.write(b)
			b = b[:0]
		}
		batch = batch[:0]
		return true
	}
	for ; n > 0; n-- {
		if batch = append(batch, "0123456789abcdef"...); len(batch) == cap(batch) && !send() {
			return
		}
	}
	if len(batch) > 0 && !send() {
		return
	}
	s.write(q.finish(b))
}

func (q *request) dry() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.credit == 0
}
