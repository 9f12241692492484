package conform

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
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
)

// kind is a frame type (spec/wire.md section 4).
type kind uint64

const (
	kHello       kind = 0
	kReq         kind = 1
	kChunk       kind = 3
	kEnd         kind = 4
	kLog         kind = 5
	kErr         kind = 6
	kHeartbeat   kind = 7
	kStreamStart kind = 8
	kStreamEnd   kind = 9
	kRelayNotify kind = 10
	kRelayState  kind = 11
	kCancel      kind = 12
	kCredit      kind = 13
	kCloseStream kind = 14
	kPolicy      kind = 15
)

var kindNames = [...]string{"hello", "req", "res", "chunk", "end", "log", "err", "heartbeat", "stream_start", "stream_end",
	"relay_notify", "relay_state", "cancel", "credit", "close_stream", "policy"}

func (k kind) String() string {
	if k < kind(len(kindNames)) {
		return kindNames[k]
	}
	return fmt.Sprintf("type %d", uint64(k))
}

// flow reports whether frames of the kind are numbered within their flow.
func (k kind) flow() bool {
	switch k {
	case kReq, kChunk, kEnd, kLog, kErr, kStreamStart, kStreamEnd:
		return true
	}
	return false
}

func (k kind) terminal() bool { return k == kEnd || k == kErr }

// The keys of a frame (spec/wire.md section 3).
const (
	xVersion     uint64 = 0
	xType        uint64 = 1
	xID          uint64 = 2
	xSeq         uint64 = 3
	xContentType uint64 = 4
	xMeta        uint64 = 5
	xPayload     uint64 = 6
	xEOF         uint64 = 9
	xCap         uint64 = 10
	xStreamID    uint64 = 11
	xMediaURN    uint64 = 12
	xRoutingID   uint64 = 13
	xIndex       uint64 = 14
	xCount       uint64 = 15
	xChecksum    uint64 = 16
	xIsSequence  uint64 = 17
	xForceKill   uint64 = 18
	xCredit      uint64 = 19
	xUnbounded   uint64 = 20
)

const (
	protocolVersion uint64 = 6
	maxBody                = 16 << 20 // hard limit of a frame's body, bytes
	identityCap            = "cap:effect=none"
	text                   = "media:enc=utf-8"
)

// frame is the map of a frame as a general CBOR library has it: uint64, string, []byte, bool, float64, map[string]any. It is made
// without the project's own codec, and without judging: what a cartridge sends is judged by checks.
type frame map[uint64]any

func (f frame) kind() kind                   { return kind(f.uint(xType)) }
func (f frame) uint(key uint64) uint64       { n, _ := f[key].(uint64); return n }
func (f frame) text(key uint64) string       { s, _ := f[key].(string); return s }
func (f frame) has(key uint64) bool          { _, ok := f[key]; return ok }
func (f frame) stream() string               { return f.text(xStreamID) }
func (f frame) payload() []byte              { b, _ := f[xPayload].([]byte); return b }
func (f frame) meta() map[string]any         { m, _ := f[xMeta].(map[string]any); return m }
func (f frame) metaText(key string) string   { s, _ := f.meta()[key].(string); return s }
func (f frame) metaUint(key string) uint64   { n, _ := f.meta()[key].(uint64); return n }
func (f frame) code() string                 { return f.metaText("code") }
func (f frame) class() string                { return f.metaText("attribution_class") }
func (f frame) message() string              { return f.metaText("message") }
func (f frame) with(key uint64, v any) frame { g := maps.Clone(f); g[key] = v; return g }
func (f frame) without(keys ...uint64) frame {
	g := maps.Clone(f)
	maps.DeleteFunc(g, func(k uint64, _ any) bool { return slices.Contains(keys, k) })
	return g
}
func (f frame) is(k kind, codeClass ...string) bool {
	return f.kind() == k && (len(codeClass) == 0 || f.code() == codeClass[0] && f.class() == codeClass[1])
}

// String is one line for reports; long values are cut.
func (f frame) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s id=%s", f.kind(), shortID(f[xID]))
	for _, k := range slices.Sorted(maps.Keys(f)) {
		switch v := f[k].(type) {
		case []byte:
			switch {
			case k == xID:
			case k == xRoutingID:
				fmt.Fprintf(&b, " %s=%s", keyName(k), shortID(v))
			case len(v) > 16:
				fmt.Fprintf(&b, " %s=h'%x…'(%d bytes)", keyName(k), v[:16], len(v))
			default:
				fmt.Fprintf(&b, " %s=h'%x'", keyName(k), v)
			}
		case map[string]any:
			fmt.Fprintf(&b, " %s={%s}", keyName(k), metaLine(v))
		default:
			if k > xID {
				fmt.Fprintf(&b, " %s=%s", keyName(k), brief(v))
			}
		}
	}
	return b.String()
}

