package peer

import "crypto/rand"

// Limits are the four limits of a HELLO.
type Limits struct{ MaxFrame, MaxChunk, MaxReorderBuffer, InitialCredit uint64 }

// DefaultLimits are what both sides propose when nobody asks for anything else.
func DefaultLimits() Limits {
	return Limits{MaxFrame: 3_670_016, MaxChunk: 262_144, MaxReorderBuffer: 64, InitialCredit: 32}
}

// frameOf is an empty frame of a type.
func frameOf(t Type) Frame { return Frame{KeyVersion: Version, KeyType: uint64(t), KeySeq: uint64(0)} }

// NewFrame is an empty frame of a type with an id.
func NewFrame(t Type, id any) Frame { return frameOf(t).With(KeyID, id) }

// NewUUID is a random version-4 uuid, the usual form of a request id.
func NewUUID() []byte {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return b
}

// HelloFrame is a host's HELLO.
func HelloFrame(l Limits) Frame {
	return NewFrame(TypeHello, uint64(0)).With(KeyMeta, map[string]any{"version": Version, "max_frame": l.MaxFrame,
		"max_chunk": l.MaxChunk, "max_reorder_buffer": l.MaxReorderBuffer, "initial_credit": l.InitialCredit})
}

// PolicyFrame is a POLICY that allows everything, or nothing.
func PolicyFrame(name string, allowed bool) Frame {
	return NewFrame(TypePolicy, uint64(0)).With(KeyMeta, map[string]any{"network": map[string]any{
		"name": name, "our_services": allowed, "telemetry": allowed, "third_party": allowed}})
}

// HeartbeatFrame is a probe; desired, when not empty, is the JSON of an operator's capacities.
func HeartbeatFrame(desired string) Frame {
	f := NewFrame(TypeHeartbeat, NewUUID())
	if desired != "" {
		f[KeyMeta] = map[string]any{"desired_capacities": []byte(desired)}
	}
	return f
}

// The frames below belong to a request, which fills in id, routing id and seq.

// ReqFrame is a REQ.
func ReqFrame(capURN string) Frame {
	return frameOf(TypeReq).With(KeyCap, capURN).With(KeyContentType, "application/cbor").With(KeyPayload, []byte{})
}

// StartFrame is the STREAM_START of a bounded scalar stream.
func StartFrame(stream, mediaURN string) Frame {
	return frameOf(TypeStreamStart).With(KeyStreamID, stream).With(KeyMediaURN, mediaURN)
}

// ChunkFrame is a CHUNK with the right checksum.
func ChunkFrame(stream string, index uint64, payload []byte) Frame {
	return frameOf(TypeChunk).With(KeyStreamID, stream).With(KeyChunkIndex, index).With(KeyPayload, payload).
		With(KeyChecksum, Checksum(payload))
}

// StreamEndFrame is a STREAM_END with a chunk_count.
func StreamEndFrame(stream string, count uint64) Frame {
	return frameOf(TypeStreamEnd).With(KeyStreamID, stream).With(KeyChunkCount, count)
}

// EndFrame is the END of a body.
func EndFrame() Frame { return frameOf(TypeEnd).With(KeyEOF, true) }

// ErrFrame is an ERR.
func ErrFrame(code, class, message string) Frame {
	return frameOf(TypeErr).With(KeyMeta, map[string]any{"code": code, "attribution_class": class, "message": message})
}

// CancelFrame is a CANCEL; without a code it is unattributed.
func CancelFrame(code, class, message string) Frame {
	f := frameOf(TypeCancel).With(KeyForceKill, false)
	if code != "" {
		f[KeyMeta] = map[string]any{"code": code, "attribution_class": class, "message": message}
	}
	return f
}

// CreditFrame grants chunks; direction is "request" or "response".
func CreditFrame(direction, stream string, n uint64) Frame {
	return frameOf(TypeCredit).With(KeyCredit, n).With(KeyStreamID, stream).
		With(KeyMeta, map[string]any{"credit_dir": direction})
}
