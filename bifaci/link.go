package bifaci

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/pools"
	"github.com/pipe-cartridge/pipe/stages"
)

// link is one connection being served: the request table and what its reader, its writer and its handlers share. "The loop"
// of the specification is the table under one short lock; whoever brings an event makes the turn (see design).
type link struct {
	c       *Cartridge
	ctx     context.Context // of the run, without its end; every request's context derives from it
	stages  stages.Link
	lanes   *stages.Lanes
	watch   *processorWatch // nil outside Main
	dec     *stages.Decoder
	pool    stages.Pool
	index   *urn.Index
	routes  map[string]*route // by request URN as written; touched by the reader only
	latest  *wireRequest      // that a frame was found to belong to, or nil; touched by the reader only
	arrived []*wireRequest    // admitted and not launched yet; touched by the reader only
	live    atomic.Pointer[Policy]

	handlers []handler

	drops      stats.Drops
	stragglers stats.Stragglers
	overruns   stats.Overruns
	ledger     stats.Ledger // of what comes in
	tracer     *stages.Tracer
	hasCalls   atomic.Bool

	mu       sync.Mutex
	requests map[frame.ID]*wireRequest
	calls    map[frame.ID]*PeerCall // unfinished peer calls; hasCalls says whether there are any
	recent   stats.Recent[frame.ID]
	pools    *pools.Table
	active   int              // requests in the table
	idle     chan struct{}    // closed when the table is empty after draining began
	ending   *failure.Failure // why no new request and no new call is taken any more
	over     bool             // the run has ended
	last     chan struct{}    // started of the request admitted last with a factory
	audited  map[string]bool  // caps whose broken output contract was reported, R-6.35
}

// route is what a request URN resolves to.
type route struct {
	cap     string // as the requester wrote it
	pattern string // canonical, R-1.43
	handler int
	media   []byte // of the response, R-6.30
	err     error  // why media cannot be told
	def     *manifest.Cap
}

// maxRoutes bounds the routes a link remembers; a request that names one more makes it forget all.
const maxRoutes = 1024

func (l *link) options() *options          { return &l.c.opts }
func (l *link) cap(r *route) *manifest.Cap { return r.def }

// Straggler and ChannelClosed count frames that do not go out; l counts for its lanes.
func (l *link) Straggler(t frame.Type)     { l.stragglers.Add(uint8(t), 1) }
func (l *link) ChannelClosed(t frame.Type) { l.drops.Add(stats.ChannelClosed, uint8(t), 1) }

// settle counts a frame that came in, once: in the ledger, and when it is lost or straggles also in that family.
func (l *link) settle(t frame.Type, fate stats.Fate) {
	l.ledger.Settle(fate)
	if fate == stats.Straggled {
		l.stragglers.Add(uint8(t), 1)
	} else if reason, lost := fate.Reason(); lost {
		l.drops.Add(reason, uint8(t), 1)
	}
}

// policy is the live policy; ok is false before the first one.
func (l *link) policy() (Policy, bool) {
	if p := l.live.Load(); p != nil {
		return *p, true
	}
	return Policy{}, false
}

// sendError turns an error of the lanes into what a sender sees, and counts the frame that was lost.
func (l *link) sendError(err error, t frame.Type) error {
	if l.lanes.Err() != nil {
		l.lanes.Lost(t)
	}
	return err
}

// refuse sends an ERR that belongs to no live request: a refusal of a REQ, or of a frame. It never waits.
func (l *link) refuse(id, routing frame.ID, f *failure.Failure) {
	b, err := l.lanes.Own()
	if err != nil {
		l.lanes.Lost(frame.TypeErr)
		return
	}
	err = b.Put(stages.NewUngatedFlow(id, routing), l.errFrame(b.Frame(frame.TypeErr), f), nil)
	b.EndOwn(1)
	if err != nil {
		l.c.opts.log.Error("an ERR could not be sent", "error", err)
	}
}

// errFrame fills in an ERR, its message cut to what a frame can carry.
func (l *link) errFrame(e *frame.Frame, f *failure.Failure) *frame.Frame {
	e.Type = frame.TypeErr
	e.Meta = frame.AppendErrMeta(nil, fitting(f, int(l.stages.Limits.MaxFrame)))
	e.Has = e.Has.With(frame.KeyMeta)
	return e
}

// forget notes that a request is over: the table forgets it, its slots are free, and who can go goes. The caller starts what it
// returns after unlocking.
func (l *link) forget(w *wireRequest) (start []*wireRequest) {
	id := w.flow.ID()
	if l.requests[id] == w {
		delete(l.requests, id)
	}
	l.recent.Add(id)
	l.pools.Finish(&w.slot) // does nothing for a request that was taken out of the line
	l.active--
	if l.active == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
	return l.admitted()
}

// admitted takes who was admitted from the line, in order, and readies them; l.mu is held.
func (l *link) admitted() (start []*wireRequest) {
	for {
		slot, ok := l.pools.NextUp()
		if !ok {
			return start
		}
		w := slot.Owner.(*wireRequest)
		w.waiting = false
		l.order(w)
		start = append(start, w)
	}
}

// order makes factories run in order of admission; l.mu is held.
func (l *link) order(w *wireRequest) {
	if w.handler.factory == nil {
		return
	}
	w.turn = &factoryTurn{make(chan struct{}), l.last}
	l.last = w.turn.done
}

// start runs requests that were just admitted from the line, with their notice in front.
func (l *link) start(admitted []*wireRequest) {
	for _, w := range admitted {
		l.notice(w, frame.LogRecord{Level: "dequeued", Class: failure.Internal, Message: "Request dequeued"}, nil)
		w.recv.Admit()
		l.watch.arm()
		go w.serve()
	}
}

// notice sends a LOG of the runtime's own on a request's flow; it never waits.
func (l *link) notice(w *wireRequest, rec frame.LogRecord, extra frame.Meta) {
	meta := frame.AppendLogMeta(nil, rec)
	if extra != nil {
		m, err := frame.DecodeMeta(meta)
		if err == nil {
			for k, v := range extra {
				m[k] = v
			}
			meta, err = frame.AppendMeta(nil, m)
		}
		if err != nil {
			l.c.opts.log.Error("a notice could not be encoded", "error", err)
			return
		}
	}
	b, err := l.lanes.Own()
	if err != nil {
		l.lanes.Lost(frame.TypeLog)
		return
	}
	f := b.Frame(frame.TypeLog)
	f.Meta = meta
	f.Has = f.Has.With(frame.KeyMeta)
	err = b.Put(&w.flow, f, nil)
	b.EndOwn(1)
	if err != nil {
		l.c.opts.log.Error("a notice could not be sent", "error", err)
	}
}
