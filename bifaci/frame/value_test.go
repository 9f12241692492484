package frame_test

import (
	"bytes"
	"encoding/hex"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// coreMode is the independent deterministic encoder.
var coreMode = func() cbor.EncMode {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// anyValue draws values of the kinds that have a fast path, nested a few levels.
func anyValue(levels int) *rapid.Generator[any] {
	scalars := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.Int64().AsAny(), anyUint().AsAny(), rapid.Int8().AsAny(),
		rapid.Float64().AsAny(), rapid.Float32().AsAny(), rapid.SampledFrom([]float64{0, 1, 0.5, -2, 65504, 65520, 5.960464477539063e-08,
			math.Inf(1), math.Inf(-1), math.NaN(), math.Copysign(0, -1), 0.1, 1e300, math.SmallestNonzeroFloat64}).AsAny(),
		rapid.String().AsAny(), rapid.SliceOf(rapid.Byte()).AsAny(),
	}
	if levels > 0 {
		scalars = append(scalars, rapid.SliceOfN(anyValue(levels-1), 0, 5).AsAny(),
			rapid.MapOfN(rapid.StringN(0, 6, 12), anyValue(levels-1), 0, 12).AsAny())
	}
	return rapid.OneOf(scalars...)
}

func TestAppendValueIsCoreDeterministic(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := anyValue(3).Draw(t, "value")
		want, err := coreMode.Marshal(v)
		require.NoError(t, err)
		got, err := frame.AppendValue([]byte("x"), v)
		require.NoError(t, err)
		require.Equal(t, "x"+string(want), string(got), "%x %x", want, got)
		require.NoError(t, frame.WellFormed(want))

		back, err := frame.DecodeValue(want)
		require.NoError(t, err)
		again, err := coreMode.Marshal(back)
		require.NoError(t, err)
		require.Equal(t, want, again, "nothing is lost by decoding: %#v", back)
	})
}

func TestAppendValueTakesAnyGoType(t *testing.T) {
	type point struct {
		X int     `cbor:"x"`
		Y float64 `cbor:"y,omitempty"`
	}
	for _, c := range []struct {
		value any
		want  string
	}{
		{point{X: 1, Y: 0.5}, "a2617801617 9f93800"},
		{[]point{{X: 2}}, "81a1617802"},
		{map[int]string{2: "b", 1: "a"}, "a20161610261 62"},
		{[]string{"a"}, "816161"}, {[]byte(nil), "f6"}, {map[string]any(nil), "f6"}, {[]any(nil), "f6"},
		{time.Date(2025, 1, 2, 3, 4, 5, 600, time.UTC), "781c" + hex.EncodeToString([]byte("2025-01-02T03:04:05.0000006Z"))},
		{uint8(200), "18c8"}, {int16(-300), "39012b"}, {int(24), "1818"}, {uint(1), "01"}, {int32(-1), "20"}, {uint16(1), "01"}, {uint32(1), "01"},
		{frame.NegInt(math.MaxUint64), "3bffffffffffffffff"}, {[]frame.NegInt{1 << 63}, "813b8000000000000000"}, {frame.Undefined, "f7"},
		{cbor.Tag{Number: 1, Content: int64(5)}, "c105"}, {map[any]any{int64(1): "x", "a": nil}, "a2016178" + "6161f6"}, {cbor.ByteString("ab"), "426162"},
		{map[any]any(nil), "f6"}, {frame.Meta{"bb": 1, "a": 2}, "a2616102626262 01"},
	} {
		got, err := frame.AppendValue(nil, c.value)
		require.NoError(t, err, "%#v", c.value)
		assert.Equal(t, strings.ReplaceAll(c.want, " ", ""), hex.EncodeToString(got), "%#v", c.value)
	}
}

