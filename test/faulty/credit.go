package main

import "github.com/pipe-cartridge/pipe/test/peer"

// creditDefects are wrong windows and wrong grants.
func creditDefects() []defect {
	return []defect{
		{"credit-on-arrival", "a CHUNK is granted back when it arrives, not when it is read", func(r *relay) {
			e := newElastic(r)
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeChunk {
					r.toHost(r.answer(m, peer.CreditFrame("request", m.Stream(), 1)))
				}
				e.take(m)
			}
			r.fromCartridge = func(m message) {
				if !e.granted(m) {
					r.toHost(m)
				}
			}
		}},
		{"window-not-enforced", "CHUNKs beyond the window are taken in", func(r *relay) { buffered(r, 1<<20) }},
		{"window-one-off", "one CHUNK beyond the window is taken in", func(r *relay) { buffered(r, 1) }},
		{"batch-never-flushed", "grants wait until half a window is together, also when the handler waits for input", func(r *relay) {
			held := map[string]uint64{}
			window := peer.DefaultLimits().InitialCredit
			r.fromHost = func(m message) {
				if m.Type() == peer.TypeHello {
					window = m.MetaUint("initial_credit")
				}
				r.toCartridge(m)
			}
			r.fromCartridge = func(m message) {
				if m.Type() == peer.TypeCredit {
					key := m.id() + m.Stream()
					n := held[key] + m.Uint(peer.KeyCredit)
					if held[key] = n; n < max(1, window/2) {
						return
					}
					held[key] = 0
					m = changed(m.With(peer.KeyCredit, n))
				}
				r.toHost(m)
			}
		}},
		{"credit-invented", "each grant is one too many", eachOf(peer.TypeCredit, func(f peer.Frame) peer.Frame {
			return f.With(peer.KeyCredit, f.Uint(peer.KeyCredit)+1)
		})},
		{"no-credit-for-discarded", "CHUNKs that are discarded are not granted back", func(r *relay) {
			r.fromCartridge = func(m message) {
				if m.Type() == peer.TypeCredit && r.capOf(m) == "cap:out=media:void" {
					return
				}
				r.toHost(m)
			}
		}},
		{"response-window-ignored", "the answer does not wait for credit", func(r *relay) { generous(r, 1<<20) }},
		{"response-window-one-off", "the answer takes one credit more than it has", func(r *relay) { generous(r, 1) }},
	}
}

// generous gives the honest sender more credit than the host does.
func generous(r *relay, n uint64) {
	r.fromCartridge = func(m message) {
		r.toHost(m)
		if m.Type() == peer.TypeStreamStart {
			r.toCartridge(r.answer(m, peer.CreditFrame("response", m.Stream(), n)))
		}
	}
}

// buffered takes in up to surplus CHUNKs of each stream beyond what the honest cartridge grants.
func buffered(r *relay, surplus uint64) {
	e := newElastic(r)
	e.surplus = surplus
	r.fromHost = e.take
	r.fromCartridge = func(m message) { e.granted(m); r.toHost(m) }
}

// elastic holds the frames of requests back until the honest cartridge has room for them.
type elastic struct {
	r       *relay
	window  uint64
	surplus uint64 // CHUNKs of a stream that may be held; more than that are passed on, and are the honest cartridge's affair
	credit  map[string]int64
	held    map[string][]message
}

func newElastic(r *relay) *elastic {
	return &elastic{r: r, window: peer.DefaultLimits().InitialCredit, surplus: 1 << 20, credit: map[string]int64{}, held: map[string][]message{}}
}

func (e *elastic) take(m message) {
	switch m.Type() {
	case peer.TypeHello:
		e.window = min(e.window, m.MetaUint("initial_credit"))
	case peer.TypeStreamStart:
		e.credit[m.id()+m.Stream()] = int64(e.window)
	}
	if !m.Type().IsFlow() || m.Type() == peer.TypeReq {
		e.r.toCartridge(m)
		return
	}
	e.held[m.id()] = append(e.held[m.id()], m)
	e.release(m.id())
}

// granted takes a grant of the honest cartridge in and reports whether m was one.
func (e *elastic) granted(m message) bool {
	if m.Type() != peer.TypeCredit {
		return false
	}
	e.credit[m.id()+m.Stream()] += int64(m.Uint(peer.KeyCredit))
	e.release(m.id())
	return true
}

func (e *elastic) release(id string) {
	for len(e.held[id]) > 0 {
		m := e.held[id][0]
		if m.Type() == peer.TypeChunk {
			if key := id + m.Stream(); e.credit[key] > 0 || e.chunks(id) > e.surplus {
				e.credit[key]--
			} else {
				return
			}
		}
		e.held[id] = e.held[id][1:]
		e.r.toCartridge(m)
	}
}

// chunks is how many CHUNKs of a request are held.
func (e *elastic) chunks(id string) (n uint64) {
	for _, m := range e.held[id] {
		if m.Type() == peer.TypeChunk {
			n++
		}
	}
	return n
}
