package main

import (
	"github.com/pipe-cartridge/pipe/test/peer"
)

// requestDefects are wrong decisions about requests.
func requestDefects() []defect {
	return []defect{
		{"identity-from-constant", "identity answers with the nonce, whatever it was sent", func(r *relay) {
			r.fromCartridge = func(m message) {
				if m.Type() == peer.TypeChunk && r.capOf(m) == "cap:effect=none" {
					p := []byte("\x47\x66bifaci")
					m = changed(m.With(peer.KeyPayload, p).With(peer.KeyChecksum, peer.Checksum(p)))
				}
				r.toHost(m)
			}
		}},
		{"identity-before-policy-only", "identity is not served any more after POLICY", func(r *relay) {
			live, refused := false, map[string]bool{}
			r.fromHost = func(m message) {
				live = live || m.Type() == peer.TypePolicy
				if live && m.Type() == peer.TypeReq && m.Text(peer.KeyCap) == "cap:effect=none" {
					refused[m.id()] = true
					r.toHost(r.answer(m, peer.ErrFrame("NO_HANDLER", "environment", "identity was checked before")))
				}
				if !refused[m.id()] {
					r.toCartridge(m)
				}
			}
		}},
		{"policy-ignored", "only the first POLICY is obeyed", func(r *relay) {
			live := false
			r.fromHost = func(m message) {
				if m.Type() == peer.TypePolicy && live {
					return
				}
				live = live || m.Type() == peer.TypePolicy
				r.toCartridge(m)
			}
		}},
		{"early-req-dispatched", "requests are served before POLICY", func(r *relay) {
			r.fromCartridge = func(m message) {
				r.toHost(m)
				if m.Type() == peer.TypeHello {
					r.toCartridge(changed(peer.PolicyFrame("none yet", true)))
				}
			}
		}},
		{"early-req-answered-twice", "a REQ before POLICY is refused twice", func(r *relay) {
			r.fromCartridge = func(m message) {
				r.toHost(m)
				if m.Code() == "PROTOCOL_VIOLATION" {
					r.toHost(m)
				}
			}
		}},
	}
}
