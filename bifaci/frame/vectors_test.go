package frame_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// vector is one entry of the golden file (spec/wire.md section 17).
type vector struct {
	Name      string
	Hex       string
	Canonical bool
	Decoded   map[string]any
	Error     string
	Layer     string
	Receiver  string
}

func (v vector) wire(t testing.TB) []byte {
	b, err := hex.DecodeString(v.Hex)
	require.NoError(t, err, v.Name)
	return b
}

func vectors(t testing.TB) (all []vector) {
	readVectors(t, &all)
	require.Greater(t, len(all), 250)
	return all
}

func readVectors(t testing.TB, to any) {
	raw, err := os.ReadFile("../../test/vectors/frames.json")
	require.NoError(t, err)
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	require.NoError(t, d.Decode(to))
}

func validVectors(t testing.TB) (valid []vector) {
	for _, v := range vectors(t) {
		if v.Decoded != nil {
			valid = append(valid, v)
		}
	}
	return valid
}

// build makes the frame that a vector's decoded object describes.
func build(t testing.TB, d map[string]any) *frame.Frame {
	require.EqualValues(t, "6", d["version"].(json.Number).String())
	f := &frame.Frame{Type: frame.Type(number(t, d["type"])), ID: idOf(t, d["id"]), Seq: number(t, d["seq"])}
	text := func(key frame.Key, to *[]byte) {
		if s, ok := d[key.String()]; ok {
			*to, f.Has = []byte(s.(string)), f.Has.With(key)
		}
	}
	num := func(key frame.Key, to *uint64) {
		if n, ok := d[key.String()]; ok {
			*to, f.Has = number(t, n), f.Has.With(key)
		}
	}
	flag := func(key frame.Key, to *bool) {
		if b, ok := d[key.String()]; ok {
			*to, f.Has = b.(bool), f.Has.With(key)
		}
	}
	text(frame.KeyContentType, &f.ContentType)
	text(frame.KeyCap, &f.Cap)
	text(frame.KeyStreamID, &f.StreamID)
	text(frame.KeyMediaURN, &f.MediaURN)
	num(frame.KeyLen, &f.Len)
	num(frame.KeyOffset, &f.Offset)
	num(frame.KeyChunkIndex, &f.ChunkIndex)
	num(frame.KeyChunkCount, &f.ChunkCount)
	num(frame.KeyChecksum, &f.Checksum)
	num(frame.KeyCredit, &f.Credit)
	flag(frame.KeyEOF, &f.EOF)
	flag(frame.KeyIsSequence, &f.IsSequence)
	flag(frame.KeyForceKill, &f.ForceKill)
	flag(frame.KeyUnbounded, &f.Unbounded)
	if p, ok := d["payload"]; ok {
		f.Payload, f.Has = valueOf(t, p).([]byte), f.Has.With(frame.KeyPayload)
	}
	if r, ok := d["routing_id"]; ok {
		f.WithRouting(idOf(t, r))
	}
	if m, ok := d["meta"]; ok {
		raw, err := frame.AppendMeta(nil, frame.Meta(valueOf(t, m).(map[string]any)))
		require.NoError(t, err)
		f.Meta, f.Has = raw, f.Has.With(frame.KeyMeta)
	}
	return f
}

func number(t testing.TB, v any) uint64 {
	if m, ok := v.(map[string]any); ok {
		v = json.Number(m["$uint"].(string))
	}
	n, err := strconv.ParseUint(v.(json.Number).String(), 10, 64)
	require.NoError(t, err)
	return n
}

func idOf(t testing.TB, v any) frame.ID {
	m := v.(map[string]any)
	s, ok := m["uuid"].(string)
	if !ok {
		return frame.UintID(number(t, m["uint"]))
	}
	b, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(s), []byte("-"), nil)))
	require.NoError(t, err)
	return frame.UUIDFrom([16]byte(b))
}

// sameFrame compares everything but Meta byte by byte, and Meta by meaning, for vectors may spell it in several ways.
func sameFrame(t testing.TB, want, got *frame.Frame) {
	w, g := *want, *got
	if want.Has.Has(frame.KeyMeta) {
		wm, err := frame.DecodeMeta(want.Meta)
		require.NoError(t, err)
		gm, err := frame.DecodeMeta(got.Meta)
		require.NoError(t, err)
		assert.Equal(t, wm, gm)
	}
	w.Meta, g.Meta = nil, nil
	for _, s := range []*[]byte{&w.ContentType, &w.Payload, &w.Cap, &w.StreamID, &w.MediaURN,
		&g.ContentType, &g.Payload, &g.Cap, &g.StreamID, &g.MediaURN} {
		*s = append([]byte{}, *s...)
	}
	assert.Equal(t, w, g)
}

// §2.1: our encoder must produce exactly the canonical vectors.
func TestAppendGivesTheCanonicalVectors(t *testing.T) {
	for _, v := range validVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			f, want := build(t, v.Decoded), v.wire(t)
			got := frame.Append(nil, f)
			if v.Canonical {
				require.Equal(t, v.Hex, hex.EncodeToString(got))
			}
			assert.Equal(t, len(got)-frame.PrefixSize, frame.BodySize(f, len(f.Payload)))
			assert.Equal(t, append([]byte("before"), got...), frame.Append([]byte("before"), f))
			if v.Canonical && f.Has.Has(frame.KeyPayload) {
				g := *f
				g.Payload = nil
				out, cut := frame.AppendSplit([]byte("xy"), &g, len(f.Payload))
				whole := append(append(bytes.Clone(out[:cut]), f.Payload...), out[cut:]...)
				assert.Equal(t, append([]byte("xy"), want...), whole)
			}
		})
	}
}

// §2.2, §17: every valid vector decodes to what it says, canonical or not.
func TestDecodeReadsEveryValidVector(t *testing.T) {
	for _, v := range validVectors(t) {
		t.Run(v.Name, func(t *testing.T) {
			got := frame.Frame{Cap: []byte("left over"), Has: ^frame.Keys(0), Credit: 9}
			require.NoError(t, frame.Decode(v.wire(t)[frame.PrefixSize:], &got))
			sameFrame(t, build(t, v.Decoded), &got)
			assert.Equal(t, v.Decoded["type_name"], got.Type.String())
		})
	}
}

// §2.2, §2.3: every vector that is broken below the request layer is refused with its token, by Decode and PrefixLen.
func TestDecodeRefusesEveryInvalidVector(t *testing.T) {
	for _, v := range vectors(t) {
		if v.Layer != "framing" && v.Layer != "cbor" && v.Layer != "frame" {
			continue
		}
		t.Run(v.Layer+"/"+v.Error+"/"+v.Name, func(t *testing.T) {
			_, err := frame.NewReader(bytes.NewReader(v.wire(t))).Read()
			var syntax *frame.SyntaxError
			require.ErrorAs(t, err, &syntax)
			assert.Equal(t, v.Error, syntax.Token, syntax.Error())
			assert.Contains(t, err.Error(), v.Error)
			if v.Layer == "frame" {
				assert.GreaterOrEqual(t, syntax.Key, 0, "the key is named")
			}
		})
	}
}
