package frame

import (
	"bytes"
	"cmp"
	"math"
	"slices"
)

// keyClass orders keys of different kinds; the zero class comes before every real key.
type keyClass uint8

const (
	noKey keyClass = iota
	uintKey
	negKey // num is n of -1-n
	bytesKey
	textKey
	simpleKey
	floatKey // num is the bits of the 64-bit float
)

// mapKey is a key of a map in a form that is the same for all encodings of the same key.
type mapKey struct {
	class keyClass
	num   uint64
	str   []byte // of bytesKey and textKey; aliases the input unless the string came in segments
}

func (k mapKey) compare(o mapKey) int {
	if k.class != o.class {
		return cmp.Compare(k.class, o.class)
	}
	if k.class == bytesKey || k.class == textKey {
		return bytes.Compare(k.str, o.str)
	}
	return cmp.Compare(k.num, o.num)
}

// keyAt reads the key at b[i:], which is known to be well formed, and refuses kinds that rule does not allow. Arrays,
// maps, tags and NaN are never keys: two of them cannot be told apart cheaply, or at all.
func keyAt(b []byte, i int, rule keyRule) (mapKey, *SyntaxError) {
	h, next := readHead(b, i)
	if next < 0 {
		return mapKey{}, headError(next, i)
	}
	switch {
	case rule == frameKeys && h.major != majorUint:
		return mapKey{}, syntaxf(TokenBadKey, i, "first byte 0x%02x, want an unsigned integer as frame key", b[i])
	case rule == textKeys && h.major != majorText:
		return mapKey{}, syntaxf(TokenBadKey, i, "first byte 0x%02x, want a text as meta key", b[i])
	}
	switch h.major {
	case majorUint:
		return mapKey{class: uintKey, num: h.arg}, nil
	case majorNeg:
		return mapKey{class: negKey, num: h.arg}, nil
	case majorBytes, majorText:
		s, end := strAt(b, i, h.major)
		if end < 0 {
			return mapKey{}, syntaxf(TokenBadCBOR, i, "bad string as key")
		}
		if h.major == majorBytes {
			return mapKey{class: bytesKey, str: s}, nil
		}
		return mapKey{class: textKey, str: s}, nil
	case majorOther:
		if h.info < infoTwo {
			return mapKey{class: simpleKey, num: h.arg}, nil
		}
		f := floatOf(h)
		if math.IsNaN(f) {
			return mapKey{}, syntaxf(TokenBadKey, i, "NaN as map key")
		}
		return mapKey{class: floatKey, num: math.Float64bits(f + 0)}, nil // + 0 makes both zeros one
	}
	return mapKey{}, syntaxf(TokenBadKey, i, "first byte 0x%02x, want a number, text, bytes or simple value as map key", b[i])
}

// keyPlace is a key and where it stands.
type keyPlace struct {
	mapKey
	at int
}

// findDuplicate looks for two equal keys in the well-formed map whose entries fill b[begin:], its break included. It
// sorts, so hostile maps cost n log n.
func findDuplicate(b []byte, begin int) *SyntaxError {
	var few [16]keyPlace // enough for every meta of the protocol
	keys := few[:0]
	for i := begin; i < len(b) && b[i] != byteBreak; {
		key, err := keyAt(b, i, scalarKeys)
		if err != nil {
			return err
		}
		keys = append(keys, keyPlace{key, i})
		if i = skipItem(b, i); i < 0 { // the key
			break
		}
		if i = skipItem(b, i); i < 0 { // the value
			break
		}
	}
	slices.SortFunc(keys, func(x, y keyPlace) int {
		if order := x.compare(y.mapKey); order != 0 {
			return order
		}
		return cmp.Compare(x.at, y.at) // so that the error names the second one
	})
	for n := 1; n < len(keys); n++ {
		if keys[n-1].compare(keys[n].mapKey) == 0 {
			return duplicate(keys[n].mapKey, keys[n].at)
		}
	}
	return nil
}

func duplicate(key mapKey, at int) *SyntaxError {
	switch key.class {
	case uintKey:
		return syntaxf(TokenDuplicateKey, at, "key %d stands here for the second time", key.num)
	case textKey:
		return syntaxf(TokenDuplicateKey, at, "key %.40q stands here for the second time", key.str)
	}
	return syntaxf(TokenDuplicateKey, at, "the same key stands here for the second time")
}

// skipItem returns the position behind the item at b[i:], or -1 when there is none.
func skipItem(b []byte, i int) int {
	var s Scanner
	n, done, err := s.Feed(b[i:])
	if err != nil || !done {
		return -1
	}
	return i + n
}
