package main

import (
	"github.com/fxamacker/cbor/v2"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// frameDefects are wrong frames: each changes what the honest cartridge says on its way to the host.
func frameDefects() []defect {
	return []defect{
		{"seq-gap", "seq skips a number after the second frame of a flow", numbered(func(seq uint64) uint64 {
			if seq >= 2 {
				seq++
			}
			return seq
		})},
		{"seq-from-one", "seq counts from 1", numbered(func(seq uint64) uint64 { return seq + 1 })},
		{"seq-on-control", "CREDIT and HEARTBEAT are numbered as well", func(r *relay) {
			r.lastly = func(f peer.Frame) peer.Frame {
				if t := f.Type(); t == peer.TypeCredit || t == peer.TypeHeartbeat {
					return f.With(peer.KeySeq, uint64(3))
				}
				return nil
			}
		}},
		{"frame-after-terminal", "a LOG follows END", func(r *relay) {
			r.fromCartridge = func(m message) {
				r.toHost(m)
				if m.Type() == peer.TypeEnd {
					r.toHost(r.answer(m, peer.NewFrame(peer.TypeLog, nil).With(peer.KeyMeta,
						map[string]any{"level": "info", "message": "done", "attribution_class": "internal"})))
				}
			}
		}},
		{"two-terminals", "END is followed by ERR", func(r *relay) {
			r.fromCartridge = func(m message) {
				r.toHost(m)
				if m.Type() == peer.TypeEnd {
					r.toHost(r.answer(m, peer.ErrFrame("HANDLER_ERROR", "internal", "after all")))
				}
			}
		}},
		{"end-without-exit-code", "the END of an answer has no exit_code", eachOf(peer.TypeEnd, withoutMeta("exit_code"))},
		{"chunk-count-wrong", "chunk_count is one more than was sent", eachOf(peer.TypeStreamEnd, func(f peer.Frame) peer.Frame {
			if !f.Has(peer.KeyChunkCount) {
				return f
			}
			return f.With(peer.KeyChunkCount, f.Uint(peer.KeyChunkCount)+1)
		})},
		{"chunk-count-missing", "a bounded stream ends without chunk_count", eachOf(peer.TypeStreamEnd, without(peer.KeyChunkCount))},
		{"index-repeated", "the second CHUNK has the index of the first", eachOf(peer.TypeChunk, func(f peer.Frame) peer.Frame {
			return f.With(peer.KeyChunkIndex, max(1, f.Uint(peer.KeyChunkIndex))-1)
		})},
		{"checksum-of-inner-bytes", "checksum is that of the bytes in the payload's byte string", eachOf(peer.TypeChunk, func(f peer.Frame) peer.Frame {
			inner, err := peer.Content(f.Payload())
			if err != nil {
				return f
			}
			return f.With(peer.KeyChecksum, peer.Checksum(inner))
		})},
		{"payload-unwrapped", "the payload of a scalar CHUNK is the raw bytes", eachOf(peer.TypeChunk, func(f peer.Frame) peer.Frame {
			inner, err := peer.Content(f.Payload())
			if err != nil || len(inner) < 8 { // the nonce of the identity check is a CBOR item itself
				return f
			}
			return f.With(peer.KeyPayload, inner).With(peer.KeyChecksum, peer.Checksum(inner))
		})},
		{"chunk-with-len", "a CHUNK carries len and offset as in old versions", eachOf(peer.TypeChunk, func(f peer.Frame) peer.Frame {
			return f.With(7, uint64(len(f.Payload()))).With(8, uint64(0))
		})},
		{"routing-forgotten-on-err", "ERR has no routing id", eachOf(peer.TypeErr, without(peer.KeyRoutingID))},
		{"routing-forgotten-on-log", "LOG has no routing id", eachOf(peer.TypeLog, without(peer.KeyRoutingID))},
		{"routing-forgotten-on-credit", "CREDIT has no routing id", eachOf(peer.TypeCredit, without(peer.KeyRoutingID))},
		{"routing-forgotten-on-chunk", "CHUNK has no routing id", eachOf(peer.TypeChunk, without(peer.KeyRoutingID))},
		{"grant-without-stream", "a grant does not name its stream", eachOf(peer.TypeCredit, without(peer.KeyStreamID))},
		{"grant-without-direction", "a grant has no credit_dir", eachOf(peer.TypeCredit, withoutMeta("credit_dir"))},
		{"media-urn-generic", "every answer is labelled media:", eachOf(peer.TypeStreamStart, func(f peer.Frame) peer.Frame {
			return f.With(peer.KeyMediaURN, "media:")
		})},
		{"stream-left-open", "END comes without the STREAM_END of the answer", func(r *relay) {
			r.fromCartridge = func(m message) {
				if m.Type() != peer.TypeStreamEnd {
					r.toHost(m)
				}
			}
		}},
		{"class-invented", "ERR has a class that does not exist", eachOf(peer.TypeErr, metaSet("attribution_class", "permanent"))},
		{"log-without-class", "a diagnostic LOG has no class", eachOf(peer.TypeLog, withoutMeta("attribution_class"))},
		{"duplicate-key-sent", "frames to the host have a key twice", func(r *relay) {
			r.fromCartridge = func(m message) {
				if m.Type() == peer.TypeEnd {
					body := append([]byte(nil), m.bytes()[4:]...)
					body[0]++
					m.wire = peer.Prefixed(append(body, 9, 0xf5)) // eof once more
				}
				r.toHost(m)
			}
		}},
		{"frames-interleaved", "a frame is split between two writes with another inside", func(r *relay) {
			r.fromCartridge = func(m message) {
				if m.Type() != peer.TypeStreamEnd {
					r.toHost(m)
					return
				}
				wire := m.bytes()
				r.upward.put(wire[:len(wire)/2])
				r.toHost(changed(peer.NewFrame(peer.TypeHeartbeat, uint64(1))))
				r.upward.put(wire[len(wire)/2:])
			}
		}},
		{"hello-twice", "HELLO is said again after the identity check", func(r *relay) {
			var hello message
			said := false
			r.fromCartridge = func(m message) {
				r.toHost(m)
				if m.Type() == peer.TypeHello {
					hello = m
				}
				if m.Type() == peer.TypeEnd && !said {
					said = true
					r.toHost(hello)
				}
			}
		}},
	}
}

// numbered changes seq after it was counted.
func numbered(change func(seq uint64) uint64) func(r *relay) {
	return func(r *relay) {
		r.lastly = func(f peer.Frame) peer.Frame {
			if f.Type().IsFlow() {
				return f.With(peer.KeySeq, change(f.Uint(peer.KeySeq)))
			}
			return nil
		}
	}
}

// eachOf changes every frame of a type on its way to the host.
func eachOf(t peer.Type, change func(f peer.Frame) peer.Frame) func(r *relay) {
	return func(r *relay) {
		r.fromCartridge = func(m message) {
			if m.Type() == t {
				m = changed(change(m.Frame))
			}
			r.toHost(m)
		}
	}
}

func without(key uint64) func(f peer.Frame) peer.Frame {
	return func(f peer.Frame) peer.Frame { return f.Without(key) }
}

// metaSet puts a value into the meta, or takes the key out when it is nil.
func metaSet(key string, v any) func(f peer.Frame) peer.Frame {
	return func(f peer.Frame) peer.Frame {
		meta := map[string]any{}
		for k, old := range f.Meta() {
			meta[k] = old
		}
		if meta[key] = v; v == nil {
			delete(meta, key)
		}
		return f.With(peer.KeyMeta, meta)
	}
}

func withoutMeta(key string) func(f peer.Frame) peer.Frame { return metaSet(key, nil) }

// answer gives a frame the ids of the message that it answers or follows.
func (r *relay) answer(m message, f peer.Frame) message {
	f = f.With(peer.KeyID, m.Frame[peer.KeyID])
	if v, ok := m.Frame[peer.KeyRoutingID]; ok {
		f[peer.KeyRoutingID] = v
	}
	return changed(f)
}

// lastWins decodes a body as a careless library does: of a key that is there twice the last one counts.
func lastWins(body []byte) (peer.Frame, error) {
	var f peer.Frame
	err := cbor.Unmarshal(body, &f)
	return f, err
}
