package peer

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/fxamacker/cbor/v2"
)

// Type is a frame type (spec/wire.md section 4).
type Type uint64

// The frame types.
const (
	TypeHello       Type = 0
	TypeReq         Type = 1
	TypeChunk       Type = 3
	TypeEnd         Type = 4
	TypeLog         Type = 5
	TypeErr         Type = 6
	TypeHeartbeat   Type = 7
	TypeStreamStart Type = 8
	TypeStreamEnd   Type = 9
	TypeRelayNotify Type = 10
	TypeRelayState  Type = 11
	TypeCancel      Type = 12
	TypeCredit      Type = 13
	TypeCloseStream Type = 14
	TypePolicy      Type = 15
)

var typeNames = [...]string{"hello", "req", "?2", "chunk", "end", "log", "err", "heartbeat", "stream_start", "stream_end",
	"relay_notify", "relay_state", "cancel", "credit", "close_stream", "policy"}

// String is the type's stable name.
func (t Type) String() string {
	if t < Type(len(typeNames)) {
		return typeNames[t]
	}
	return fmt.Sprintf("?%d", uint64(t))
}

// IsFlow reports whether frames of the type are numbered within their flow.
func (t Type) IsFlow() bool {
	switch t {
	case TypeReq, TypeChunk, TypeEnd, TypeLog, TypeErr, TypeStreamStart, TypeStreamEnd:
		return true
	}
	return false
}

// The keys of a frame (spec/wire.md section 3).
const (
	KeyVersion     uint64 = 0
	KeyType        uint64 = 1
	KeyID          uint64 = 2
	KeySeq         uint64 = 3
	KeyContentType uint64 = 4
	KeyMeta        uint64 = 5
	KeyPayload     uint64 = 6
	KeyEOF         uint64 = 9
	KeyCap         uint64 = 10
	KeyStreamID    uint64 = 11
	KeyMediaURN    uint64 = 12
	KeyRoutingID   uint64 = 13
	KeyChunkIndex  uint64 = 14
	KeyChunkCount  uint64 = 15
	KeyChecksum    uint64 = 16
	KeyIsSequence  uint64 = 17
	KeyForceKill   uint64 = 18
	KeyCredit      uint64 = 19
	KeyUnbounded   uint64 = 20
)

// Version is the protocol version.
const Version uint64 = 6

// maxBody is the hard limit of a frame's body, bytes.
const maxBody = 16 << 20

// Frame is the map of a frame as a general CBOR library has it: uint64, string, []byte, bool, map[string]any.
type Frame map[uint64]any

// Type is the frame's type.
func (f Frame) Type() Type { return Type(f.Uint(KeyType)) }

// Uint is an unsigned value, 0 when it is absent or something else.
func (f Frame) Uint(key uint64) uint64 { n, _ := f[key].(uint64); return n }

// Text is a text value, empty when it is absent or something else.
func (f Frame) Text(key uint64) string { s, _ := f[key].(string); return s }

// Has reports whether the key is there.
func (f Frame) Has(key uint64) bool { _, ok := f[key]; return ok }

// Stream is the stream id.
func (f Frame) Stream() string { return f.Text(KeyStreamID) }

// Payload is the payload, nil when there is none.
func (f Frame) Payload() []byte { b, _ := f[KeyPayload].([]byte); return b }

// Meta is the meta, nil when there is none.
func (f Frame) Meta() map[string]any { m, _ := f[KeyMeta].(map[string]any); return m }

// MetaText is a text of the meta.
func (f Frame) MetaText(key string) string { s, _ := f.Meta()[key].(string); return s }

// MetaUint is an unsigned number of the meta.
func (f Frame) MetaUint(key string) uint64 { n, _ := f.Meta()[key].(uint64); return n }

// Code and Class are what an ERR says.
func (f Frame) Code() string  { return f.MetaText("code") }
func (f Frame) Class() string { return f.MetaText("attribution_class") }

// Message is the text of an ERR or a LOG.
func (f Frame) Message() string { return f.MetaText("message") }

// With returns a copy with the key set.
func (f Frame) With(key uint64, v any) Frame {
	g := maps.Clone(f)
	g[key] = v
	return g
}

// Without returns a copy without the keys.
func (f Frame) Without(keys ...uint64) Frame {
	g := maps.Clone(f)
	for _, k := range keys {
		delete(g, k)
	}
	return g
}

