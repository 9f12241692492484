package frame

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// NegInt is the integer -1-n, for those below the range of int64. [DecodeValue] and [DecodeMeta] use it there only.
type NegInt uint64

// MarshalCBOR implements the interface of the cbor package, so that a NegInt inside any Go value keeps its meaning.
func (n NegInt) MarshalCBOR() ([]byte, error) { return appendHead(nil, majorNeg, uint64(n)), nil }

// Undefined is what CBOR's undefined decodes to and encodes from.
const Undefined = cbor.SimpleValue(23)

// keyOrder is the order of text keys in an encoded map.
type keyOrder uint8

const (
	byEncoding keyOrder = iota // RFC 8949 4.2.1, core deterministic: shorter keys first
	byContent                  // spec/wire.md 2.1, metas: bytewise
)

// encMode encodes what the fast paths below do not know. Maps are sorted and floats shortest as there; times are text,
// RFC 3339 with nanoseconds.
var encMode = sync.OnceValues(func() (cbor.EncMode, error) {
	opts := cbor.CoreDetEncOptions()
	opts.Time = cbor.TimeRFC3339Nano
	return opts.EncMode()
})

// AppendValue appends v as one CBOR item and returns the extended slice: definite lengths, shortest heads, floats in the
// smallest width that keeps the value, map keys in core deterministic order (RFC 8949 4.2.1). It takes any Go value
// that the fxamacker/cbor package takes, struct tags included; nil, booleans, numbers, text, bytes, []any and
// map[string]any take a fast path. Text that is not UTF-8, a nesting above 256 levels and kinds without an encoding
// are errors; dst is then returned as it was.
func AppendValue(dst []byte, v any) ([]byte, error) {
	out, err := appendValue(dst, v, byEncoding, 1)
	if err != nil {
		return dst, fmt.Errorf("encode value: %w", err)
	}
	return out, nil
}

func appendValue(dst []byte, v any, order keyOrder, level int) ([]byte, error) {
	switch v := v.(type) {
	case nil:
		return append(dst, byteNull), nil
	case bool:
		if v {
			return append(dst, byteTrue), nil
		}
		return append(dst, byteFalse), nil
	case int:
		return appendInt(dst, int64(v)), nil
	case int8:
		return appendInt(dst, int64(v)), nil
	case int16:
		return appendInt(dst, int64(v)), nil
	case int32:
		return appendInt(dst, int64(v)), nil
	case int64:
		return appendInt(dst, v), nil
	case uint:
		return appendHead(dst, majorUint, uint64(v)), nil
	case uint8:
		return appendHead(dst, majorUint, uint64(v)), nil
	case uint16:
		return appendHead(dst, majorUint, uint64(v)), nil
	case uint32:
		return appendHead(dst, majorUint, uint64(v)), nil
	case uint64:
		return appendHead(dst, majorUint, v), nil
	case NegInt:
		return appendHead(dst, majorNeg, uint64(v)), nil
	case float32:
		return appendFloat(dst, float64(v)), nil
	case float64:
		return appendFloat(dst, v), nil
	case string:
		return appendText(dst, v)
	case []byte:
		if v == nil {
			return append(dst, byteNull), nil
		}
		return append(AppendBytesHead(dst, len(v)), v...), nil
	case cbor.ByteString:
		return append(AppendBytesHead(dst, len(v)), v...), nil
	case cbor.Tag:
		if level > maxValueDepth {
			return nil, errTooDeep
		}
		return appendValue(appendHead(dst, majorTag, v.Number), v.Content, order, level+1)
	case []any:
		if v == nil {
			return append(dst, byteNull), nil
		}
		if level > maxValueDepth {
			return nil, errTooDeep
		}
		dst = appendHead(dst, majorArray, uint64(len(v)))
		var err error
		for i, e := range v {
			if dst, err = appendValue(dst, e, order, level+1); err != nil {
				return nil, fmt.Errorf("element %d: %w", i, err)
			}
		}
		return dst, nil
	case map[string]any:
		if v == nil {
			return append(dst, byteNull), nil
		}
		return appendTextMap(dst, v, order, level)
	case map[any]any:
		return appendAnyMap(dst, v, order, level)
	}
	return appendOther(dst, v, order, level)
}

var errTooDeep = errors.New("nested deeper than 256 levels")

