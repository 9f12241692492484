package main

import (
	"strings"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// lineDefects are wrong decisions about who is served when, and about probes.
func lineDefects() []defect {
	return []defect{
		{"heartbeat-behind-handlers", "a probe is answered by whoever serves the requests, when they are done", func(r *relay) {
			var held []message
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeHeartbeat && len(r.open) > 0 {
					held = append(held, m)
					return
				}
				r.toCartridge(m)
			}
			r.fromCartridge = func(m message) {
				r.toHost(m)
				if t := m.Type(); (t == peer.TypeEnd || t == peer.TypeErr) && len(r.open) == 1 {
					for _, h := range held {
						r.toCartridge(h)
					}
					held = nil
				}
			}
		}},
		{"heartbeat-answered-twice", "the reader answers a probe and the loop does so again", func(r *relay) {
			r.fromCartridge = func(m message) {
				r.toHost(m)
				if m.Type() == peer.TypeHeartbeat {
					r.toHost(m)
				}
			}
		}},
		{"reply-without-pools", "the answer to a probe has no pool map", eachOf(peer.TypeHeartbeat, withoutMeta("pools"))},
		{"unknown-pool-half-applied", "of a batch with an unknown pool the known ones are applied", func(r *relay) {
			hidden := map[string]bool{}
			r.fromHost = func(m message) {
				if desired, ok := m.Meta()["desired_capacities"].([]byte); ok && len(desired) > 8 {
					known := peer.HeartbeatFrame(`{"all":2}`)
					hidden[peer.IDKey(known[peer.KeyID])] = true
					r.toCartridge(changed(known))
				}
				r.toCartridge(m)
			}
			r.fromCartridge = func(m message) {
				if !hidden[m.id()] {
					r.toHost(m)
				}
			}
		}},
		{"arrival-overtakes", "a request that arrives when there is room is served before those that wait for it", func(r *relay) { newLine(r) }},
		{"panic-leaks-slot", "a handler that panics keeps its place for ever", leaks("HANDLER_ERROR")},
		{"cancel-leaks-slot", "a request that was cancelled keeps its place for ever", leaks("CANCELLED")},
		{"self-report-wakes-nobody", "a raised self-report lets nobody go until the host sends something", func(r *relay) {
			waits, asked, told := map[string]bool{}, false, false
			var held []message
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeReq && strings.Contains(m.Text(peer.KeyCap), "available") && len(waits) > 0 {
					asked = true
				} else if told {
					asked, told = false, false
					for _, h := range held {
						r.toHost(h)
					}
					held = nil
				}
				r.toCartridge(m)
			}
			r.fromCartridge = func(m message) {
				if m.MetaText("level") == "queued" {
					waits[m.id()] = true
				}
				if asked && waits[m.id()] {
					held = append(held, m)
					return
				}
				told = told || asked && m.Type() == peer.TypeEnd && strings.Contains(r.capOf(m), "available")
				r.toHost(m)
			}
		}},
		{"notice-without-position", "every notice says position 1", logged("queued", "Request queued (position 1 on pool 'all')")},
		{"notice-names-own-pool", "the notice names the cap's own pool, whichever is full", logged("queued",
			"Request queued (position 1 on pool 'its own')")},
		{"dequeued-late", "LOG dequeued comes behind the first frame of the answer", func(r *relay) {
			held := map[string]message{}
			r.fromCartridge = func(m message) {
				if m.MetaText("level") == "dequeued" {
					held[m.id()] = m
					return
				}
				r.toHost(m)
				if h, ok := held[m.id()]; ok && m.Type() != peer.TypeCredit {
					delete(held, m.id())
					r.toHost(h)
				}
			}
		}},
	}
}

// logged replaces the message of LOGs of a level.
func logged(level, text string) func(r *relay) {
	return eachOf(peer.TypeLog, func(f peer.Frame) peer.Frame {
		if f.MetaText("level") != level {
			return f
		}
		return metaSet("message", text)(f)
	})
}

// leaks lets a hidden request take the place of each that ends with a code.
func leaks(code string) func(r *relay) {
	return func(r *relay) {
		hidden := map[string]bool{}
		r.fromCartridge = func(m message) {
			if hidden[m.id()] {
				return
			}
			r.toHost(m)
			if m.Code() == code {
				id := peer.NewUUID()
				hidden[peer.IDKey(id)] = true
				r.toCartridge(changed(peer.ReqFrame(`cap:in="media:enc=utf-8";out="media:enc=utf-8";stall`).With(peer.KeyID, id)))
			}
		}
	}
}

// line takes the one request that waits out of the honest cartridge's line when capacities are set, and puts it back behind the next
// arrival.
type line struct {
	r       *relay
	history map[string][]message // of the host's frames by request
	waits   string               // who waits
	out     string               // who was taken out
	gone    bool                 // its hidden terminal has come
	passed  bool                 // the arrival has gone before
	back    string               // who was put back and is not to be announced again
}

func newLine(r *relay) {
	l := &line{r: r, history: map[string][]message{}}
	r.fromHost, r.fromCartridge = l.fromHost, l.fromCartridge
}

func (l *line) fromHost(m message) {
	if m.Type() != peer.TypeHeartbeat {
		l.history[m.id()] = append(l.history[m.id()], m)
	}
	if m.Type() == peer.TypeHeartbeat && l.waits != "" && l.out == "" {
		l.out, l.waits = l.waits, ""
		l.r.toCartridge(l.r.answer(l.history[l.out][0], peer.CancelFrame("", "", "")))
	}
	if l.out != "" && m.id() == l.out {
		return // comes with the rest of its history
	}
	l.r.toCartridge(m)
	l.passed = l.passed || l.out != "" && m.Type() == peer.TypeReq
	l.putBack()
}

func (l *line) fromCartridge(m message) {
	if m.id() == l.out {
		l.gone = l.gone || m.Type() == peer.TypeErr
		l.putBack()
		return
	}
	switch level := m.MetaText("level"); {
	case level == "queued" && m.id() == l.back:
		return
	case level == "queued":
		l.waits = m.id()
	case level == "dequeued" && m.id() == l.waits:
		l.waits = ""
	}
	l.r.toHost(m)
}

func (l *line) putBack() {
	if l.out == "" || !l.gone || !l.passed {
		return
	}
	for _, m := range l.history[l.out] {
		l.r.toCartridge(m)
	}
	l.back, l.out, l.gone, l.passed = l.out, "", false, false
}