var keyNames = [...]string{"version", "type", "id", "seq", "content_type", "meta", "payload", "len", "offset", "eof", "cap", "stream_id",
	"media_urn", "routing_id", "chunk_index", "chunk_count", "checksum", "is_sequence", "force_kill", "credit", "unbounded"}

func keyName(k uint64) string {
	if k < uint64(len(keyNames)) {
		return keyNames[k]
	}
	return fmt.Sprintf("key %d", k)
}

func metaLine(m map[string]any) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		v := m[k]
		if b, ok := v.([]byte); ok {
			v = fmt.Sprintf("%q", b[:min(len(b), 60)])
			if !utf8.Valid(b) {
				v = fmt.Sprintf("h'%x'", b[:min(len(b), 20)])
			}
		}
		parts = append(parts, k+": "+brief(v))
	}
	return strings.Join(parts, ", ")
}

// brief is a value in at most 120 bytes.
func brief(v any) string {
	line := fmt.Sprint(v)
	return line[:min(len(line), 120)]
}

// idKey is an id, of either form, as a text; different ids have different texts.
func idKey(id any) string {
	if b, ok := id.([]byte); ok {
		return hex.EncodeToString(b)
	}
	return fmt.Sprintf("#%v", id)
}

func shortID(id any) string {
	key := idKey(id)
	return key[:min(len(key), 8)]
}

// encode is the frame with its length prefix.
func (f frame) encode() []byte { return prefixed(cborOf(f)) }

// prefixed puts the length in front of a body, whatever that is.
func prefixed(body []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(body))), body...)
}

// decode reads a body as leniently as can be, so that a wrong frame can be shown.
func decode(body []byte) (frame, error) {
	var f frame
	if err := codec().lenient.Unmarshal(body, &f); err != nil {
		return nil, fmt.Errorf("%d bytes that are no frame (%.48x): %w", len(body), body, err)
	}
	return f, nil
}

// strictly says what is wrong with the CBOR of a body: indefinite lengths are fine, duplicate keys and invalid UTF-8 are not.
func strictly(body []byte) error {
	var f frame
	return codec().strict.Unmarshal(body, &f)
}

// readWire reads one frame's bytes, with the prefix. The error is io.EOF only between two frames.
func readWire(r io.Reader) ([]byte, error) {
	wire := make([]byte, 4)
	if n, err := io.ReadFull(r, wire); err != nil {
		if n > 0 && errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("it is cut within a length prefix: %w", err)
		}
		return wire[:n], err
	}
	size := binary.BigEndian.Uint32(wire)
	if size == 0 || size > maxBody {
		return wire, fmt.Errorf("the four bytes %q (%x) where a length prefix belongs", wire, wire)
	}
	wire = append(wire, make([]byte, size)...)
	if n, err := io.ReadFull(r, wire[4:]); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return wire[:4+n], fmt.Errorf("it is cut after %d of a frame's %d bytes: %w", n, size, err)
	}
	return wire, nil
}

// checksum is FNV-1a, 64 bit.
func checksum(payload []byte) uint64 {
	h := fnv.New64a()
	h.Write(payload)
	return h.Sum64()
}

// cborOf is v in CBOR, deterministically.
func cborOf(v any) []byte {
	b, err := codec().enc.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("conform: %T has no CBOR encoding: %v", v, err)) // a mistake of a check's author
	}
	return b
}

// content is what a payload of a scalar stream says: the bytes of a byte string or a text.
func content(payload []byte) ([]byte, error) {
	var v any
	if err := codec().strict.Unmarshal(payload, &v); err != nil {
		return nil, err
	}
	switch v := v.(type) {
	case []byte:
		return v, nil
	case string:
		return []byte(v), nil
	}
	return nil, fmt.Errorf("a %T, want bytes or text", v)
}

type codecs struct {
	enc             cbor.EncMode
	lenient, strict cbor.DecMode
}

// codec is made once; the modes are immutable.
var codec = sync.OnceValue(func() codecs {
	var c codecs
	var errs [3]error
	c.enc, errs[0] = cbor.CoreDetEncOptions().EncMode()
	options := cbor.DecOptions{DefaultMapType: reflect.TypeFor[map[string]any](), MaxArrayElements: 1 << 20, MaxMapPairs: 1 << 20}
	c.lenient, errs[1] = options.DecMode()
	options.DupMapKey = cbor.DupMapKeyEnforcedAPF
	c.strict, errs[2] = options.DecMode()
	if err := errors.Join(errs[:]...); err != nil {
		panic(err) // the options are constants
	}
	return c
})
