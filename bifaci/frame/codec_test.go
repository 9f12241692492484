package frame_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// strict is an independent decoder with the strictness of spec/wire.md 2.2 as far as the library can be made so.
var strict = func() cbor.DecMode {
	mode, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, MaxNestedLevels: 32, MaxMapPairs: 1 << 20,
		MaxArrayElements: 1 << 20, IntDec: cbor.IntDecConvertNone}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	require.NoError(t, err)
	return b
}

// drawFrame makes any frame that may be sent.
func drawFrame(t *rapid.T) *frame.Frame {
	id := rapid.Custom(func(t *rapid.T) frame.ID {
		if rapid.Bool().Draw(t, "uint") {
			return frame.UintID(anyUint().Draw(t, "id"))
		}
		return frame.UUIDFrom([16]byte(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "uuid")))
	})
	types := []frame.Type{0, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}
	f := &frame.Frame{Type: rapid.SampledFrom(types).Draw(t, "type"), ID: id.Draw(t, "id"), Seq: anyUint().Draw(t, "seq")}
	f.Has = frame.Keys(rapid.Uint32().Draw(t, "has")) & (1<<21 - 1) &^ 0xf
	switch f.Type {
	case frame.TypeChunk:
		f.Has = f.Has.With(frame.KeyChunkIndex).With(frame.KeyChecksum)
	case frame.TypeCredit:
		f.Has = f.Has.With(frame.KeyCredit)
	}
	str := func(k frame.Key) []byte {
		if !f.Has.Has(k) {
			return nil
		}
		return []byte(rapid.StringN(0, 300, 300).Draw(t, k.String()))
	}
	num := func(k frame.Key) uint64 {
		if !f.Has.Has(k) {
			return 0
		}
		return anyUint().Draw(t, k.String())
	}
	flag := func(k frame.Key) bool { return f.Has.Has(k) && rapid.Bool().Draw(t, k.String()) }
	f.ContentType, f.Cap = str(frame.KeyContentType), str(frame.KeyCap)
	f.StreamID, f.MediaURN = str(frame.KeyStreamID), str(frame.KeyMediaURN)
	f.Len, f.Offset, f.Checksum = num(frame.KeyLen), num(frame.KeyOffset), num(frame.KeyChecksum)
	f.ChunkIndex, f.ChunkCount, f.Credit = num(frame.KeyChunkIndex), num(frame.KeyChunkCount), num(frame.KeyCredit)
	f.EOF, f.IsSequence = flag(frame.KeyEOF), flag(frame.KeyIsSequence)
	f.ForceKill, f.Unbounded = flag(frame.KeyForceKill), flag(frame.KeyUnbounded)
	if f.Has.Has(frame.KeyPayload) {
		n := rapid.SampledFrom([]int{0, 1, 23, 24, 255, 256, 70000}).Draw(t, "payload")
		f.Payload = bytes.Repeat([]byte{rapid.Byte().Draw(t, "byte")}, n)
	}
	if f.Has.Has(frame.KeyRoutingID) {
		f.Routing = id.Draw(t, "routing")
	}
	if f.Has.Has(frame.KeyMeta) {
		m := rapid.MapOf(rapid.StringN(0, 8, 30), rapid.Int64()).Draw(t, "meta")
		raw, err := cbor.Marshal(m)
		require.NoError(t, err)
		f.Meta = raw
	}
	return f
}

// anyUint prefers the borders of CBOR's head widths.
func anyUint() *rapid.Generator[uint64] {
	return rapid.OneOf(rapid.SampledFrom([]uint64{0, 23, 24, 255, 256, 65535, 65536, 1<<32 - 1, 1 << 32, 1<<64 - 1}), rapid.Uint64())
}

