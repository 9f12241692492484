// Package wire is a small, allocation-free codec for the length-prefixed CBOR
// frame protocol, used by the benchmark driver and by the null cartridge.
//
// It is written for measurement, not for production use: frames decoded by
// Reader alias the reader's buffer and are only valid until the next call. It
// shares no code with the runtime it measures, on purpose: a mistake in one
// codec does not hide the same mistake in the other.
package wire

import "fmt"

// Frame types.
const (
	Hello       = 0
	Req         = 1
	Chunk       = 3
	End         = 4
	Log         = 5
	Err         = 6
	Heartbeat   = 7
	StreamStart = 8
	StreamEnd   = 9
	RelayNotify = 10
	RelayState  = 11
	Cancel      = 12
	Credit      = 13
	CloseStream = 14
	Policy      = 15
)

// TypeName returns a readable name of a frame type.
func TypeName(t uint64) string {
	names := [...]string{"HELLO", "REQ", "RES", "CHUNK", "END", "LOG", "ERR", "HEARTBEAT",
		"STREAM_START", "STREAM_END", "RELAY_NOTIFY", "RELAY_STATE", "CANCEL", "CREDIT", "CLOSE_STREAM", "POLICY"}
	if t < uint64(len(names)) {
		return names[t]
	}
	return fmt.Sprintf("TYPE(%d)", t)
}

// Map keys, also used as bit positions of Frame.Has.
const (
	KVersion = iota
	KType
	KID
	KSeq
	KContentType
	KMeta
	KPayload
	KLen
	KOffset
	KEOF
	KCap
	KStreamID
	KMediaURN
	KXID
	KChunkIndex
	KChunkCount
	KChecksum
	KIsSequence
	KForceKill
	KCredit
	KUnbounded
	numKeys
)

// ID is a message id: a UUID or an unsigned integer. It is comparable.
type ID struct {
	UUID [16]byte
	Num  uint64
	Int  bool
}

// IntID returns the integer form of an ID.
func IntID(n uint64) ID { return ID{Num: n, Int: true} }

// Frame is one decoded frame. Byte fields alias the buffer it was decoded from.
type Frame struct {
	Has  uint32 // bit k set: map key k present
	Type uint64

	Version, Seq, Len, Offset, ChunkIndex, ChunkCount, Checksum, Credit uint64

	ID, XID ID

	ContentType, Meta, Payload, Cap, StreamID, MediaURN []byte

	EOF, IsSequence, ForceKill, Unbounded bool
}

// HasKey reports whether map key k was present.
func (f *Frame) HasKey(k uint) bool { return f.Has&(1<<k) != 0 }
