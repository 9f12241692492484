package conform

import "crypto/rand"

// limits are the four limits of a HELLO.
type limits struct{ maxFrame, maxChunk, maxReorder, credit uint64 }

func defaultLimits() limits { return limits{3_670_016, 262_144, 64, 32} }

// window is the default limits with another initial_credit.
func window(n uint64) limits { l := defaultLimits(); l.credit = n; return l }

func frameOf(k kind) frame {
	return frame{xVersion: protocolVersion, xType: uint64(k), xSeq: uint64(0)}
}

func controlFrame(k kind, id any) frame { return frameOf(k).with(xID, id) }

func newUUID() []byte {
	b := make([]byte, 16)
	rand.Read(b)
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return b
}

// randomBytes are different in each run, so that nothing can know them beforehand.
func randomBytes(n int) []byte {
	b := make([]byte, n)
	rand.Read(b)
	return b
}

func helloFrame(l limits) frame {
	return controlFrame(kHello, uint64(0)).with(xMeta, map[string]any{"version": protocolVersion, "max_frame": l.maxFrame,
		"max_chunk": l.maxChunk, "max_reorder_buffer": l.maxReorder, "initial_credit": l.credit})
}

func policyFrame(name string, allowed bool) frame {
	return controlFrame(kPolicy, uint64(0)).with(xMeta, map[string]any{"network": map[string]any{
		"name": name, "our_services": allowed, "telemetry": allowed, "third_party": allowed}})
}

// heartbeatFrame is a probe; desired, when not empty, is the JSON of an operator's capacities.
func heartbeatFrame(desired string) frame {
	f := controlFrame(kHeartbeat, newUUID())
	if desired != "" {
		f[xMeta] = map[string]any{"desired_capacities": []byte(desired)}
	}
	return f
}

// The frames below belong to a request, which fills in id, routing id and seq.

func reqFrame(capURN string) frame {
	return frameOf(kReq).with(xCap, capURN).with(xContentType, "application/cbor").with(xPayload, []byte{})
}

func startFrame(stream, mediaURN string) frame {
	return frameOf(kStreamStart).with(xStreamID, stream).with(xMediaURN, mediaURN)
}

func chunkFrame(stream string, index uint64, payload []byte) frame {
	return frameOf(kChunk).with(xStreamID, stream).with(xIndex, index).with(xPayload, payload).with(xChecksum, checksum(payload))
}

func streamEndFrame(stream string, count uint64) frame {
	return frameOf(kStreamEnd).with(xStreamID, stream).with(xCount, count)
}

func endFrame() frame { return frameOf(kEnd).with(xEOF, true) }

// cancelFrame is a CANCEL; an empty word is left out, and without any there is no meta.
func cancelFrame(code, class, message string) frame {
	meta := map[string]any{}
	for key, word := range map[string]string{"code": code, "attribution_class": class, "message": message} {
		if word != "" {
			meta[key] = word
		}
	}
	f := frameOf(kCancel).with(xForceKill, false)
	if len(meta) > 0 {
		f[xMeta] = meta
	}
	return f
}

// creditFrame grants chunks; direction is "request" or "response".
func creditFrame(direction, stream string, n uint64) frame {
	return frameOf(kCredit).with(xCredit, n).with(xStreamID, stream).with(xMeta, map[string]any{"credit_dir": direction})
}

func closeFrame(stream string) frame {
	f := frameOf(kCloseStream)
	if stream != "" {
		f[xStreamID] = stream
	}
	return f
}

func errFrame(code, class, message string) frame {
	return frameOf(kErr).with(xMeta, map[string]any{"code": code, "attribution_class": class, "message": message})
}