// What we write is what an independent codec writes, and what we read back is what we wrote.
func TestAppendAndDecodeAreInverse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := drawFrame(t)
		wire := frame.Append(nil, f)
		require.Equal(t, len(wire)-frame.PrefixSize, int(uint32(wire[0])<<24|uint32(wire[1])<<16|uint32(wire[2])<<8|uint32(wire[3])))
		require.Equal(t, len(wire)-frame.PrefixSize, frame.BodySize(f, len(f.Payload)))

		var plain map[uint64]any
		require.NoError(t, strict.Unmarshal(wire[frame.PrefixSize:], &plain))
		assert.Len(t, plain, 4+len(slices.DeleteFunc(allKeys(), func(k frame.Key) bool { return !f.Has.Has(k) })))
		assert.EqualValues(t, f.Seq, plain[uint64(frame.KeySeq)])
		if f.Has.Has(frame.KeyMeta) {
			assert.Equal(t, f.Meta, metaOf(t, wire))
		} else { // without a meta of foreign order the bytes are the deterministic encoding
			mode, err := cbor.CoreDetEncOptions().EncMode()
			require.NoError(t, err)
			want, err := mode.Marshal(plain)
			require.NoError(t, err)
			require.Equal(t, want, wire[frame.PrefixSize:])
		}
		var got frame.Frame
		require.NoError(t, frame.Decode(wire[frame.PrefixSize:], &got))
		normal := *f
		for _, s := range []*[]byte{&normal.ContentType, &normal.Payload, &normal.Cap, &normal.StreamID, &normal.MediaURN,
			&got.ContentType, &got.Payload, &got.Cap, &got.StreamID, &got.MediaURN} {
			*s = append([]byte{}, *s...)
		}
		require.Equal(t, normal, got)

		out, cut := frame.AppendSplit(nil, f, len(f.Payload))
		if f.Has.Has(frame.KeyPayload) {
			require.Equal(t, wire, slices.Concat(out[:cut], f.Payload, out[cut:]))
		} else {
			require.Equal(t, wire, out)
		}
	})
}

func allKeys() (keys []frame.Key) {
	for k := frame.KeyContentType; k <= frame.KeyUnbounded; k++ {
		keys = append(keys, k)
	}
	return keys
}

func metaOf(t require.TestingT, wire []byte) []byte {
	var raw map[uint64]cbor.RawMessage
	require.NoError(t, cbor.Unmarshal(wire[frame.PrefixSize:], &raw))
	return raw[uint64(frame.KeyMeta)]
}

func TestAppendOfUnusualFrames(t *testing.T) {
	f := frame.Frame{Type: frame.TypeHeartbeat, Has: ^frame.Keys(0)} // bits that mean nothing, and no ids at all
	f.Has = f.Has & (1<<frame.KeyMeta | 0xf | ^frame.Keys(1<<21-1))  // meta, but none there
	assert.Equal(t, "0000000ba5000601070200030005a0", hex.EncodeToString(frame.Append(nil, &f)))
	f.Has = frame.Keys(0).With(frame.KeyRoutingID)
	assert.Equal(t, "00000009a40006010702000300", hex.EncodeToString(frame.Append(nil, &f)), "a zero routing id is none")
	assert.Equal(t, 9, frame.BodySize(&f, 0))
}

func TestCodecDoesNotAllocate(t *testing.T) {
	buf := make([]byte, 0, 4096)
	for _, v := range validVectors(t) {
		if !v.Canonical {
			continue
		}
		body := v.wire(t)[frame.PrefixSize:]
		var f frame.Frame
		assert.Zero(t, testing.AllocsPerRun(20, func() {
			if frame.Decode(body, &f) != nil {
				panic(v.Name)
			}
			buf = frame.Append(buf[:0], &f)
			buf, _ = frame.AppendSplit(buf[:0], &f, len(f.Payload))
			f.CreditDirection()
		}), v.Name)
	}
}

func TestDecodedFieldsAliasTheBody(t *testing.T) {
	body := frame.Append(nil, chunk(64))[frame.PrefixSize:]
	var f frame.Frame
	require.NoError(t, frame.Decode(body, &f))
	for i := range body {
		body[i] = 'x'
	}
	assert.Equal(t, strings.Repeat("x", 64), string(f.Payload))
	assert.Equal(t, "xxxx", string(f.StreamID))
	assert.Equal(t, []int{64, 4}, []int{cap(f.Payload), cap(f.StreamID)}, "appending to a field cannot write into its neighbour")
}

