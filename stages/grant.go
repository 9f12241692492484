package stages

import "github.com/pipe-cartridge/pipe/bifaci/frame"

// grantsUnmerged is how many CREDIT frames of one stream may be unwritten before further grants merge into one.
const grantsUnmerged = 8

// Granter writes the CREDIT frames of one incoming stream. Grants that the writer has not taken yet merge beyond
// grantsUnmerged, so a stream never occupies more of the control lane than that. Guarded by the lanes' lock.
type Granter struct {
	lanes  *Lanes
	flow   *Flow
	stream []byte
	dir    frame.CreditDir
	tell   func(stream string, n uint64) // without lanes: see Link.Granted

	unwritten uint32 // CREDIT frames of this stream in the control lane since turn
	turn      uint32 // the writer's turn that unwritten belongs to
	merged    uint64 // chunks granted but not encoded yet
}

// Grant sends n credits. It never waits.
func (g *Granter) Grant(n uint64) {
	if n == 0 {
		return
	}
	l := g.lanes
	if l == nil {
		if g.tell != nil {
			g.tell(string(g.stream), n)
		}
		return
	}
	l.mu.Lock()
	if l.err != nil {
		l.mu.Unlock()
		l.Lost(frame.TypeCredit)
		return
	}
	if g.turn != l.turn {
		g.turn, g.unwritten = l.turn, 0
	}
	switch {
	case g.merged > 0:
		g.merged += n
	case g.unwritten >= grantsUnmerged:
		g.merged = n
		l.deferred = append(l.deferred, g)
		l.addOwn(1)
	default:
		g.unwritten++
		l.addOwn(1)
		l.ctl.own++
		g.encode(n)
	}
	l.unlockAndWake()
}

// encode appends one CREDIT frame; the lanes are locked.
func (g *Granter) encode(n uint64) {
	l := g.lanes
	f := &l.scratch
	f.Reset(frame.TypeCredit, g.flow.id)
	f.WithRouting(g.flow.routing)
	f.Credit, f.StreamID, f.Meta = n, g.stream, frame.CreditMeta(g.dir)
	f.Has = f.Has.With(frame.KeyCredit).With(frame.KeyMeta)
	if g.stream != nil {
		f.Has = f.Has.With(frame.KeyStreamID)
	}
	l.trace.Frame(Out, f)
	l.ctl.add(f, nil)
}
