package stages

import (
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// lane is a run of encoded bytes with holes where large payloads belong.
type lane struct {
	buf    []byte
	parts  []part
	frames int
	own    int                     // how many of frames count as the link's own
	bytes  int                     // with the payloads of parts
	size   int                     // how many of bytes are in Lanes.ownSize
	types  [frame.TypeCount]uint32 // of frames
}

// part is a payload by reference that belongs behind buf[:at].
type part struct {
	at      int
	payload []byte
	block   *Block
}

// add encodes a frame behind the others. A large payload stays by reference, and its block with the lane until reset; the
// block of a small one goes back at once.
func (ln *lane) add(f *frame.Frame, block *Block) {
	ln.frames++
	ln.types[f.Type]++
	at := len(ln.buf)
	if n := len(f.Payload); n > laneInline && f.Has.Has(frame.KeyPayload) {
		var cut int
		ln.buf, cut = frame.AppendSplit(ln.buf, f, n)
		ln.parts = append(ln.parts, part{cut, f.Payload, block})
		ln.bytes += n
	} else {
		ln.buf = frame.Append(ln.buf, f)
		block.Release()
	}
	ln.bytes += len(ln.buf) - at
}

// appendTo lists the lane's bytes in wire order.
func (ln *lane) appendTo(bufs [][]byte) [][]byte {
	at := 0
	for _, p := range ln.parts {
		if p.at > at {
			bufs = append(bufs, ln.buf[at:p.at])
		}
		bufs = append(bufs, p.payload)
		at = p.at
	}
	if len(ln.buf) > at {
		bufs = append(bufs, ln.buf[at:])
	}
	return bufs
}

// reset gives the blocks back and empties the lane for reuse.
func (ln *lane) reset() {
	for i := range ln.parts {
		ln.parts[i].block.Release()
		ln.parts[i] = part{}
	}
	buf, parts := ln.buf[:0], ln.parts[:0]
	if cap(buf) > laneKeepBytes {
		buf = nil
	}
	*ln = lane{buf: buf, parts: parts}
}