func appendInt(dst []byte, v int64) []byte {
	if v < 0 {
		return appendHead(dst, majorNeg, uint64(^v))
	}
	return appendHead(dst, majorUint, uint64(v))
}

func appendText(dst []byte, s string) ([]byte, error) {
	if !utf8.ValidString(s) {
		return nil, fmt.Errorf("text %.40q is not UTF-8", s)
	}
	return append(AppendTextHead(dst, len(s)), s...), nil
}

// appendTextMap appends a map whose keys are all text.
func appendTextMap(dst []byte, m map[string]any, order keyOrder, level int) ([]byte, error) {
	if level > maxValueDepth {
		return nil, errTooDeep
	}
	var few [8]string
	keys := few[:0]
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, func(a, b string) int {
		if order == byEncoding && len(a) != len(b) {
			return cmp.Compare(len(a), len(b)) // the head of the shorter one sorts first
		}
		return cmp.Compare(a, b)
	})
	dst = appendHead(dst, majorMap, uint64(len(keys)))
	var err error
	for _, k := range keys {
		if dst, err = appendText(dst, k); err != nil {
			return nil, fmt.Errorf("map key: %w", err)
		}
		if dst, err = appendValue(dst, m[k], order, level+1); err != nil {
			return nil, fmt.Errorf("map key %.40q: %w", k, err)
		}
	}
	return dst, nil
}

// appendAnyMap appends a map with keys of several kinds: what [DecodeValue] returns for maps that are not text-keyed.
func appendAnyMap(dst []byte, m map[any]any, order keyOrder, level int) ([]byte, error) {
	if m == nil {
		return append(dst, byteNull), nil
	}
	if level > maxValueDepth {
		return nil, errTooDeep
	}
	type entry struct {
		key   []byte
		value any
	}
	entries := make([]entry, 0, len(m))
	for k, v := range m {
		key, err := appendValue(nil, k, order, level+1)
		if err != nil {
			return nil, fmt.Errorf("map key: %w", err)
		}
		if _, bad := keyAt(key, 0, scalarKeys); bad != nil {
			return nil, fmt.Errorf("map key: %w", bad)
		}
		entries = append(entries, entry{key, v})
	}
	slices.SortFunc(entries, func(a, b entry) int { return bytes.Compare(a.key, b.key) })
	dst = appendHead(dst, majorMap, uint64(len(m)))
	for i, e := range entries {
		if i > 0 && bytes.Equal(e.key, entries[i-1].key) { // int64(1) and uint64(1), for instance
			return nil, fmt.Errorf("map key %x: two keys of the Go map encode to it", e.key)
		}
		var err error
		if dst, err = appendValue(append(dst, e.key...), e.value, order, level+1); err != nil {
			return nil, fmt.Errorf("map key %x: %w", e.key, err)
		}
	}
	return dst, nil
}

// appendOther leaves the encoding to the cbor package and checks what came out, for it trusts strings and the values'
// own MarshalCBOR. A meta is then decoded and sorted its own way.
func appendOther(dst []byte, v any, order keyOrder, level int) ([]byte, error) {
	if m, ok := v.(Meta); ok {
		return appendValue(dst, map[string]any(m), order, level)
	}
	mode, err := encMode()
	if err != nil {
		return nil, err
	}
	raw, err := mode.Marshal(v)
	if err != nil {
		return nil, err
	}
	if err := WellFormed(raw); err != nil {
		return nil, fmt.Errorf("the encoding of a %T: %w", v, err)
	}
	if order == byEncoding {
		return append(dst, raw...), nil
	}
	plain, err := DecodeValue(raw)
	if err != nil {
		return nil, fmt.Errorf("the encoding of a %T: %w", v, err)
	}
	if simple, ok := plain.(cbor.SimpleValue); ok {
		return appendSimple(dst, simple), nil
	}
	return appendValue(dst, plain, order, level)
}

func appendSimple(dst []byte, v cbor.SimpleValue) []byte {
	return appendHead(dst, majorOther, uint64(v))
}

// clampProgress brings a progress into what may be sent: 0 to 1, never NaN (spec/wire.md 10.2).
func clampProgress(p float64) float64 {
	if math.IsNaN(p) {
		return 0
	}
	return min(max(p, 0), 1)
}
