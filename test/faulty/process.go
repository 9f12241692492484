package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/pipe-cartridge/pipe/test/peer"
)

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
		{"max-frame-exceeded", "the negotiated max_frame does not hold for what is sent", proposed("max_frame", peer.DefaultLimits().MaxFrame)},
		{"max-chunk-exceeded", "data is not cut at the negotiated max_chunk", proposed("max_chunk", peer.DefaultLimits().MaxChunk)},
		{"hangs-at-end-of-input", "the end of the input is not noticed", func(r *relay) { r.ended = func() {} }},
		{"answers-dropped-at-end", "the process ends with its input, whatever is being served", func(r *relay) {
			r.ended = func() { os.Exit(0) }
		}},
		{"cut-body-taken-for-whole", "at the end of the input an open body counts as complete", func(r *relay) {
			open := map[string]message{} // a started stream by request
			r.fromHost = func(m message) {
				switch m.Type() {
				case peer.TypeStreamStart:
					open[m.id()] = m
				case peer.TypeStreamEnd:
					delete(open, m.id())
				}
				r.toCartridge(m)
			}
			r.ended = func() {
				for id := range r.open {
					if m, ok := open[id]; ok {
						r.toCartridge(r.answer(m, peer.StreamEndFrame(m.Stream(), 0).Without(peer.KeyChunkCount)))
					}
					r.toCartridge(r.answer(message{Frame: r.requests[id]}, peer.EndFrame()))
				}
				r.downward.close()
			}
		}},
		{"killed-by-closed-output", "a broken pipe ends the process by a signal", func(r *relay) {
			r.host.out = fragile{r.host.out}
		}},
		{"prints-between-frames", "what a handler prints goes between the frames", func(r *relay) {
			r.fromCartridge = func(m message) {
				if m.Type() == peer.TypeEnd && strings.Contains(r.capOf(m), "print") {
					r.upward.put([]byte("conform: printed where frames are\n"))
				}
				r.toHost(m)
			}
		}},
	}
}

// proposed changes a limit in the host's HELLO before the honest cartridge sees it.
func proposed(limit string, n uint64) func(r *relay) {
	return func(r *relay) {
		r.fromHost = func(m message) {
			if m.Type() == peer.TypeHello {
				m = changed(metaSet(limit, n)(m.Frame))
			}
			r.toCartridge(m)
		}
	}
}

// fragile is an output whose failure kills the process.
type fragile struct{ io.Writer }

func (f fragile) Write(b []byte) (int, error) {
	n, err := f.Writer.Write(b)
	if err != nil {
		if self, findErr := os.FindProcess(os.Getpid()); findErr == nil {
			err = errors.Join(err, self.Kill())
		}
	}
	return n, err
}