func TestAppendValueErrors(t *testing.T) {
	nested := any(1)
	for range 256 {
		nested = []any{nested}
	}
	_, err := frame.AppendValue(nil, nested)
	assert.NoError(t, err)
	ring := map[string]any{}
	ring["again"] = ring
	for name, v := range map[string]any{
		"too deep": []any{nested}, "a ring": ring, "channel": make(chan int), "bad text": "a\xff", "bad key": map[string]any{"\xff": 1},
		"bad text in a struct": struct{ A string }{"\xff"}, "raw message": cbor.RawMessage{0x82, 0x00}, "two keys become one": map[any]any{int64(1): 1, uint64(1): 2},
		"float NaN as key": map[any]any{math.NaN(): 1}, "bad text within": []any{1, "\xff"},
	} {
		out, err := frame.AppendValue([]byte("keep"), v)
		assert.Error(t, err, name)
		assert.Equal(t, "keep", string(out), name)
	}
	_, err = frame.AppendValue(nil, map[string]any{"a": []any{1, "\xff"}})
	assert.EqualError(t, err, `encode value: map key "a": element 1: text "\xff" is not UTF-8`)
}

// Bits of floats: ours must be the smallest that keeps the value, for every 16-bit float and around each.
func TestFloatsTakeTheSmallestWidth(t *testing.T) {
	check := func(f float64) {
		want, err1 := coreMode.Marshal(f)
		got, err2 := frame.AppendValue(nil, f)
		if err1 != nil || err2 != nil || !bytes.Equal(want, got) {
			t.Fatalf("%v: %x (%v), want %x (%v)", f, got, err2, want, err1)
		}
	}
	for h := range 1 << 16 {
		raw := []byte{0xf9, byte(h >> 8), byte(h)}
		var want float64
		err1 := cbor.Unmarshal(raw, &want)
		v, err2 := frame.DecodeValue(raw)
		got, ok := v.(float64)
		if err1 != nil || err2 != nil || !ok || math.IsNaN(want) != math.IsNaN(got) {
			t.Fatalf("%04x: %v (%v), want %v (%v)", h, v, err2, want, err1)
		}
		if math.IsNaN(want) {
			continue
		}
		if math.Float64bits(want) != math.Float64bits(got) {
			t.Fatalf("%04x: %v, want %v", h, got, want)
		}
		check(got)
		check(math.Nextafter(got, math.Inf(1)))
		check(float64(math.Nextafter32(float32(got), float32(math.Inf(1)))))
	}
}

func TestDecodeValue(t *testing.T) {
	for _, c := range []struct {
		item string
		want any
	}{
		{"00", int64(0)}, {"20", int64(-1)}, {"1b7fffffffffffffff", int64(math.MaxInt64)}, {"1b8000000000000000", uint64(1 << 63)},
		{"3b7fffffffffffffff", int64(math.MinInt64)}, {"3b8000000000000000", frame.NegInt(1 << 63)}, {"1800", int64(0)},
		{"f4", false}, {"f5", true}, {"f6", nil}, {"f7", frame.Undefined}, {"f0", cbor.SimpleValue(16)}, {"f8ff", cbor.SimpleValue(255)},
		{"40", []byte{}}, {"5f 4101 4102 ff", []byte{1, 2}}, {"60", ""}, {"7f 6161 6162 ff", "ab"}, {"5fff", []byte{}},
		{"80", []any{}}, {"9f 01 9f ff ff", []any{int64(1), []any{}}}, {"a0", map[string]any{}}, {"bf 6161 01 ff", map[string]any{"a": int64(1)}},
		{"a2 6161 01 01 02", map[any]any{"a": int64(1), int64(1): int64(2)}}, {"a1 4101 02", map[any]any{cbor.ByteString("\x01"): int64(2)}},
		{"c1 c2 00", cbor.Tag{Number: 1, Content: cbor.Tag{Number: 2, Content: int64(0)}}}, {"a1 f5 f93c00", map[any]any{true: 1.0}},
	} {
		got, err := frame.DecodeValue(unhex(t, c.item))
		require.NoError(t, err, c.item)
		assert.Equal(t, c.want, got, c.item)
	}
	for _, c := range []struct{ item, token string }{
		{"", "bad-cbor"}, {"0000", "trailing-bytes"}, {"a2 6161 01 6161 02", "duplicate-key"}, {"a2 01 01 1801 02", "duplicate-key"}, {"a3 6161 00 01 00 6161 00", "duplicate-key"},
		{"61ff", "invalid-utf8"}, {"ff", "bad-cbor"}, {"9f", "bad-cbor"}, {"9b4000000000000000", "bad-cbor"}, {"bb4000000000000000", "bad-cbor"}, {"5b4000000000000000", "bad-cbor"},
		{"a1 80 00", "bad-key"}, {"a1 f97e00 00", "bad-key"}, {"bf 00 ff", "bad-cbor"}, {"c1", "bad-cbor"},
		{strings.Repeat("81", 257), "too-deep"}, {strings.Repeat("c1", 1<<20), "too-deep"}, {strings.Repeat("bf00", 257), "too-deep"},
	} {
		_, err := frame.DecodeValue(unhex(t, c.item))
		assert.Equal(t, c.token, frame.TokenOf(err), "%.40s: %v", c.item, err)
	}
}

