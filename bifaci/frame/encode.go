package frame

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// optionalKeys are the keys that stand on the wire only when Frame.Has holds them.
const optionalKeys Keys = 1<<(KeyUnbounded+1) - 1 - impliedKeys

// fixedRoom is enough for all of a frame but its strings and meta: prefix, map head, 21 keys, two ids of 17 bytes, seven
// heads of strings and integers at 9 each and so on; rounded up.
const fixedRoom = 256

// Append appends f as it goes onto the wire, length prefix and body, and returns the extended slice. The bytes are those
// of spec/wire.md 2.1: ascending keys, shortest heads, definite lengths, seq always there. It checks nothing: texts must
// be UTF-8, f.Meta one CBOR map (empty counts as the empty map), the body at most [MaxBody] bytes ([BodySize] tells). A
// zero f.ID is written as integer 0; a zero f.Routing is left out. Append allocates only to let dst grow.
func Append(dst []byte, f *Frame) []byte {
	out, _ := appendFrame(dst, f, len(f.Payload), true)
	return out
}

// AppendSplit appends f like [Append] but without the bytes of its payload, of which there are payloadLen; f.Has must
// hold KeyPayload, f.Payload is not looked at. On the wire the payload belongs at out[cut:]: so a writer can send
// out[:cut], the payload by reference, and out[cut:] with one vectored write. The length prefix counts the payload.
func AppendSplit(dst []byte, f *Frame, payloadLen int) (out []byte, cut int) {
	return appendFrame(dst, f, payloadLen, false)
}

// BodySize is the exact size of f's encoded body, in bytes, when its payload has payloadLen bytes.
func BodySize(f *Frame, payloadLen int) int {
	has := present(f)
	n := 1 + 4 + 2 + idSize(f.ID) + argSize(f.Seq) // map head, keys 0 to 3, version and type
	n += bits.OnesCount32(uint32(has))             // the other keys
	str := func(k Key, s []byte) {
		if has.Has(k) {
			n += argSize(uint64(len(s))) + len(s)
		}
	}
	str(KeyContentType, f.ContentType)
	str(KeyCap, f.Cap)
	str(KeyStreamID, f.StreamID)
	str(KeyMediaURN, f.MediaURN)
	num := func(k Key, v uint64) {
		if has.Has(k) {
			n += argSize(v)
		}
	}
	num(KeyLen, f.Len)
	num(KeyOffset, f.Offset)
	num(KeyChunkIndex, f.ChunkIndex)
	num(KeyChunkCount, f.ChunkCount)
	num(KeyChecksum, f.Checksum)
	num(KeyCredit, f.Credit)
	if has.Has(KeyMeta) {
		n += max(1, len(f.Meta))
	}
	if has.Has(KeyPayload) {
		n += argSize(uint64(payloadLen)) + payloadLen
	}
	if has.Has(KeyRoutingID) {
		n += idSize(f.Routing)
	}
	const flags Keys = 1<<KeyEOF | 1<<KeyIsSequence | 1<<KeyForceKill | 1<<KeyUnbounded
	return n + bits.OnesCount32(uint32(has&flags))
}

// present are the optional keys that go onto the wire.
func present(f *Frame) Keys {
	has := f.Has & optionalKeys
	if f.Routing.IsZero() {
		has = has.Without(KeyRoutingID)
	}
	return has
}

func idSize(id ID) int {
	if id.kind == idUUID {
		return 17
	}
	n, _ := id.Uint()
	return argSize(n)
}

