package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"unicode"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// object is a JSON object that keeps the order in which its members were added.
type object struct{ members []member }

type member struct {
	name  string
	value any
}

func (o *object) add(name string, value any) { o.members = append(o.members, member{name, value}) }

// MarshalJSON implements json.Marshaler.
func (o *object) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, m := range o.members {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}

// frameObject renders a decoded frame in the JSON form of the golden vectors (spec/wire.md section 17): version, type
// and its name, then the keys that are there in ascending order.
func frameObject(f *frame.Frame) (*object, error) {
	o := &object{}
	o.add("version", frame.Version)
	o.add("type", uint8(f.Type))
	o.add("type_name", f.Type.String())
	o.add("id", idObject(f.ID))
	o.add("seq", jsonUint(f.Seq))
	for key := frame.KeyContentType; key <= frame.KeyUnbounded; key++ {
		if !f.Has.Has(key) {
			continue
		}
		value, err := fieldValue(f, key)
		if err != nil {
			return nil, err
		}
		o.add(key.String(), value)
	}
	return o, nil
}

// fieldValue renders one optional field.
func fieldValue(f *frame.Frame, key frame.Key) (any, error) {
	switch key {
	case frame.KeyContentType:
		return string(f.ContentType), nil
	case frame.KeyMeta:
		meta, err := frame.DecodeMeta(f.Meta)
		if err != nil {
			return nil, err
		}
		return valueJSON(map[string]any(meta)), nil
	case frame.KeyPayload:
		return bytesObject(f.Payload), nil
	case frame.KeyLen:
		return jsonUint(f.Len), nil
	case frame.KeyOffset:
		return jsonUint(f.Offset), nil
	case frame.KeyEOF:
		return f.EOF, nil
	case frame.KeyCap:
		return string(f.Cap), nil
	case frame.KeyStreamID:
		return string(f.StreamID), nil
	case frame.KeyMediaURN:
		return string(f.MediaURN), nil
	case frame.KeyRoutingID:
		return idObject(f.Routing), nil
	case frame.KeyChunkIndex:
		return jsonUint(f.ChunkIndex), nil
	case frame.KeyChunkCount:
		return jsonUint(f.ChunkCount), nil
	case frame.KeyChecksum:
		return jsonUint(f.Checksum), nil
	case frame.KeyIsSequence:
		return f.IsSequence, nil
	case frame.KeyForceKill:
		return f.ForceKill, nil
	case frame.KeyCredit:
		return jsonUint(f.Credit), nil
	case frame.KeyUnbounded:
		return f.Unbounded, nil
	}
	return nil, fmt.Errorf("key %d (%s) has no JSON form", key, key)
}

// valueJSON renders a decoded CBOR value: what JSON cannot say becomes an object with a $ member.
func valueJSON(v any) any {
	switch v := v.(type) {
	case int64:
		if v > maxExact {
			return jsonUint(uint64(v))
		}
		return v
	case uint64:
		return jsonUint(v)
	case frame.NegInt: // -1-n, below the range of int64
		return json.Number("-" + plusOne(uint64(v)))
	case float64:
		return single("$float", jsonFloat(v))
	case []byte:
		return bytesObject(v)
	case cbor.ByteString:
		return bytesObject([]byte(v))
	case cbor.SimpleValue:
		if v == frame.Undefined {
			return single("$undefined", true)
		}
		return single("$simple", uint8(v))
	case cbor.Tag:
		o := single("$tag", jsonUint(v.Number))
		o.add("$value", valueJSON(v.Content))
		return o
	case []any:
		list := make([]any, len(v))
		for i, e := range v {
			list[i] = valueJSON(e)
		}
		return list
	case map[string]any:
		m := make(map[string]any, len(v))
		for k, e := range v {
			m[k] = valueJSON(e)
		}
		return m
	case map[any]any: // keys of several kinds: a list of pairs, in no particular order
		pairs := make([]any, 0, len(v))
		for k, e := range v {
			pairs = append(pairs, []any{valueJSON(k), valueJSON(e)})
		}
		return single("$map", pairs)
	}
	return v // nil, bool, string
}

// maxExact is the largest integer that a JSON reader with 64-bit floats keeps.
const maxExact = 1<<53 - 1

func jsonUint(n uint64) any {
	if n > maxExact {
		return single("$uint", strconv.FormatUint(n, 10))
	}
	return n
}

// plusOne is n+1 in decimal, also for the largest n.
func plusOne(n uint64) string {
	if n == math.MaxUint64 {
		return "18446744073709551616"
	}
	return strconv.FormatUint(n+1, 10)
}

// jsonFloat is the float as a JSON number that cannot be taken for an integer, or a text where JSON has no number.
func jsonFloat(f float64) any {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == math.Trunc(f) && math.Abs(f) < 1e15:
		return json.Number(strconv.FormatFloat(f, 'f', 1, 64))
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

// bytesObject renders bytes in hex, with the text beside it where it is one that can be printed.
func bytesObject(b []byte) *object {
	o := single("$bytes", hex.EncodeToString(b))
	if printable(b) {
		o.add("$utf8", string(b))
	}
	return o
}

func printable(b []byte) bool {
	if len(b) == 0 || !utf8.Valid(b) {
		return false
	}
	for _, r := range string(b) {
		if !unicode.IsPrint(r) {
			return false
		}
	}
	return true
}

func idObject(id frame.ID) *object {
	if n, ok := id.Uint(); ok {
		return single("uint", jsonUint(n))
	}
	return single("uuid", id.String())
}

func single(name string, value any) *object {
	o := &object{}
	o.add(name, value)
	return o
}