func TestDecodeValueOfEveryPayloadVector(t *testing.T) {
	var raw []map[string]any
	readVectors(t, &raw)
	seen := 0
	for _, v := range raw {
		want, ok := v["payload_value"]
		if !ok {
			continue
		}
		seen++
		payload := unhex(t, v["decoded"].(map[string]any)["payload"].(map[string]any)["$bytes"].(string))
		got, err := frame.DecodeValue(payload)
		require.NoError(t, err, v["name"])
		assert.Equal(t, valueOf(t, want), got, v["name"])
		again, err := frame.AppendValue(nil, got)
		require.NoError(t, err)
		assert.Equal(t, payload, again, v["name"])
	}
	assert.Greater(t, seen, 10)
}

func TestDecodedValuesDoNotAlias(t *testing.T) {
	p := unhex(t, "82 42 6162 62 6364")
	v, err := frame.DecodeValue(p)
	require.NoError(t, err)
	clear(p)
	assert.Equal(t, []any{[]byte("ab"), "cd"}, v)
}

func TestHeads(t *testing.T) {
	for _, n := range []int{0, 23, 24, 255, 256, 65535, 65536, 1 << 20} {
		want, err := coreMode.Marshal(make([]byte, n))
		require.NoError(t, err)
		assert.Equal(t, want[:len(want)-n], frame.AppendBytesHead(nil, n))
		want, err = coreMode.Marshal(strings.Repeat("a", n))
		require.NoError(t, err)
		assert.Equal(t, want[:len(want)-n], frame.AppendTextHead(nil, n))
	}
}

// §2.1: keys of metas are in bytewise order of their text at every level, not shorter keys first.
func TestAppendMetaOrder(t *testing.T) {
	got, err := frame.AppendMeta([]byte{0xee}, frame.Meta{"b": 1, "aa": map[string]any{"z": nil, "yy": 1.5}, "c": map[string]int{"zz": 1, "z": 2, "a": 3},
		"d": []map[string]string{{"bb": "", "c": ""}}, "e": struct{}{}, "f": frame.Undefined})
	require.NoError(t, err)
	assert.Equal(t, unhex(t, "ee a6 626161 a2 627979 f93e00 617a f6 6162 01 6163 a3 6161 03 617a 02 627a7a 01 6164 81 a2 626262 60 6163 60 6165 a0 6166 f7"), got)
	empty, err := frame.AppendMeta(nil, nil)
	require.NoError(t, err)
	assert.Equal(t, []byte{0xa0}, empty)
}

