package wire

import "encoding/binary"

// Slab holds one payload with room around it, so that a chunk frame can be
// built in place and written with a single write and no copy of the payload.
type Slab struct {
	buf     []byte
	n       int
	Payload []byte
	Sum     uint64
}

const slabSlack = 192

// NewSlab copies payload into a slab and computes its checksum.
func NewSlab(payload []byte) *Slab {
	s := &Slab{buf: make([]byte, slabSlack+len(payload)+slabSlack), n: len(payload)}
	copy(s.buf[slabSlack:], payload)
	s.Payload = s.buf[slabSlack : slabSlack+s.n]
	s.Sum = Checksum(s.Payload)
	return s
}

// Build lays f (a CHUNK; its payload and checksum are taken from the slab)
// around the payload and returns the complete prefixed frame. The result is
// valid until the next Build on the same slab.
func (s *Slab) Build(f *Frame) []byte {
	f.Has |= 1<<KPayload | 1<<KChecksum
	f.Checksum = s.Sum
	var front [slabSlack]byte
	h := append(front[:0], 0, 0, 0, 0)
	h = f.appendUpToPayload(h)
	h = AppendHead(h, 2, uint64(s.n))
	tail := f.appendAfterPayload(s.buf[slabSlack+s.n : slabSlack+s.n])
	if len(h) > slabSlack || len(tail) > slabSlack {
		panic("wire: slab slack too small")
	}
	start := slabSlack - len(h)
	copy(s.buf[start:], h)
	total := len(h) + s.n + len(tail)
	binary.BigEndian.PutUint32(s.buf[start:], uint32(total-4))
	return s.buf[start : start+total]
}