// What the vectors do not show of spec/wire.md 2.2. body is what follows a4 or a5 00 06 01 07 02 05 03 00.
func TestDecodeOfRareForms(t *testing.T) {
	const base = "0006 0107 0205 0300"
	for _, c := range []struct{ name, body, token string }{
		{"id in segments", "a4 0006 0107 02 5f 48 1111111111114111 48 8111111111111111 ff 0300", ""},
		{"id in segments, too short", "a4 0006 0107 02 5f 41 11 ff 0300", "bad-id"},
		{"uuid with a wide head", "a4 0006 0107 02 58 10 11111111111141118111111111111111 0300", ""},
		{"content type in segments", "a5 " + base + " 04 7f 61 61 61 62 ff", ""},
		{"a character cut by a segment border", "a5 " + base + " 04 7f 61 c3 61 a9 ff", "invalid-utf8"},
		{"indefinite segment in indefinite text", "a5 " + base + " 04 7f 7f 61 61 ff ff", "bad-cbor"},
		{"unknown keys in order", "a6 " + base + " 15 00 16 00", ""},
		{"unknown keys out of order", "a6 " + base + " 16 00 15 00", ""},
		{"unknown key twice", "a7 " + base + " 16 00 15 00 16 00", "duplicate-key"},
		{"unknown key twice, wide the second time", "a7 " + base + " 15 00 16 00 18 15 00", "duplicate-key"},
		{"unknown key above 32 bits", "a5 " + base + " 1b 0000000100000000 00", ""},
		{"unknown key with a broken value", "a5 " + base + " 15 82 00", "bad-cbor"},
		{"unknown key, duplicate inside", "a5 " + base + " 15 a2 00 06 00 07", "duplicate-key"},
		{"meta: integer keys inside", "a5 " + base + " 05 a1 61 6b a2 01 00 20 00", ""},
		{"meta: integer key twice inside", "a5 " + base + " 05 a1 61 6b a2 01 00 18 01 00", "duplicate-key"},
		{"meta: key twice, once in segments", "a5 " + base + " 05 a2 61 61 00 7f 61 61 ff 00", "duplicate-key"},
		{"meta: key twice, others between", "a5 " + base + " 05 a3 61 62 00 61 61 00 61 62 00", "duplicate-key"},
		{"meta: float key twice in two widths", "a5 " + base + " 05 a1 61 6b a2 f9 3c00 00 fa 3f800000 00", "duplicate-key"},
		{"meta: both zeros as keys", "a5 " + base + " 05 a1 61 6b a2 f9 0000 00 f9 8000 00", "duplicate-key"},
		{"meta: text and bytes alike are two keys", "a5 " + base + " 05 a1 61 6b a2 61 61 00 41 61 00", ""},
		{"meta: 1 and 1.0 are two keys", "a5 " + base + " 05 a1 61 6b a2 01 00 f9 3c00 00", ""},
		{"meta: array as key", "a5 " + base + " 05 a1 61 6b a1 80 00", "bad-key"},
		{"meta: map as key", "a5 " + base + " 05 a1 61 6b a1 a0 00", "bad-key"},
		{"meta: tag as key", "a5 " + base + " 05 a1 61 6b a1 c1 00 00", "bad-key"},
		{"meta: NaN as key", "a5 " + base + " 05 a1 61 6b a1 f9 7e00 00", "bad-key"},
		{"meta: bytes as key", "a5 " + base + " 05 a1 41 6b 00", "bad-key"},
		{"meta: break between key and value", "a5 " + base + " 05 bf 61 6b ff", "bad-cbor"},
		{"meta: impossible array", "a5 " + base + " 05 a1 61 6b 9b 8000000000000000", "bad-cbor"},
		{"meta: text of 4 GiB", "a5 " + base + " 05 a1 61 6b 7b 0000000100000000 61", "bad-cbor"},
		{"meta: wrong fault later, cbor fault wins", "a6 " + base + " 04 01 05 a1 61 6b 1c", "bad-cbor"},
		{"wrong version, cbor fault wins", "a4 0004 0107 0205 031c", "bad-cbor"},
		{"missing field, trailing byte wins", "a3 0006 0107 0205 00", ""},
		{"reserved simple value as a flag", "a5 " + base + " 09 f800", "bad-cbor"},
		{"only a break", "ff", "bad-cbor"},
		{"only a reserved head", "bc", "bad-cbor"},
		{"a half head", "b9 00", "bad-cbor"},
		{"a frame of no bytes", "", "empty-frame"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var f frame.Frame
			err := frame.Decode(unhex(t, c.body), &f)
			if c.name == "missing field, trailing byte wins" {
				assert.Equal(t, "trailing-bytes", frame.TokenOf(err))
				return
			}
			assert.Equal(t, c.token, frame.TokenOf(err), "%v", err)
		})
	}
}

