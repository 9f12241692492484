package main

import (
	"strings"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// stopDefects are wrong reactions to CANCEL and CLOSE_STREAM.
func stopDefects() []defect {
	return []defect{
		{"cancel-answered-early", "the terminal of a cancelled request does not wait for its handler", func(r *relay) {
			answered := map[string]bool{}
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeCancel && r.open[m.id()] && !answered[m.id()] {
					answered[m.id()] = true
					r.toHost(r.answer(m, peer.ErrFrame(m.Code(), m.Class(), m.Message())))
				}
				r.toCartridge(m)
			}
			r.fromCartridge = func(m message) {
				if !answered[m.id()] || !m.Type().IsFlow() {
					r.toHost(m)
				}
			}
		}},
		{"cancel-text-invented", "the ERR of a cancelled request says that it waited", func(r *relay) {
			waits := map[string]bool{}
			r.fromCartridge = func(m message) {
				switch m.MetaText("level") {
				case "queued":
					waits[m.id()] = true
				case "dequeued":
					delete(waits, m.id())
				}
				if m.Type() == peer.TypeErr && waits[m.id()] {
					m = changed(metaSet("message", m.Message()+" (while queued)")(m.Frame))
				}
				r.toHost(m)
			}
		}},
		{"cancel-class-lost", "a cancelled request always ends with class internal", func(r *relay) {
			cancelled := map[string]bool{}
			r.fromHost = func(m message) {
				cancelled[m.id()] = cancelled[m.id()] || m.Type() == peer.TypeCancel
				r.toCartridge(m)
			}
			r.fromCartridge = func(m message) {
				if m.Type() == peer.TypeErr && cancelled[m.id()] {
					m = changed(metaSet("attribution_class", "internal")(m.Frame))
				}
				r.toHost(m)
			}
		}},
		{"second-cancel-answered", "each CANCEL is answered with an ERR of its own", func(r *relay) {
			cancels := map[string]int{}
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeCancel {
					if cancels[m.id()]++; cancels[m.id()] > 1 {
						r.toHost(r.answer(m, peer.ErrFrame(m.Code(), m.Class(), m.Message())))
					}
				}
				r.toCartridge(m)
			}
		}},
		{"close-stream-cancels", "CLOSE_STREAM is taken for a CANCEL", mended(peer.TypeCloseStream, func(f peer.Frame) peer.Frame {
			cancel := peer.CancelFrame("", "", "").With(peer.KeyID, f[peer.KeyID])
			if v, ok := f[peer.KeyRoutingID]; ok {
				cancel[peer.KeyRoutingID] = v
			}
			return cancel
		})},
		{"close-stream-ignored", "CLOSE_STREAM never ends a feed", func(r *relay) {
			r.fromHost = func(m message) {
				if m.Type() != peer.TypeCloseStream {
					r.toCartridge(m)
				}
			}
		}},
		{"close-stream-forgets-waiting", "CLOSE_STREAM is lost on a request that waits", func(r *relay) {
			waits := map[string]bool{}
			r.fromCartridge = func(m message) {
				if level := m.MetaText("level"); level == "queued" || level == "dequeued" {
					waits[m.id()] = level == "queued"
				}
				r.toHost(m)
			}
			r.fromHost = func(m message) {
				if m.Type() != peer.TypeCloseStream || !waits[m.id()] {
					r.toCartridge(m)
				}
			}
		}},
		{"failure-class-lost", "a handler's failure always has class internal", eachOf(peer.TypeErr, metaSet("attribution_class", "internal"))},
		{"item-meta-lost", "the meta of items is not passed on", eachOf(peer.TypeChunk, without(peer.KeyMeta))},
		{"stream-meta-lost", "the meta of streams is not passed on", eachOf(peer.TypeStreamStart, without(peer.KeyMeta))},
		{"tail-lost", "the last coalesced bytes are never sent", func(r *relay) {
			last := map[string]message{}
			r.fromCartridge = func(m message) {
				if !strings.Contains(r.capOf(m), "tokens") {
					r.toHost(m)
					return
				}
				held, ok := last[m.id()]
				switch m.Type() {
				case peer.TypeChunk:
					last[m.id()] = m
					if ok {
						r.toHost(held)
					}
				case peer.TypeStreamEnd:
					r.toHost(changed(m.With(peer.KeyChunkCount, max(1, m.Uint(peer.KeyChunkCount))-1)))
				default:
					r.toHost(m)
				}
			}
		}},
	}
}

// peerDefects are wrong peer calls.
func peerDefects() []defect {
	return []defect{
		{"peer-with-routing", "a peer call carries a routing id", ofCalls(func(f peer.Frame) peer.Frame {
			return f.With(peer.KeyRoutingID, uint64(1))
		})},
		{"peer-without-parent", "a peer call does not say whose it is", ofCalls(func(f peer.Frame) peer.Frame {
			if f.Type() != peer.TypeReq {
				return f
			}
			return f.Without(peer.KeyMeta)
		})},
		{"peer-grants-misdirected", "grants for a peer's answer say credit_dir request", ofCalls(func(f peer.Frame) peer.Frame {
			if f.Type() != peer.TypeCredit {
				return f
			}
			return metaSet("credit_dir", "request")(f)
		})},
		{"peer-not-cancelled", "the peer calls of a cancelled request go on", func(r *relay) {
			r.fromCartridge = func(m message) {
				if m.Type() != peer.TypeCancel {
					r.toHost(m)
				}
			}
		}},
		{"peer-status-ignored", "every END of a peer's is a success", func(r *relay) {
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeEnd && r.requests[m.id()] == nil {
					m = changed(m.With(peer.KeyMeta, map[string]any{"exit_code": uint64(0), "progress": 1.0}))
				}
				r.toCartridge(m)
			}
		}},
		{"peer-answer-not-checked", "the checksum of a peer's answer is not looked at", mended(peer.TypeChunk, func(f peer.Frame) peer.Frame {
			return f.With(peer.KeyChecksum, peer.Checksum(f.Payload()))
		})},
	}
}

// ofCalls changes the frames of the cartridge's own calls.
func ofCalls(change func(f peer.Frame) peer.Frame) func(r *relay) {
	return func(r *relay) {
		calls := map[string]bool{}
		r.fromCartridge = func(m message) {
			if calls[m.id()] = calls[m.id()] || m.Type() == peer.TypeReq; calls[m.id()] {
				m = changed(change(m.Frame))
			}
			r.toHost(m)
		}
	}
}
