package cartridgetest

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/fxamacker/cbor/v2"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Frame is one frame as an independent peer reads and writes it: the frame map by key, with values as a general CBOR library
// has them (uint64, string, []byte, bool, map[string]any). It is plain, so that tests can leave keys out and put wrong ones in.
// The numbers of keys and types are all that it shares with the codec under test.
type Frame map[frame.Key]any

// Type is the frame's type.
func (f Frame) Type() frame.Type {
	switch t := f[frame.KeyType].(type) {
	case frame.Type:
		return t
	case uint64:
		return frame.Type(t)
	}
	return frame.TypeCount
}

// ID is the frame's request or probe id.
func (f Frame) ID() frame.ID { return idOf(f[frame.KeyID]) }

// Routing is the frame's routing id, the zero ID when it has none.
func (f Frame) Routing() frame.ID { return idOf(f[frame.KeyRoutingID]) }

// Seq is the frame's place in its flow.
func (f Frame) Seq() uint64 { return f.Uint(frame.KeySeq) }

// Has reports whether the key is present.
func (f Frame) Has(k frame.Key) bool { _, ok := f[k]; return ok }

// Uint is an unsigned value, 0 when it is absent or something else.
func (f Frame) Uint(k frame.Key) uint64 {
	switch n := f[k].(type) {
	case uint64:
		return n
	case int:
		return uint64(n)
	}
	return 0
}

// Text is a text value, empty when it is absent or something else.
func (f Frame) Text(k frame.Key) string { s, _ := f[k].(string); return s }

// Flag is a boolean value, false when it is absent.
func (f Frame) Flag(k frame.Key) bool { b, _ := f[k].(bool); return b }

// Stream is the stream id.
func (f Frame) Stream() string { return f.Text(frame.KeyStreamID) }

// Payload is the frame's payload, nil when it has none.
func (f Frame) Payload() []byte { b, _ := f[frame.KeyPayload].([]byte); return b }

// Meta is the frame's meta, nil when it has none.
func (f Frame) Meta() map[string]any { m, _ := f[frame.KeyMeta].(map[string]any); return m }

// With returns a copy with the key set.
func (f Frame) With(k frame.Key, v any) Frame {
	g := maps.Clone(f)
	g[k] = v
	return g
}

// Without returns a copy without the keys.
func (f Frame) Without(keys ...frame.Key) Frame {
	g := maps.Clone(f)
	for _, k := range keys {
		delete(g, k)
	}
	return g
}

// Failure is what an ERR frame says, with its texts as they stand there.
func (f Frame) Failure() *failure.Failure {
	m := f.Meta()
	code, _ := m["code"].(string)
	class, _ := m["attribution_class"].(string)
	message, _ := m["message"].(string)
	arg, _ := m["arg_urn"].(string)
	return &failure.Failure{Code: code, Class: failure.Class(class), Message: message, ArgURN: arg}
}

// String is one line for the messages of failed tests; long payloads are cut.
func (f Frame) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s id=%s seq=%d", f.Type(), short(f.ID()), f.Seq())
	for _, k := range slices.Sorted(maps.Keys(f)) {
		switch k {
		case frame.KeyVersion, frame.KeyType, frame.KeyID, frame.KeySeq, frame.KeyChecksum, frame.KeyContentType:
		case frame.KeyRoutingID:
			fmt.Fprintf(&b, " xid=%s", short(f.Routing()))
		case frame.KeyPayload:
			if p := f.Payload(); len(p) <= 24 {
				fmt.Fprintf(&b, " payload=%x", p)
			} else {
				fmt.Fprintf(&b, " payload=%x…(%d bytes)", p[:24], len(p))
			}
		case frame.KeyMeta:
			fmt.Fprintf(&b, " meta={%s}", metaText(f.Meta()))
		default:
			fmt.Fprintf(&b, " %s=%v", k, f[k])
		}
	}
	return b.String()
}

func metaText(m map[string]any) string {
	var entries []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		v := m[k]
		if b, ok := v.([]byte); ok {
			v = string(b)
		}
		entries = append(entries, fmt.Sprintf("%s: %.100s", k, fmt.Sprint(v)))
	}
	return strings.Join(entries, ", ")
}

func short(id frame.ID) string {
	s := id.String()
	if len(s) > 8 {
		return s[:8]
	}
	return s
}

func idOf(v any) frame.ID {
	switch n := v.(type) {
	case uint64:
		return frame.UintID(n)
	case []byte:
		if len(n) == 16 {
			return frame.UUIDFrom([16]byte(n))
		}
	}
	return frame.ID{}
}

// idValue is an id as it stands in a frame.
func idValue(id frame.ID) any {
	if b, ok := id.UUID(); ok {
		return b[:]
	}
	n, _ := id.Uint()
	return n
}

// encode gives the frame with its length prefix.
func (f Frame) encode() ([]byte, error) {
	body, err := cborModes().enc.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", f, err)
	}
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...), nil
}

// decodeFrame reads a body as strictly as a library of general use can: definite lengths, no duplicate keys, UTF-8.
func decodeFrame(body []byte) (Frame, error) {
	var raw map[uint64]any
	if err := cborModes().dec.Unmarshal(body, &raw); err != nil {
		return nil, fmt.Errorf("body %.64x: %w", body, err)
	}
	f := make(Frame, len(raw))
	for k, v := range raw {
		if k > 255 {
			return nil, fmt.Errorf("body %.64x: key %d", body, k)
		}
		f[frame.Key(k)] = v
	}
	switch {
	case f.Uint(frame.KeyVersion) != frame.Version:
		return nil, fmt.Errorf("body %.64x: version %v, want %d", body, f[frame.KeyVersion], frame.Version)
	case f.Uint(frame.KeyType) >= frame.TypeCount || f.Uint(frame.KeyType) == 2:
		return nil, fmt.Errorf("body %.64x: type %v", body, f[frame.KeyType])
	case f.ID().IsZero():
		return nil, fmt.Errorf("body %.64x: id %v", body, f[frame.KeyID])
	case f.Has(frame.KeyRoutingID) && f.Routing().IsZero():
		return nil, fmt.Errorf("body %.64x: routing id %v", body, f[frame.KeyRoutingID])
	}
	return f, nil
}

type modes struct {
	enc   cbor.EncMode
	dec   cbor.DecMode
	value cbor.DecMode // of payloads: anything that is well-formed
}

// cborModes are made once; they are immutable.
var cborModes = sync.OnceValue(func() modes {
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err) // the options are constants
	}
	dec, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		DefaultMapType: reflect.TypeFor[map[string]any](),
	}.DecMode()
	if err != nil {
		panic(err)
	}
	value, err := cbor.DecOptions{MaxNestedLevels: 65535, MaxArrayElements: math.MaxInt32, MaxMapPairs: math.MaxInt32}.DecMode()
	if err != nil {
		panic(err)
	}
	return modes{enc, dec, value}
})

// fnv1a is the checksum of a payload, from the standard library.
func fnv1a(p []byte) uint64 {
	h := fnv.New64a()
	h.Write(p)
	return h.Sum64()
}

// encodeValue is v in CBOR.
func encodeValue(v any) []byte {
	b, err := cborModes().enc.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("cartridgetest: %T has no CBOR encoding: %v", v, err)) // a mistake of the test's author
	}
	return b
}
