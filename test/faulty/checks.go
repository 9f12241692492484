package main

import "github.com/pipe-cartridge/pipe/test/peer"

// checkDefects are checks that are left out: the relay mends what is wrong before the honest cartridge sees it, or answers what is
// not to be answered.
func checkDefects() []defect {
	return []defect{
		{"checksum-not-checked", "the checksum of a CHUNK is not looked at", mended(peer.TypeChunk, func(f peer.Frame) peer.Frame {
			return f.With(peer.KeyChecksum, peer.Checksum(f.Payload()))
		})},
		{"count-not-checked", "chunk_count is not looked at", mended(peer.TypeStreamEnd, without(peer.KeyChunkCount))},
		{"index-not-checked", "chunk_index is not looked at", func(r *relay) {
			next := map[string]uint64{}
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeChunk {
					key := m.id() + m.Stream()
					m = changed(m.With(peer.KeyChunkIndex, next[key]))
					next[key]++
				}
				r.toCartridge(m)
			}
		}},
		{"open-streams-forgiven", "END closes the streams that are open", func(r *relay) {
			open := map[string][]string{}
			r.fromHost = func(m message) {
				switch m.Type() {
				case peer.TypeStreamStart:
					open[m.id()] = append(open[m.id()], m.Stream())
				case peer.TypeStreamEnd:
					open[m.id()] = remove(open[m.id()], m.Stream())
				case peer.TypeEnd:
					for _, stream := range open[m.id()] {
						r.toCartridge(r.answer(m, peer.StreamEndFrame(stream, 0).Without(peer.KeyChunkCount)))
					}
				}
				r.toCartridge(m)
			}
		}},
		{"empty-payload-accepted", "an empty payload is an empty byte string", mended(peer.TypeChunk, func(f peer.Frame) peer.Frame {
			if f.Has(peer.KeyPayload) && len(f.Payload()) == 0 {
				p := []byte{0x40}
				return f.With(peer.KeyPayload, p).With(peer.KeyChecksum, peer.Checksum(p))
			}
			return f
		})},
		{"duplicate-req-ignored", "a REQ with the id of a live request is ignored", func(r *relay) {
			live := map[string]bool{}
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeReq {
					if live[m.id()] {
						return
					}
					live[m.id()] = true
				}
				r.toCartridge(m)
			}
			r.fromCartridge = func(m message) {
				if t := m.Type(); t == peer.TypeEnd || t == peer.TypeErr {
					delete(live, m.id())
				}
				r.toHost(m)
			}
		}},
		{"body-err-taken-for-end", "an ERR of the caller's ends the body as END does", func(r *relay) {
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeErr {
					r.toCartridge(r.answer(m, peer.StreamEndFrame("s", 0).Without(peer.KeyChunkCount)))
					m = r.answer(m, peer.EndFrame())
				}
				r.toCartridge(m)
			}
		}},
		{"req-payload-ignored", "the payload of a REQ is ignored", mended(peer.TypeReq, func(f peer.Frame) peer.Frame {
			return f.With(peer.KeyPayload, []byte{})
		})},
		{"straggler-answered", "a CHUNK of a request that has ended is answered with ERR", func(r *relay) {
			over := map[string]bool{}
			r.fromCartridge = func(m message) {
				r.toHost(m)
				if t := m.Type(); t == peer.TypeEnd || t == peer.TypeErr {
					over[m.id()] = true
				}
			}
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeChunk && over[m.id()] {
					r.toHost(r.answer(m, peer.ErrFrame("PROTOCOL_ERROR", "internal", "no such request")))
				}
				r.toCartridge(m)
			}
		}},
		{"unknown-id-answered", "a CHUNK of a request that never was is answered with ERR", func(r *relay) {
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeChunk && r.requests[m.id()] == nil {
					r.toHost(r.answer(m, peer.ErrFrame("PROTOCOL_ERROR", "internal", "no such request")))
				}
				r.toCartridge(m)
			}
		}},
		{"reused-id-muted", "nothing is sent any more for an id that has ended", func(r *relay) {
			over := map[string]bool{}
			r.fromCartridge = func(m message) {
				if over[m.id()] {
					return
				}
				over[m.id()] = m.Type() == peer.TypeEnd || m.Type() == peer.TypeErr
				r.toHost(m)
			}
		}},
		{"second-hello-ignored", "a second HELLO is ignored", func(r *relay) {
			said := false
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeHello && said {
					return
				}
				said = said || m.Type() == peer.TypeHello
				r.toCartridge(m)
			}
		}},
		{"credit-undirected-guessed", "CREDIT without credit_dir counts for the answer", mended(peer.TypeCredit, func(f peer.Frame) peer.Frame {
			if f.Meta() == nil {
				return metaSet("credit_dir", "response")(f)
			}
			return f
		})},
		{"relay-frames-ignored", "RELAY_NOTIFY and RELAY_STATE are ignored", func(r *relay) {
			r.fromHost = func(m message) {
				if t := m.Type(); t != peer.TypeRelayNotify && t != peer.TypeRelayState {
					r.toCartridge(m)
				}
			}
		}},
		{"malformed-policy-ignored", "a malformed POLICY is ignored and the old one stays", func(r *relay) {
			r.fromHost = func(m message) {
				network, _ := m.Meta()["network"].(map[string]any)
				if name, _ := network["name"].(string); m.Type() == peer.TypePolicy && (name == "" || len(network) != 4) {
					return
				}
				r.toCartridge(m)
			}
		}},
	}
}

// mended changes every frame of a type on its way to the honest cartridge.
func mended(t peer.Type, change func(f peer.Frame) peer.Frame) func(r *relay) {
	return func(r *relay) {
		r.fromHost = func(m message) {
			if m.Type() == t {
				m = changed(change(m.Frame))
			}
			r.toCartridge(m)
		}
	}
}

func remove(words []string, word string) (rest []string) {
	for _, w := range words {
		if w != word {
			rest = append(rest, w)
		}
	}
	return rest
}
