package cartridgetest

import (
	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// newFrame is an empty frame of a type; id and seq are filled in when it is sent.
func newFrame(t frame.Type) Frame {
	return Frame{frame.KeyVersion: uint64(frame.Version), frame.KeyType: uint64(t)}
}

// ReqFrame is a REQ as a host sends it.
func ReqFrame(capURN string) Frame {
	return newFrame(frame.TypeReq).With(frame.KeyCap, capURN).With(frame.KeyContentType, "application/cbor").
		With(frame.KeyPayload, []byte{})
}

// StartFrame is a STREAM_START of a bounded scalar stream.
func StartFrame(stream, mediaURN string) Frame {
	return newFrame(frame.TypeStreamStart).With(frame.KeyStreamID, stream).With(frame.KeyMediaURN, mediaURN)
}

// ChunkFrame is a CHUNK with the right checksum. The payload is taken as it is; see [Bytes].
func ChunkFrame(stream string, index uint64, payload []byte) Frame {
	return newFrame(frame.TypeChunk).With(frame.KeyStreamID, stream).With(frame.KeyChunkIndex, index).
		With(frame.KeyPayload, payload).With(frame.KeyChecksum, fnv1a(payload))
}

// Bytes is data as the payload of a scalar stream: one CBOR byte string.
func Bytes(data string) []byte { return encodeValue([]byte(data)) }

// StreamEndFrame is a STREAM_END with a chunk_count.
func StreamEndFrame(stream string, count uint64) Frame {
	return newFrame(frame.TypeStreamEnd).With(frame.KeyStreamID, stream).With(frame.KeyChunkCount, count)
}

// EndFrame is the END of a body. With success it is the END of an answer.
func EndFrame(success bool) Frame {
	f := newFrame(frame.TypeEnd).With(frame.KeyEOF, true)
	if success {
		f[frame.KeyMeta] = map[string]any{"exit_code": uint64(0), "progress": 1.0}
	}
	return f
}

// ErrFrame is an ERR.
func ErrFrame(code string, class failure.Class, message string) Frame {
	return newFrame(frame.TypeErr).With(frame.KeyMeta,
		map[string]any{"code": code, "attribution_class": string(class), "message": message})
}

// LogFrame is a LOG that is no progress.
func LogFrame(level string, class failure.Class, message string) Frame {
	return newFrame(frame.TypeLog).With(frame.KeyMeta,
		map[string]any{"level": level, "attribution_class": string(class), "message": message})
}

// CreditFrame is a CREDIT for a stream; an empty stream leaves the key out.
func CreditFrame(dir frame.CreditDir, stream string, n uint64) Frame {
	f := newFrame(frame.TypeCredit).With(frame.KeyCredit, n).With(frame.KeyMeta, map[string]any{"credit_dir": dir.String()})
	if stream != "" {
		f[frame.KeyStreamID] = stream
	}
	return f
}

// CancelFrame is a CANCEL; what is empty in the reason is left out.
func CancelFrame(reason failure.CancelReason) Frame {
	f := newFrame(frame.TypeCancel).With(frame.KeyForceKill, reason.ForceKill)
	meta := map[string]any{}
	for key, text := range map[string]string{"code": reason.Code, "attribution_class": string(reason.Class), "message": reason.Message} {
		if text != "" {
			meta[key] = text
		}
	}
	if len(meta) > 0 {
		f[frame.KeyMeta] = meta
	}
	return f
}

// CloseStreamFrame is a CLOSE_STREAM; an empty stream leaves the key out.
func CloseStreamFrame(stream string) Frame {
	f := newFrame(frame.TypeCloseStream)
	if stream != "" {
		f[frame.KeyStreamID] = stream
	}
	return f
}

// PolicyFrame is a POLICY.
func PolicyFrame(p bifaci.Policy) Frame {
	return newFrame(frame.TypePolicy).With(frame.KeyID, uint64(0)).With(frame.KeyMeta, map[string]any{"network": map[string]any{
		"name": p.Name, "our_services": p.OurServices, "telemetry": p.Telemetry, "third_party": p.ThirdParty}})
}

// HelloFrame is the HELLO of a host.
func HelloFrame(l frame.Limits) Frame {
	return newFrame(frame.TypeHello).With(frame.KeyID, uint64(0)).With(frame.KeyMeta, map[string]any{
		"version": uint64(frame.Version), "max_frame": l.MaxFrame, "max_chunk": l.MaxChunk,
		"max_reorder_buffer": l.MaxReorderBuffer, "initial_credit": l.InitialCredit})
}

// HeartbeatFrame is a probe; desired, when not nil, is the JSON of an operator's capacities.
func HeartbeatFrame(desired []byte) Frame {
	f := newFrame(frame.TypeHeartbeat)
	if desired != nil {
		f[frame.KeyMeta] = map[string]any{"desired_capacities": desired}
	}
	return f
}
