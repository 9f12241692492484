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
	i = putID(b, i+6, &f.ID)
	b[i] = byte(KeySeq)
	i = putHead(b, i+1, majorUint, f.Seq)

	outside := 0 // payload bytes that are counted and not written
	// One test per key beats a loop over the set: the tests of a flow's frames are predicted, an indirect jump is not.
	if has.Has(KeyContentType) {
		i = putStr(b, i, KeyContentType, f.ContentType)
	}
	if has.Has(KeyMeta) {
		b[i], b[i+1] = byte(KeyMeta), majorMap // which stays when there is nothing to copy
		i += 1 + max(1, copy(b[i+1:], f.Meta))
	}
	if has.Has(KeyPayload) {
		b[i] = byte(KeyPayload)
		i = putHead(b, i+1, majorBytes, uint64(payloadLen))
		cut = base + i
		if inline {
			i += copy(b[i:], f.Payload)
		} else {
			outside = payloadLen
		}
	}
	if has&legacyKeys != 0 {
		i = putLegacy(b, i, f, has)
	}
	if has.Has(KeyEOF) {
		i = putBool(b, i, KeyEOF, f.EOF)
	}
	if has.Has(KeyCap) {
		i = putStr(b, i, KeyCap, f.Cap)
	}
	if has.Has(KeyStreamID) {
		i = putStr(b, i, KeyStreamID, f.StreamID)
	}
	if has.Has(KeyMediaURN) {
		i = putStr(b, i, KeyMediaURN, f.MediaURN)
	}
	if has.Has(KeyRoutingID) {
		b[i] = byte(KeyRoutingID)
		i = putID(b, i+1, &f.Routing)
	}
	if has.Has(KeyChunkIndex) {
		i = putUintEntry(b, i, KeyChunkIndex, f.ChunkIndex)
	}
	if has.Has(KeyChunkCount) {
		i = putUintEntry(b, i, KeyChunkCount, f.ChunkCount)
	}
	if has.Has(KeyChecksum) {
		i = putUintEntry(b, i, KeyChecksum, f.Checksum)
	}
	if has.Has(KeyIsSequence) {
		i = putBool(b, i, KeyIsSequence, f.IsSequence)
	}
	if has.Has(KeyForceKill) {
		i = putBool(b, i, KeyForceKill, f.ForceKill)
	}
	if has.Has(KeyCredit) {
		i = putUintEntry(b, i, KeyCredit, f.Credit)
	}
	if has.Has(KeyUnbounded) {
		i = putBool(b, i, KeyUnbounded, f.Unbounded)
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
	return putWideHead(b, i, major, n)
}

func putWideHead(b []byte, i int, major byte, n uint64) int {
	at := b[i:]
	switch {
	case n <= 0xff:
		at[0], at[1] = major|infoOne, byte(n)
		return i + 2
	case n <= 0xffff:
		at[0] = major | infoTwo
		binary.BigEndian.PutUint16(at[1:], uint16(n))
		return i + 3
	case n <= 0xffff_ffff:
		at[0] = major | infoFour
		binary.BigEndian.PutUint32(at[1:], uint32(n))
		return i + 5
	}
	at[0] = major | infoEight
	binary.BigEndian.PutUint64(at[1:], n)
	return i + 9
}

func putUintEntry(b []byte, i int, key Key, n uint64) int {
	b[i] = byte(key)
	return putHead(b, i+1, majorUint, n)
}

func putStr(b []byte, i int, key Key, s []byte) int {
	b[i] = byte(key)
	i = putHead(b, i+1, majorText, uint64(len(s)))
	return i + copy(b[i:], s)
}

func putID(b []byte, i int, id *ID) int {
	if id.kind == idUUID {
		b[i] = majorBytes | 16
		*(*[16]byte)(b[i+1:]) = id.bytes
		return i + 17
	}
	n, _ := id.Uint()
	return putHead(b, i, majorUint, n)
}

func putBool(b []byte, i int, key Key, v bool) int {
	b[i], b[i+1] = byte(key), byteFalse
	if v {
		b[i+1] = byteTrue
	}
	return i + 2
}

// legacyKeys are emitted by old helpers of other implementations only.
const legacyKeys Keys = 1<<KeyLen | 1<<KeyOffset

func putLegacy(b []byte, i int, f *Frame, has Keys) int {
	if has.Has(KeyLen) {
		i = putUintEntry(b, i, KeyLen, f.Len)
	}
	if has.Has(KeyOffset) {
		i = putUintEntry(b, i, KeyOffset, f.Offset)
	}
	return i
}
