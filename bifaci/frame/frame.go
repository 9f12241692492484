package frame

import "strconv"

// Version is the one protocol version this module speaks.
const Version = 6

// MaxBody is the largest frame body of any link, in bytes (spec/wire.md section 1); not negotiable.
const MaxBody = 16 << 20

// PrefixSize is the size of the big-endian length in front of every frame, in bytes.
const PrefixSize = 4

// Type is a frame type (spec/wire.md section 4).
type Type uint8

// The frame types of version 6. Number 2 is retired and never decodes.
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

	// TypeCount bounds arrays that are indexed by type.
	TypeCount = 16
)

var typeNames = [TypeCount]string{"hello", "req", "", "chunk", "end", "log", "err", "heartbeat", "stream_start",
	"stream_end", "relay_notify", "relay_state", "cancel", "credit", "close_stream", "policy"}

// String is the stable lower-case name for counters and traces.
func (t Type) String() string {
	if int(t) < len(typeNames) && typeNames[t] != "" {
		return typeNames[t]
	}
	return "type(" + strconv.Itoa(int(t)) + ")"
}

// IsFlow reports whether frames of this type carry a seq and are subject to the terminal gate (spec/wire.md 5.3).
func (t Type) IsFlow() bool {
	switch t {
	case TypeReq, TypeChunk, TypeEnd, TypeLog, TypeErr, TypeStreamStart, TypeStreamEnd:
		return true
	}
	return false
}

// IsTerminal reports whether the type ends one direction of a request.
func (t Type) IsTerminal() bool { return t == TypeEnd || t == TypeErr }

// Key is a key of the frame map (spec/wire.md section 3).
type Key uint8

// The keys of version 6.
const (
	KeyVersion     Key = 0
	KeyType        Key = 1
	KeyID          Key = 2
	KeySeq         Key = 3
	KeyContentType Key = 4
	KeyMeta        Key = 5
	KeyPayload     Key = 6
	KeyLen         Key = 7
	KeyOffset      Key = 8
	KeyEOF         Key = 9
	KeyCap         Key = 10
	KeyStreamID    Key = 11
	KeyMediaURN    Key = 12
	KeyRoutingID   Key = 13
	KeyChunkIndex  Key = 14
	KeyChunkCount  Key = 15
	KeyChecksum    Key = 16
	KeyIsSequence  Key = 17
	KeyForceKill   Key = 18
	KeyCredit      Key = 19
	KeyUnbounded   Key = 20
)

var keyNames = [...]string{"version", "type", "id", "seq", "content_type", "meta", "payload", "len", "offset", "eof",
	"cap", "stream_id", "media_urn", "routing_id", "chunk_index", "chunk_count", "checksum", "is_sequence", "force_kill",
	"credit", "unbounded"}

// String is the name of the key in the specification's table.
func (k Key) String() string {
	if int(k) < len(keyNames) {
		return keyNames[k]
	}
	return "key(" + strconv.Itoa(int(k)) + ")"
}

// Keys is a set of keys, one bit each.
type Keys uint32

// Has reports whether k is in the set.
func (s Keys) Has(k Key) bool { return s&(1<<k) != 0 }

// With returns the set with k in it.
func (s Keys) With(k Key) Keys { return s | 1<<k }

// Without returns the set with k taken out.
func (s Keys) Without(k Key) Keys { return s &^ (1 << k) }

// Frame is one frame in memory. The byte slices of a decoded frame alias the bytes it was decoded from and are valid
// only as long as those are; keep a copy of what must live longer. Version, type, id and seq are always present on the
// wire; every other field counts only when Has holds its key.
type Frame struct {
	Has  Keys // which optional keys (4 and up) are present; keys 0 to 3 are implied
	Type Type
	ID   ID
	Seq  uint64

	Routing     ID     // key 13; the zero ID when absent, in step with Has
	ContentType []byte // key 4, UTF-8
	Meta        []byte // key 5: the CBOR map as it stands on the wire, checked; see [DecodeMeta]
	Payload     []byte // key 6
	Len         uint64 // key 7, legacy, never emitted by the runtime
	Offset      uint64 // key 8, legacy
	Cap         []byte // key 10, UTF-8
	StreamID    []byte // key 11, UTF-8
	MediaURN    []byte // key 12, UTF-8
	ChunkIndex  uint64 // key 14
	ChunkCount  uint64 // key 15
	Checksum    uint64 // key 16
	Credit      uint64 // key 19, in CHUNK frames
	EOF         bool   // key 9
	IsSequence  bool   // key 17
	ForceKill   bool   // key 18
	Unbounded   bool   // key 20
}

// Reset makes f the empty frame of type t and id, ready for the With… methods.
func (f *Frame) Reset(t Type, id ID) {
	*f = Frame{} // in place; a literal with values would pass through the caller's stack
	f.Type, f.ID = t, id
}

// WithRouting sets key 13, or takes it out when id is the zero ID.
func (f *Frame) WithRouting(id ID) *Frame {
	f.Routing = id
	if id.IsZero() {
		f.Has = f.Has.Without(KeyRoutingID)
	} else {
		f.Has = f.Has.With(KeyRoutingID)
	}
	return f
}
