package bifaci

import (
	"errors"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/stages"
)

// newReorder makes the reorder stage between decode and route, or nil when the transport keeps the order.
func (l *link) newReorder() *stages.Reorder {
	if !l.c.opts.reorder {
		return nil
	}
	r := stages.NewReorder(l.stages.Limits.MaxReorderBuffer)
	r.Lost = func(f *frame.Frame) { l.settle(f.Type, stats.Dropped(stats.Cancelled)) }
	return r
}

// ordered hands a frame, and what it lets through, to route. A frame that its flow cannot use costs the request, not the link.
func (l *link) ordered(r *stages.Reorder, f *frame.Frame, block *stages.Block) error {
	if r == nil {
		return l.dispatch(f, block)
	}
	err := r.Step(f, block, l.dispatch)
	var order *stages.OrderError
	if errors.As(err, &order) {
		l.settle(f.Type, l.disordered(f, protocolError("%w", order)))
		block.Release()
		return nil
	}
	return err
}

// disordered fails what the frame belongs to: a request, a peer call, or the REQ itself. It returns the fate of the frame.
func (l *link) disordered(f *frame.Frame, fault *failure.Failure) stats.Fate {
	l.mu.Lock()
	w, c := l.requests[f.ID], l.calls[f.ID]
	l.mu.Unlock()
	switch {
	case w != nil && !w.ended.Load():
		l.poison(w, fault)
		return stats.Dropped(stats.Cancelled)
	case c != nil:
		c.violated(fault)
		return stats.Dropped(stats.Cancelled)
	case f.Type == frame.TypeReq:
		l.refuse(f.ID, f.Routing, fault)
		l.mu.Lock()
		l.recent.Add(f.ID)
		l.mu.Unlock()
		return stats.Consumed
	}
	_, fate := l.find(f)
	return fate
}
