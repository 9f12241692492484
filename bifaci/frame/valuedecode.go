package frame

import (
	"bytes"
	"fmt"
	"math"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// DecodeValue decodes p, which must be exactly one CBOR item nested at most 256 levels deep (tags count), into plain Go
// values that do not alias p:
//
//	integer              int64; above its range uint64, below it [NegInt]
//	text, bytes          string, []byte
//	float                float64
//	array                []any
//	map                  map[string]any when all keys are text, otherwise map[any]any (a byte string key is a
//	                     cbor.ByteString); arrays, maps, tags and NaN as keys are refused, and duplicates
//	true, false, null    bool, nil
//	undefined            [Undefined]; other simple values are cbor.SimpleValue too
//	tag                  cbor.Tag
//
// Memory follows the bytes that are there, not the counts they declare. The error is a [*SyntaxError].
func DecodeValue(p []byte) (any, error) {
	d := valueDecoder{checker{b: p, maxDepth: maxValueDepth}}
	v, i, err := d.value(0, 1)
	if err != nil {
		return nil, err
	}
	if i != len(p) {
		return nil, syntaxf(TokenTrailingBytes, i, "%d bytes behind the item", len(p)-i)
	}
	return v, nil
}

// trustedCount is how many elements are allocated ahead because a head says so.
const trustedCount = 64

// valueDecoder decodes items at positions of the checker's input.
type valueDecoder struct{ checker }

// value decodes the item at i and returns it with the position behind it. level is the level of a container at i.
func (d *valueDecoder) value(i, level int) (any, int, *SyntaxError) {
	h, next := readHead(d.b, i)
	if next < 0 {
		return nil, 0, headError(next, i)
	}
	switch h.major {
	case majorUint:
		if h.arg <= math.MaxInt64 {
			return int64(h.arg), next, nil
		}
		return h.arg, next, nil
	case majorNeg:
		if h.arg <= math.MaxInt64 {
			return ^int64(h.arg), next, nil
		}
		return NegInt(h.arg), next, nil
	case majorBytes, majorText:
		end, err := d.str(h, i, next)
		if err != nil {
			return nil, 0, err
		}
		s, _ := strAt(d.b, i, h.major)
		if h.major == majorText {
			return string(s), end, nil
		}
		return append([]byte{}, s...), end, nil
	case majorOther:
		return d.simple(h, i, next)
	}
	if err := d.deeper(i, level); err != nil {
		return nil, 0, err
	}
	switch h.major {
	case majorArray:
		return d.array(h, next, level)
	case majorMap:
		return d.mapping(h, next, level)
	}
	content, next, err := d.value(next, level+1)
	return cbor.Tag{Number: h.arg, Content: content}, next, err
}

func (d *valueDecoder) simple(h head, i, next int) (any, int, *SyntaxError) {
	switch {
	case h.info == infoIndef:
		return nil, 0, syntaxf(TokenBadCBOR, i, "break outside an indefinite-length item")
	case h.info >= infoTwo:
		return floatOf(h), next, nil
	}
	switch d.b[i] {
	case byteFalse, byteTrue:
		return d.b[i] == byteTrue, next, nil
	case byteNull:
		return nil, next, nil
	}
	return cbor.SimpleValue(h.arg), next, nil
}

func (d *valueDecoder) array(h head, i, level int) (any, int, *SyntaxError) {
	if h.info != infoIndef && h.arg > uint64(len(d.b)-i) {
		return nil, 0, syntaxf(TokenBadCBOR, i, "array of %d elements, %d bytes left", h.arg, len(d.b)-i)
	}
	list := make([]any, 0, min(h.arg, trustedCount))
	for n := h.arg; h.info == infoIndef || n > 0; n-- {
		if h.info == infoIndef && i < len(d.b) && d.b[i] == byteBreak {
			return list, i + 1, nil
		}
		v, next, err := d.value(i, level+1)
		if err != nil {
			return nil, 0, err
		}
		list, i = append(list, v), next
	}
	return list, i, nil
}

func (d *valueDecoder) mapping(h head, i, level int) (any, int, *SyntaxError) {
	if h.info != infoIndef && h.arg > uint64(len(d.b)-i)/2 {
		return nil, 0, syntaxf(TokenBadCBOR, i, "map of %d entries, %d bytes left", h.arg, len(d.b)-i)
	}
	texts := make(map[string]any, min(h.arg, trustedCount))
	var mixed map[any]any // takes over at the first key that is no text
	for n := h.arg; h.info == infoIndef || n > 0; n-- {
		if h.info == infoIndef && i < len(d.b) && d.b[i] == byteBreak {
			i++
			break
		}
		key, next, err := d.key(i, level)
		if err != nil {
			return nil, 0, err
		}
		text, isText := key.(string)
		if !isText && mixed == nil {
			mixed = make(map[any]any, len(texts)+1)
			for k, v := range texts {
				mixed[k] = v
			}
		}
		var twice bool
		if mixed != nil {
			_, twice = mixed[key]
		} else {
			_, twice = texts[text]
		}
		if twice {
			return nil, 0, syntaxf(TokenDuplicateKey, i, "key %.40v stands here for the second time", key)
		}
		v, next, err := d.value(next, level+1)
		if err != nil {
			return nil, 0, err
		}
		if mixed != nil {
			mixed[key] = v
		} else {
			texts[text] = v
		}
		i = next
	}
	if mixed != nil {
		return mixed, i, nil
	}
	return texts, i, nil
}

// key decodes the map key at i into something that a Go map can hold.
func (d *valueDecoder) key(i, level int) (any, int, *SyntaxError) {
	next, err := d.item(i, level+1)
	if err != nil {
		return nil, 0, err
	}
	if _, err := keyAt(d.b, i, scalarKeys); err != nil {
		return nil, 0, err
	}
	key, _, err := d.value(i, level+1)
	if b, ok := key.([]byte); ok {
		key = cbor.ByteString(b)
	}
	return key, next, err
}

// Meta is the decoded meta of a frame. Its values are those of [DecodeValue].
type Meta map[string]any

// DecodeMeta decodes f.Meta of a decoded frame. The result does not alias raw. The error is a [*SyntaxError].
func DecodeMeta(raw []byte) (Meta, error) {
	c := checker{b: raw, maxDepth: maxFrameDepth, unique: true}
	h, i := readHead(raw, 0)
	if i < 0 {
		return nil, headError(i, 0)
	}
	if h.major != majorMap {
		return nil, syntaxf(TokenWrongType, 0, "%s, want a map as meta", describe(raw, 0))
	}
	i, err := c.entries(h, i, 2, textKeys)
	if err != nil {
		return nil, err
	}
	if i != len(raw) {
		return nil, syntaxf(TokenTrailingBytes, i, "%d bytes behind the meta map", len(raw)-i)
	}
	v, err2 := DecodeValue(raw)
	if err2 != nil {
		return nil, err2
	}
	return v.(map[string]any), nil
}

// AppendMeta appends m as the meta of a frame: text keys bytewise ascending at every level, floats in the smallest width
// that keeps the value (spec/wire.md 2.1). Values may be all that [AppendValue] takes. The result is checked against
// what a receiver refuses (2.2), nesting above 32 levels for one. On error dst is returned as it was.
func AppendMeta(dst []byte, m Meta) ([]byte, error) {
	out, err := appendTextMap(dst, m, byContent, 1)
	if err != nil {
		return dst, fmt.Errorf("encode meta: %w", err)
	}
	raw := out[len(dst):]
	if _, next := metaAt(raw, 0); next != len(raw) {
		_, err := DecodeMeta(bytes.Clone(raw))
		return dst, fmt.Errorf("encode meta: %w", err)
	}
	return out, nil
}

// validText makes s fit for a text: bytes that are not UTF-8 become replacement characters.
func validText(s string) string {
	if utf8.ValidString(s) {
		return s
	}
	return string(bytes.ToValidUTF8([]byte(s), []byte("\uFFFD")))
}