// String is one line for the messages of failed tests; long values are cut.
func (f Frame) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s id=%s", f.Type(), IDKey(f[KeyID]))
	for _, k := range slices.Sorted(maps.Keys(f)) {
		switch v := f[k].(type) {
		case []byte:
			if k != KeyID {
				fmt.Fprintf(&b, " %d=h'%x' (%d bytes)", k, v[:min(len(v), 24)], len(v))
			}
		default:
			if text := fmt.Sprint(v); k > KeyID {
				fmt.Fprintf(&b, " %d=%.200s", k, text)
			}
		}
	}
	return b.String()
}

// IDKey is an id, of either form, as a text; different ids have different texts.
func IDKey(id any) string {
	if b, ok := id.([]byte); ok {
		return hex.EncodeToString(b)
	}
	return fmt.Sprintf("#%v", id)
}

// Encode is the frame with its length prefix. Maps are written with sorted keys, integers and floats in their shortest form.
func (f Frame) Encode() []byte {
	body, err := codec().enc.Marshal(f)
	if err != nil {
		panic(fmt.Sprintf("peer: encode %s: %v", f, err)) // a mistake of the test's author
	}
	return Prefixed(body)
}

// Prefixed puts the length in front of a body, whatever that is.
func Prefixed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// Decode reads a body strictly: definite lengths, no duplicate keys, nothing behind the map, valid UTF-8.
func Decode(body []byte) (Frame, error) {
	var f Frame
	if err := codec().dec.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("body %.64x: %w", body, err)
	}
	switch {
	case f.Uint(KeyVersion) != Version:
		return nil, fmt.Errorf("body %.64x: version %v, want %d", body, f[KeyVersion], Version)
	case !f.Has(KeyType) || f.Type() > TypePolicy || f.Type() == 2:
		return nil, fmt.Errorf("body %.64x: type %v", body, f[KeyType])
	case !validID(f[KeyID]):
		return nil, fmt.Errorf("body %.64x: id %v", body, f[KeyID])
	case f.Has(KeyRoutingID) && !validID(f[KeyRoutingID]):
		return nil, fmt.Errorf("body %.64x: routing id %v", body, f[KeyRoutingID])
	}
	return f, nil
}

func validID(v any) bool {
	if b, ok := v.([]byte); ok {
		return len(b) == 16
	}
	_, ok := v.(uint64)
	return ok
}

// ReadFrame reads one frame; wire is its bytes with the prefix. The error is io.EOF only between two frames.
func ReadFrame(r io.Reader) (f Frame, wire []byte, err error) {
	wire = make([]byte, 4)
	if _, err := io.ReadFull(r, wire); err != nil {
		return nil, nil, err
	}
	size := binary.BigEndian.Uint32(wire)
	if size == 0 || size > maxBody {
		return nil, wire, fmt.Errorf("a length prefix of %d", size)
	}
	wire = append(wire, make([]byte, size)...)
	if n, err := io.ReadFull(r, wire[4:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return nil, wire[:4+n], fmt.Errorf("%d of %d body bytes: %w", n, size, err)
	}
	f, err = Decode(wire[4:])
	return f, wire, err
}

// Checksum is FNV-1a, 64 bit, of a payload.
func Checksum(payload []byte) uint64 {
	h := fnv.New64a()
	h.Write(payload)
	return h.Sum64()
}

// Value is v in CBOR.
func Value(v any) []byte {
	b, err := codec().enc.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("peer: %T has no CBOR encoding: %v", v, err))
	}
	return b
}

// Content is what a payload of a scalar stream says: the bytes of a byte string or a text.
func Content(payload []byte) ([]byte, error) {
	var v any
	if err := codec().dec.Unmarshal(payload, &v); err != nil {
		return nil, fmt.Errorf("payload %.64x: %w", payload, err)
	}
	switch v := v.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return nil, fmt.Errorf("payload %.64x: a %T, want bytes or text", payload, v)
}

type codecModes struct {
	enc cbor.EncMode
	dec cbor.DecMode
}

// codec is made once; both modes are immutable.
var codec = sync.OnceValue(func() codecModes {
	enc, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		panic(err) // the options are constants
	}
	dec, err := cbor.DecOptions{
		DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden,
		DefaultMapType: reflect.TypeFor[map[string]any](), MaxArrayElements: 1 << 20, MaxMapPairs: 1 << 20,
	}.DecMode()
	if err != nil {
		panic(err)
	}
	return codecModes{enc, dec}
})
