package frame

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
)

// ID is a message id or routing id: a 16-byte string or an unsigned integer, never equal to each other (spec/wire.md
// 5.1). IDs are comparable and serve as map keys. The zero value is no id at all.
type ID struct {
	kind  idKind
	bytes [16]byte // the uuid, or the integer big-endian in the last eight
}

type idKind uint8

const (
	idNone idKind = iota
	idUUID
	idUint
)

// UUIDFrom is the 16-byte form.
func UUIDFrom(b [16]byte) ID { return ID{kind: idUUID, bytes: b} }

// UintID is the integer form.
func UintID(n uint64) ID {
	id := ID{kind: idUint}
	binary.BigEndian.PutUint64(id.bytes[8:], n)
	return id
}

// uuidText is the length of a uuid's text, bytes.
const uuidText = 36

// NewUUID is a fresh random id, a version-4 uuid. It names things and guards nothing: whoever reads one link can see it.
func NewUUID() ID {
	id := ID{kind: idUUID}
	binary.BigEndian.PutUint64(id.bytes[:], rand.Uint64())
	binary.BigEndian.PutUint64(id.bytes[8:], rand.Uint64())
	id.bytes[6] = id.bytes[6]&0x0f | 0x40
	id.bytes[8] = id.bytes[8]&0x3f | 0x80
	return id
}

// IsZero reports whether id is absent.
func (id ID) IsZero() bool { return id.kind == idNone }

// UUID returns the 16 bytes, and whether id has that form.
func (id ID) UUID() ([16]byte, bool) { return id.bytes, id.kind == idUUID }

// Uint returns the integer, and whether id has that form.
func (id ID) Uint() (uint64, bool) { return binary.BigEndian.Uint64(id.bytes[8:]), id.kind == idUint }

// String is the textual uuid (8-4-4-4-12), the decimal integer, or "none".
func (id ID) String() string {
	var text [uuidText]byte
	return string(id.Append(text[:0]))
}

// Append appends the text of [ID.String] to dst.
func (id ID) Append(dst []byte) []byte {
	switch id.kind {
	case idUUID:
		for i, b := range id.bytes {
			switch i {
			case 4, 6, 8, 10:
				dst = append(dst, '-')
			}
			const digits = "0123456789abcdef"
			dst = append(dst, digits[b>>4], digits[b&15])
		}
		return dst
	case idUint:
		n, _ := id.Uint()
		return strconv.AppendUint(dst, n, 10)
	}
	return append(dst, "none"...)
}
