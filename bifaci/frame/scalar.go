package frame

import (
	"encoding/binary"
	"math"
	"unicode/utf8"
)

// The …At readers take the value at b[i:] and return it with the position behind it, or -1 when it has another type or
// is malformed; which of the two it was is found out on the slow path. They never read beyond b.

func uintAt(b []byte, i int) (v uint64, next int) {
	if i < len(b) && b[i] < infoOne {
		return uint64(b[i]), i + 1
	}
	return wideUintAt(b, i)
}

func wideUintAt(b []byte, i int) (v uint64, next int) {
	if i >= len(b) {
		return 0, -1
	}
	rest := b[i+1:]
	switch b[i] {
	case infoOne:
		if len(rest) >= 1 {
			return uint64(rest[0]), i + 2
		}
	case infoTwo:
		if len(rest) >= 2 {
			return uint64(binary.BigEndian.Uint16(rest)), i + 3
		}
	case infoFour:
		if len(rest) >= 4 {
			return uint64(binary.BigEndian.Uint32(rest)), i + 5
		}
	case infoEight:
		if len(rest) >= 8 {
			return binary.BigEndian.Uint64(rest), i + 9
		}
	}
	if b[i] < infoOne {
		return uint64(b[i]), i + 1
	}
	return 0, -1
}

func boolAt(b []byte, i int) (v bool, next int) {
	if i < len(b) && b[i]&^1 == byteFalse {
		return b[i] == byteTrue, i + 1
	}
	return false, -1
}

// strAt reads a byte string or text. Definite ones alias b; segments are joined in a new slice. The UTF-8 of a definite
// text is the caller's business, that of segments is checked here, each on its own.
func strAt(b []byte, i int, major byte) (s []byte, next int) {
	if i < len(b) && b[i]-major < infoOne {
		next = i + 1 + int(b[i]-major)
		if next > len(b) {
			return nil, -1
		}
		return b[i+1 : next : next], next
	}
	return longStrAt(b, i, major)
}

func longStrAt(b []byte, i int, major byte) (s []byte, next int) {
	h, at := readHead(b, i)
	if at < 0 || h.major != major {
		return nil, -1
	}
	if h.info != infoIndef {
		if h.arg > uint64(len(b)-at) {
			return nil, -1
		}
		next = at + int(h.arg)
		return b[at:next:next], next
	}
	s = []byte{}
	for {
		h, next = readHead(b, at)
		switch {
		case next < 0:
			return nil, -1
		case b[at] == byteBreak:
			return s, next
		case h.major != major || h.info == infoIndef || h.arg > uint64(len(b)-next):
			return nil, -1
		}
		at = next + int(h.arg)
		segment := b[next:at]
		if major == majorText && !utf8.Valid(segment) {
			return nil, -1
		}
		s = append(s, segment...)
	}
}

func textAt(b []byte, i int) (s []byte, next int) {
	s, next = strAt(b, i, majorText)
	if next >= 0 && !utf8.Valid(s) {
		return nil, -1
	}
	return s, next
}

func idAt(b []byte, i int) (id ID, next int) {
	if i < len(b) && b[i] == majorBytes|16 && len(b)-i > 16 {
		id.kind = idUUID
		copy(id.bytes[:], b[i+1:])
		return id, i + 17
	}
	if v, next := uintAt(b, i); next >= 0 {
		return UintID(v), next
	}
	s, next := strAt(b, i, majorBytes)
	if next < 0 || len(s) != 16 {
		return ID{}, -1
	}
	return UUIDFrom([16]byte(s)), next
}

// floatOf is the value of a float head, widened to 64 bits.
func floatOf(h head) float64 {
	switch h.info {
	case infoTwo:
		return halfToFloat(uint16(h.arg))
	case infoFour:
		return float64(math.Float32frombits(uint32(h.arg)))
	}
	return math.Float64frombits(h.arg)
}

// halfToFloat widens a 16-bit float.
func halfToFloat(h uint16) float64 {
	fraction, exponent := float64(h&0x3ff), int(h>>10&0x1f)
	var f float64
	switch exponent {
	case 0:
		f = math.Ldexp(fraction, -24)
	case 31:
		f = math.Inf(1)
		if fraction != 0 {
			f = math.NaN()
		}
	default:
		f = math.Ldexp(fraction+1024, exponent-25)
	}
	if h&0x8000 != 0 {
		return math.Copysign(f, -1)
	}
	return f
}

// floatToHalf narrows f when that loses nothing.
func floatToHalf(f float64) (h uint16, exact bool) {
	bits := math.Float64bits(f)
	sign := uint16(bits >> 48 & 0x8000)
	fraction := bits & (1<<52 - 1)
	switch exponent := int(bits>>52&0x7ff) - 1023; {
	case f == 0:
		return sign, true
	case math.IsInf(f, 0):
		return sign | 0x7c00, true
	case exponent > 15 || exponent < -24: // NaN too
		return 0, false
	case exponent >= -14:
		return sign | uint16(exponent+15)<<10 | uint16(fraction>>42), fraction&(1<<42-1) == 0
	default: // subnormal: count units of 2^-24
		shift := uint(28 - exponent) // 52 - 24 - exponent
		mantissa := fraction | 1<<52
		return sign | uint16(mantissa>>shift), mantissa&(1<<shift-1) == 0
	}
}

// appendFloat appends f in the smallest width that keeps its value (spec/wire.md 2.1). Every NaN becomes the one quiet
// NaN.
func appendFloat(dst []byte, f float64) []byte {
	if math.IsNaN(f) {
		return append(dst, majorOther|infoTwo, 0x7e, 0)
	}
	if h, exact := floatToHalf(f); exact {
		return binary.BigEndian.AppendUint16(append(dst, majorOther|infoTwo), h)
	}
	if s := float32(f); float64(s) == f {
		return binary.BigEndian.AppendUint32(append(dst, majorOther|infoFour), math.Float32bits(s))
	}
	return binary.BigEndian.AppendUint64(append(dst, majorOther|infoEight), math.Float64bits(f))
}