func TestAppendMetaRefusesWhatAReceiverRefuses(t *testing.T) {
	deep := any(1)
	for range 30 {
		deep = []any{deep}
	}
	_, err := frame.AppendMeta(nil, frame.Meta{"k": deep})
	require.NoError(t, err, "32 levels with the frame map")
	for name, m := range map[string]frame.Meta{"33 levels": {"k": []any{deep}}, "text": {"k": "\xff"}, "key": {"\xff": 1}, "channel": {"k": make(chan int)}} {
		out, err := frame.AppendMeta([]byte("keep"), m)
		assert.ErrorContains(t, err, "encode meta", name)
		assert.Equal(t, "keep", string(out))
	}
}

func TestMetaRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.MapOfN(rapid.StringN(0, 6, 12), anyValue(2), 0, 20).Draw(t, "meta")
		raw, err := frame.AppendMeta(nil, m)
		require.NoError(t, err)
		var independent map[string]any
		require.NoError(t, strict.Unmarshal(raw, &independent))
		back, err := frame.DecodeMeta(raw)
		require.NoError(t, err)
		require.Len(t, back, len(m))
		again, err := frame.AppendMeta(nil, back)
		require.NoError(t, err)
		require.Equal(t, raw, again)
		want, err := coreMode.Marshal(m)
		require.NoError(t, err)
		got, err := coreMode.Marshal(map[string]any(back))
		require.NoError(t, err)
		require.Equal(t, want, got, "the same value")
	})
}

func TestDecodeMetaErrors(t *testing.T) {
	for _, c := range []struct{ raw, token string }{
		{"", "bad-cbor"}, {"80", "wrong-type"}, {"a1 01 02", "bad-key"}, {"a000", "trailing-bytes"}, {"a2 6161 00 6161 00", "duplicate-key"},
		{"a1 6161", "bad-cbor"}, {"a1 6161 " + strings.Repeat("81", 31) + "00", "too-deep"}, {"a1 61ff 00", "invalid-utf8"},
	} {
		_, err := frame.DecodeMeta(unhex(t, c.raw))
		assert.Equal(t, c.token, frame.TokenOf(err), c.raw)
	}
}

func TestSplit(t *testing.T) {
	parts := func(hexes ...string) (list [][]byte) {
		for _, h := range hexes {
			list = append(list, unhex(t, h))
		}
		return list
	}
	for _, c := range []struct {
		item     string
		shape    frame.Shape
		content  string
		elements [][]byte
	}{
		{"40", frame.ShapeBytes, "", nil}, {"43 010203", frame.ShapeBytes, "010203", nil}, {"62 6162", frame.ShapeText, "6162", nil},
		{"80", frame.ShapeArray, "", nil}, {"83 01 82 02 03 6161", frame.ShapeArray, "", parts("01", "820203", "6161")},
		{"a0", frame.ShapeMap, "", nil}, {"a2 6161 01 02 80", frame.ShapeMap, "", parts("82616101", "820280")},
		{"00", frame.ShapeOther, "", nil}, {"c1 00", frame.ShapeOther, "", nil}, {"9f ff", frame.ShapeOther, "", nil}, {"5f ff", frame.ShapeOther, "", nil},
		{"", frame.ShapeOther, "", nil}, {"43 0102", frame.ShapeOther, "", nil}, {"82 01", frame.ShapeOther, "", nil}, {"a1 01", frame.ShapeOther, "", nil}, {"a1", frame.ShapeOther, "", nil},
		{"81 01 02", frame.ShapeOther, "", nil}, {"41 01 02", frame.ShapeOther, "", nil}, {"9b 8000000000000000 00", frame.ShapeOther, "", nil}, {"bb 8000000000000000 00 00", frame.ShapeOther, "", nil},
	} {
		shape, content, elements := frame.Split(unhex(t, c.item))
		assert.Equal(t, c.shape, shape, c.item)
		assert.Equal(t, c.content, hex.EncodeToString(content), c.item)
		assert.Equal(t, c.elements, elements, c.item)
	}
}
