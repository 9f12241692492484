package main

import (
	"fmt"
	"io"
	"os"

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

// processDefects are wrong beginnings and ends of the process.
func processDefects() []defect {
	return []defect{
		{"hello-too-early", "HELLO is sent before the host's was read", func(r *relay) {
			asked := false
			r.downward.put(peer.HelloFrame(peer.DefaultLimits()).Encode())
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeHello && !asked {
					asked = true
					return
				}
				r.toCartridge(m)
			}
		}},
		{"version-262-accepted", "the version is compared modulo 256", func(r *relay) {
			modulo := func(f peer.Frame) peer.Frame {
				if f.Type() == peer.TypeHello && f.Uint(peer.KeyVersion)%256 == 6 && f.MetaUint("version")%256 == 6 {
					return metaSet("version", uint64(6))(f).With(peer.KeyVersion, uint64(6))
				}
				return nil
			}
			r.fromHost = func(m message) {
				if f := modulo(m.Frame); f != nil {
					m = changed(f)
				}
				r.toCartridge(m)
			}
			r.unreadable = func(wire []byte) {
				if f, err := lastWins(wire[4:]); err == nil && modulo(f) != nil {
					wire = modulo(f).Encode()
				}
				r.downward.put(wire)
			}
		}},
		{"duplicate-key-accepted", "of a key that is there twice the last one counts", func(r *relay) {
			r.unreadable = func(wire []byte) {
				if f, err := lastWins(wire[4:]); err == nil {
					wire = f.Encode()
				}
				r.downward.put(wire)
			}
		}},
		{"prefix-not-checked", "a frame is allocated and read whatever its length", func(r *relay) {
			r.prefix = func(size uint32) bool {
				if uint64(size) <= r.maxFrame {
					return false
				}
				body := make([]byte, size)
				n, err := io.ReadFull(r.host.in, body) // waits for what will never come
				fmt.Fprintln(os.Stderr, "faulty:", n, err)
				r.rest(nil)
				return true
			}
		}},
		{"status-0-after-broken-input", "the exit status is 0 however the run ended", func(r *relay) {
			r.atEnd = func(int) int { return 0 }
		}},
	}
}
