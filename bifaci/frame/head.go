package frame

import "encoding/binary"

// The major types of CBOR (RFC 8949 section 3.1), in place: the top three bits of an item's first byte.
const (
	majorUint  byte = 0 << 5
	majorNeg   byte = 1 << 5
	majorBytes byte = 2 << 5
	majorText  byte = 3 << 5
	majorArray byte = 4 << 5
	majorMap   byte = 5 << 5
	majorTag   byte = 6 << 5
	majorOther byte = 7 << 5 // simple values, floats, break

	majorMask byte = 7 << 5
)

// First bytes and low bits with a meaning of their own.
const (
	infoOne   = 24 // the argument is in the next byte
	infoTwo   = 25 // … two bytes, or a 16-bit float
	infoFour  = 26
	infoEight = 27
	infoIndef = 31 // indefinite length, or break in major type 7

	byteFalse byte = 0xf4
	byteTrue  byte = 0xf5
	byteNull  byte = 0xf6
	byteUndef byte = 0xf7
	byteBreak byte = 0xff
)

// maxHead is the size of the longest head, in bytes.
const maxHead = 9

// What readHead returns instead of a position.
const (
	headTruncated = -1 // the input ends inside the head
	headReserved  = -2 // a head that no encoder may produce
)

// head is the decoded beginning of an item.
type head struct {
	major byte   // one of the major… constants
	info  byte   // the low five bits
	arg   uint64 // value, length, count, tag number or float bits
}

// readHead reads the head at b[i:]. It returns the position behind it, or headTruncated or headReserved.
func readHead(b []byte, i int) (h head, next int) {
	if i >= len(b) {
		return h, headTruncated
	}
	h.major, h.info = b[i]&majorMask, b[i]&^majorMask
	i++
	switch rest := b[i:]; {
	case h.info < infoOne:
		h.arg = uint64(h.info)
		return h, i
	case h.info == infoOne:
		if len(rest) < 1 {
			return h, headTruncated
		}
		h.arg = uint64(rest[0])
		if h.major == majorOther && h.arg < 32 {
			return h, headReserved // a simple value that has a one-byte spelling must use it
		}
		return h, i + 1
	case h.info == infoTwo:
		if len(rest) < 2 {
			return h, headTruncated
		}
		h.arg = uint64(binary.BigEndian.Uint16(rest))
		return h, i + 2
	case h.info == infoFour:
		if len(rest) < 4 {
			return h, headTruncated
		}
		h.arg = uint64(binary.BigEndian.Uint32(rest))
		return h, i + 4
	case h.info == infoEight:
		if len(rest) < 8 {
			return h, headTruncated
		}
		h.arg = binary.BigEndian.Uint64(rest)
		return h, i + 8
	case h.info == infoIndef && h.major != majorUint && h.major != majorNeg && h.major != majorTag:
		return h, i
	}
	return h, headReserved
}

// headSize is the size of the head that begins with first, in bytes; 1 for reserved ones, which readHead then refuses.
func headSize(first byte) int {
	switch first &^ majorMask {
	case infoOne:
		return 2
	case infoTwo:
		return 3
	case infoFour:
		return 5
	case infoEight:
		return 9
	}
	return 1
}

// argSize is the size of the shortest head with argument n, in bytes.
func argSize(n uint64) int {
	switch {
	case n < infoOne:
		return 1
	case n <= 0xff:
		return 2
	case n <= 0xffff:
		return 3
	case n <= 0xffff_ffff:
		return 5
	}
	return 9
}

// appendHead appends the shortest head of the given major type and argument.
func appendHead(dst []byte, major byte, n uint64) []byte {
	switch {
	case n < infoOne:
		return append(dst, major|byte(n))
	case n <= 0xff:
		return append(dst, major|infoOne, byte(n))
	case n <= 0xffff:
		return binary.BigEndian.AppendUint16(append(dst, major|infoTwo), uint16(n))
	case n <= 0xffff_ffff:
		return binary.BigEndian.AppendUint32(append(dst, major|infoFour), uint32(n))
	}
	return binary.BigEndian.AppendUint64(append(dst, major|infoEight), n)
}

// AppendBytesHead appends the head of a CBOR byte string of n bytes; the caller appends the bytes.
func AppendBytesHead(dst []byte, n int) []byte { return appendHead(dst, majorBytes, uint64(n)) }

// AppendTextHead appends the head of a CBOR text of n bytes; the caller appends the UTF-8.
func AppendTextHead(dst []byte, n int) []byte { return appendHead(dst, majorText, uint64(n)) }

// InnerBytes returns the content of p when p is exactly one definite-length CBOR byte string, without copying; the
// shape of every scalar payload a runtime sends (spec/wire.md 8.2).
func InnerBytes(p []byte) (inner []byte, ok bool) {
	h, next := readHead(p, 0)
	if next < 0 || h.major != majorBytes || h.info == infoIndef || h.arg != uint64(len(p)-next) {
		return nil, false
	}
	return p[next:], true
}
