package frame

import "strings"

// metaWalk goes through the entries of a meta map in the order they stand on the wire, without decoding what nobody
// asks for. It accepts any bytes: where they are no map it ends early and says so in broken.
type metaWalk struct {
	b      []byte
	i      int
	left   uint64
	open   bool // indefinite length
	broken bool
}

// walkMeta begins at the first entry of f's meta; a frame without meta has none.
func walkMeta(f *Frame) metaWalk {
	if !f.Has.Has(KeyMeta) || len(f.Meta) == 0 {
		return metaWalk{}
	}
	return walkMap(f.Meta)
}

func walkMap(raw []byte) metaWalk {
	h, i := readHead(raw, 0)
	if i < 0 || h.major != majorMap {
		return metaWalk{broken: true}
	}
	return metaWalk{b: raw, i: i, left: h.arg, open: h.info == infoIndef}
}

// next returns the next key and the encoded value that belongs to it.
func (w *metaWalk) next() (key []byte, value metaValue, ok bool) {
	if !w.open && w.left == 0 || w.broken {
		return nil, nil, false
	}
	if w.open && w.i < len(w.b) && w.b[w.i] == byteBreak {
		w.open, w.left = false, 0
		return nil, nil, false
	}
	key, at := textAt(w.b, w.i)
	if at < 0 {
		w.broken = true
		return nil, nil, false
	}
	end := skipItem(w.b, at)
	if end < 0 {
		w.broken = true
		return nil, nil, false
	}
	w.i, w.left = end, w.left-1
	return key, metaValue(w.b[at:end]), true
}

// metaValue is one encoded value of a meta; empty means absent.
type metaValue []byte

func (v metaValue) present() bool { return len(v) > 0 }

// text is the value as text, and whether it is one.
func (v metaValue) text() (string, bool) {
	s, next := textAt(v, 0)
	return string(s), next >= 0
}

// words is the value as a text that is not blank.
func (v metaValue) words() (string, bool) {
	s, ok := v.text()
	return s, ok && strings.TrimSpace(s) != ""
}

func (v metaValue) bytes() ([]byte, bool) {
	s, next := strAt(v, 0, majorBytes)
	return s, next >= 0
}

func (v metaValue) uint() (uint64, bool) {
	n, next := uintAt(v, 0)
	return n, next >= 0
}

// int is the value as a signed integer, when it fits.
func (v metaValue) int() (int64, bool) {
	h, next := readHead(v, 0)
	switch {
	case next < 0 || h.arg > 1<<63-1:
		return 0, false
	case h.major == majorUint:
		return int64(h.arg), true
	case h.major == majorNeg:
		return ^int64(h.arg), true
	}
	return 0, false
}

// number is the value as a float, integers included, and whether it is a number at all; NaN is none.
func (v metaValue) number() (float64, bool) {
	h, next := readHead(v, 0)
	switch {
	case next < 0:
		return 0, false
	case h.major == majorUint:
		return float64(h.arg), true
	case h.major == majorNeg:
		return -1 - float64(h.arg), true
	case h.major == majorOther && h.info >= infoTwo && h.info <= infoEight:
		f := floatOf(h)
		return f, f == f
	}
	return 0, false
}

func (v metaValue) bool() (value, ok bool) {
	value, next := boolAt(v, 0)
	return value, next >= 0
}

// The put helpers append one entry of a meta whose keys the caller gives in ascending order. Texts are made valid
// first: a receiver ends the connection over bytes that are not UTF-8 (spec/wire.md 2.2).

func putText(dst []byte, key, value string) []byte {
	value = validText(value)
	return append(AppendTextHead(putKey(dst, key), len(value)), value...)
}

func putBytes(dst []byte, key string, value []byte) []byte {
	return append(AppendBytesHead(putKey(dst, key), len(value)), value...)
}

func putUint(dst []byte, key string, value uint64) []byte {
	return appendHead(putKey(dst, key), majorUint, value)
}

func putFloat(dst []byte, key string, value float64) []byte {
	return appendFloat(putKey(dst, key), value)
}

func putFlag(dst []byte, key string, value bool) []byte {
	if value {
		return append(putKey(dst, key), byteTrue)
	}
	return append(putKey(dst, key), byteFalse)
}

func putKey(dst []byte, key string) []byte {
	return append(AppendTextHead(dst, len(key)), key...)
}

// mapHead appends the head of a map of as many entries as conditions hold.
func mapHead(dst []byte, conditions ...bool) []byte {
	n := uint64(0)
	for _, c := range conditions {
		if c {
			n++
		}
	}
	return appendHead(dst, majorMap, n)
}