func TestDecodeJoinsSegments(t *testing.T) {
	var f frame.Frame
	require.NoError(t, frame.Decode(unhex(t, "a6 0006 0107 02 5f 48 1111111111114111 48 8111111111111111 ff 0300 04 7f 61 61 61 62 ff 06 5f ff"), &f))
	assert.Equal(t, "11111111-1111-4111-8111-111111111111", f.ID.String())
	assert.Equal(t, "ab", string(f.ContentType))
	assert.Empty(t, f.Payload)
	assert.True(t, f.Has.Has(frame.KeyPayload))
}

func TestErrorsNameKeyAndPlace(t *testing.T) {
	for _, c := range []struct{ body, want string }{
		{"a4000601070205032 0", "wrong-type: key 3 (seq), offset 8: a negative integer, want an unsigned integer"},
		{"a40004010702050300", "bad-version: key 0 (version), offset 2: version 4, this end speaks 6 only"},
		{"a40006010202050300", "bad-type: key 1 (type), offset 4: type 2, want 0, 1 or 3 to 15"},
		{"a40006010702f60300", "bad-id: key 2 (id), offset 6: null, want 16 bytes or an unsigned integer"},
		{"a3000601070300", "missing-field: key 2 (id): it must be there"},
		{"a4000601070205030000", "trailing-bytes: offset 9: 1 bytes behind the frame map"},
		{"a50006010702050300 05a2 616101 616102", `duplicate-key: key 5 (meta), offset 14: key "a" stands here for the second time`},
		{"a50006010702050300 1820 1c", "bad-cbor: key 32, offset 11: reserved head"},
	} {
		var f frame.Frame
		err := frame.Decode(unhex(t, c.body), &f)
		assert.EqualError(t, err, c.want)
	}
	_, err := frame.PrefixLen([4]byte{0, 0x38, 0, 1}, 3_670_016)
	assert.EqualError(t, err, "frame-too-large: frame body of 3670017 bytes (prefix 00380001), at most 3670016")
	wrapped := fmt.Errorf("read: %w", err)
	assert.Equal(t, "frame-too-large", frame.TokenOf(wrapped))
	assert.Empty(t, frame.TokenOf(io.EOF))
}

// L1: a version that is not 6 is refused with both numbers in the text.
func TestL1_VersionInKey0(t *testing.T) {
	for _, version := range []string{"00", "04", "05", "07", "18ff", "190106", "1b0000000100000006"} {
		var f frame.Frame
		err := frame.Decode(unhex(t, "a400"+version+"010002000300"), &f)
		require.Error(t, err)
		assert.Equal(t, "bad-version", frame.TokenOf(err))
		var n uint64
		require.NoError(t, cbor.Unmarshal(unhex(t, version), &n))
		assert.Contains(t, err.Error(), fmt.Sprintf("version %d,", n))
		assert.Contains(t, err.Error(), "6 only")
	}
}

func TestPrefixLenLimits(t *testing.T) {
	for _, c := range []struct {
		prefix, limit uint64
		token         string
	}{
		{1, 3_670_016, ""}, {3_670_016, 3_670_016, ""}, {3_670_017, 3_670_016, "frame-too-large"}, {0, 100, "empty-frame"},
		{16 << 20, 1 << 40, ""}, {16<<20 + 1, 1 << 40, "frame-too-large"}, {1<<32 - 1, 1 << 40, "frame-too-large"}, {1, 0, "frame-too-large"},
	} {
		n, err := frame.PrefixLen([4]byte{byte(c.prefix >> 24), byte(c.prefix >> 16), byte(c.prefix >> 8), byte(c.prefix)}, c.limit)
		assert.Equal(t, c.token, frame.TokenOf(err))
		if c.token == "" {
			assert.EqualValues(t, c.prefix, n)
		}
	}
}

func TestTruncationIsUnexpectedEOF(t *testing.T) {
	for _, cut := range []string{"00", "000000", "00000009", "00000009a4000601"} {
		_, err := frame.NewReader(bytes.NewReader(unhex(t, cut))).Read()
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF, cut)
		assert.False(t, errors.Is(err, io.EOF), cut)
	}
}