// appendFrame does the work of Append and AppendSplit. It makes room once and then writes by index, which is several
// times as fast as appending field by field.
func appendFrame(dst []byte, f *Frame, payloadLen int, inline bool) (out []byte, cut int) {
	has := present(f)
	room := fixedRoom + len(f.Meta) + len(f.StreamID) + len(f.ContentType) + len(f.Cap) + len(f.MediaURN)
	if inline && has.Has(KeyPayload) {
		room += payloadLen
	}
	base := len(dst)
	dst = slices.Grow(dst, room)
	b := dst[base:cap(dst)]

	n := uint(bits.OnesCount32(uint32(has))) + 4
	i := PrefixSize
	b[i] = majorMap | byte(n) // at most 21
	b[i+1], b[i+2] = byte(KeyVersion), Version
	b[i+3], b[i+4] = byte(KeyType), byte(f.Type)
	b[i+5] = byte(KeyID)
	i = putID(b, i+6, f.ID)
	b[i] = byte(KeySeq)
	i = putHead(b, i+1, majorUint, f.Seq)

	outside := 0 // payload bytes that are counted and not written
	for rest := has; rest != 0; rest &= rest - 1 {
		k := Key(bits.TrailingZeros32(uint32(rest)))
		b[i] = byte(k)
		i++
		switch k {
		case KeyContentType:
			i = putStr(b, i, majorText, f.ContentType)
		case KeyMeta:
			if len(f.Meta) == 0 {
				b[i] = majorMap
				i++
			} else {
				i += copy(b[i:], f.Meta)
			}
		case KeyPayload:
			i = putHead(b, i, majorBytes, uint64(payloadLen))
			cut = base + i
			if inline {
				i += copy(b[i:], f.Payload)
			} else {
				outside = payloadLen
			}
		case KeyLen:
			i = putHead(b, i, majorUint, f.Len)
		case KeyOffset:
			i = putHead(b, i, majorUint, f.Offset)
		case KeyEOF:
			i = putBool(b, i, f.EOF)
		case KeyCap:
			i = putStr(b, i, majorText, f.Cap)
		case KeyStreamID:
			i = putStr(b, i, majorText, f.StreamID)
		case KeyMediaURN:
			i = putStr(b, i, majorText, f.MediaURN)
		case KeyRoutingID:
			i = putID(b, i, f.Routing)
		case KeyChunkIndex:
			i = putHead(b, i, majorUint, f.ChunkIndex)
		case KeyChunkCount:
			i = putHead(b, i, majorUint, f.ChunkCount)
		case KeyChecksum:
			i = putHead(b, i, majorUint, f.Checksum)
		case KeyIsSequence:
			i = putBool(b, i, f.IsSequence)
		case KeyForceKill:
			i = putBool(b, i, f.ForceKill)
		case KeyCredit:
			i = putHead(b, i, majorUint, f.Credit)
		case KeyUnbounded:
			i = putBool(b, i, f.Unbounded)
		}
	}
	binary.BigEndian.PutUint32(b, uint32(i-PrefixSize+outside))
	return dst[:base+i], cut
}

// The put… helpers write at b[i:] and return the position behind; b has the room.

func putHead(b []byte, i int, major byte, n uint64) int {
	if n < infoOne {
		b[i] = major | byte(n)
		return i + 1
	}
	return putWideHead(b[i:], i, major, n)
}

func putWideHead(b []byte, i int, major byte, n uint64) int {
	switch {
	case n <= 0xff:
		b[0], b[1] = major|infoOne, byte(n)
		return i + 2
	case n <= 0xffff:
		b[0] = major | infoTwo
		binary.BigEndian.PutUint16(b[1:], uint16(n))
		return i + 3
	case n <= 0xffff_ffff:
		b[0] = major | infoFour
		binary.BigEndian.PutUint32(b[1:], uint32(n))
		return i + 5
	}
	b[0] = major | infoEight
	binary.BigEndian.PutUint64(b[1:], n)
	return i + 9
}

func putStr(b []byte, i int, major byte, s []byte) int {
	i = putHead(b, i, major, uint64(len(s)))
	return i + copy(b[i:], s)
}

func putID(b []byte, i int, id ID) int {
	if id.kind == idUUID {
		b[i] = majorBytes | 16
		copy(b[i+1:], id.bytes[:])
		return i + 17
	}
	n, _ := id.Uint()
	return putHead(b, i, majorUint, n)
}

func putBool(b []byte, i int, v bool) int {
	b[i] = byteFalse
	if v {
		b[i] = byteTrue
	}
	return i + 1
}
