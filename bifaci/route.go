package bifaci

import (
	"context"
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/credit"
	"github.com/pipe-cartridge/pipe/stages"
)

// dispatch makes the loop's turn for one frame, on the reader's goroutine, and counts what became of it. It never waits.
// block, when not nil, holds the frame's body. An error is fatal for the link.
func (l *link) dispatch(f *frame.Frame, block *stages.Block) error {
	fate, err := l.deal(f, block)
	l.settle(f.Type, fate)
	return err
}

// deal brings a frame to where it belongs; it returns the fate of the frame.
func (l *link) deal(f *frame.Frame, block *stages.Block) (stats.Fate, error) {
	if c := l.callOf(f); c != nil {
		return c.Deliver(f, block), nil
	}
	if f.Type == frame.TypeChunk {
		w, fate := l.routed(f)
		if w == nil {
			block.Release()
			return fate, nil
		}
		fate, fault := w.recv.Chunk(f, block)
		return l.fault(w, fate, fault), nil
	}
	defer block.Release() // nothing else keeps what aliases the body
	switch f.Type {
	case frame.TypeReq:
		return l.request(f), nil
	case frame.TypeStreamStart:
		w, fate := l.routed(f)
		if w != nil {
			fate = l.fault(w, stats.Delivered, w.recv.Start(f))
		}
		return fate, nil
	case frame.TypeStreamEnd:
		w, fate := l.routed(f)
		if w != nil {
			fate = l.fault(w, stats.Delivered, w.recv.StreamEnd(f))
		}
		return fate, nil
	case frame.TypeEnd, frame.TypeErr:
		return l.bodyEnd(f), nil
	case frame.TypeCredit:
		return l.grant(f), nil
	case frame.TypeCancel:
		return l.cancelled(f), nil
	case frame.TypeCloseStream:
		return l.closeStream(f), nil
	case frame.TypeLog:
		_, fate := l.find(f) // of a request that this side serves: ignored
		return fate, nil
	case frame.TypePolicy:
		p, err := f.Policy()
		if err != nil {
			return stats.Consumed, fmt.Errorf("policy: %w", err)
		}
		l.live.Store(&p)
	case frame.TypeHello:
		l.refuse(f.ID, frame.ID{}, failure.New(failure.ProtocolError, failure.Internal, "a second hello"))
	case frame.TypeHeartbeat:
		l.turn() // answered by the reader already; a raised capacity admits
	default:
		return stats.Consumed, fmt.Errorf("a %s frame has no place on the link to a cartridge", f.Type)
	}
	return stats.Consumed, nil
}

// callOf finds the peer call that a frame of an answer, or a grant for an argument, belongs to. A request in state Q or
// R with the same id comes first; what a CREDIT is for its direction tells.
func (l *link) callOf(f *frame.Frame) *PeerCall {
	if !l.hasCalls.Load() {
		return nil
	}
	switch f.Type {
	case frame.TypeStreamStart, frame.TypeChunk, frame.TypeStreamEnd, frame.TypeEnd, frame.TypeErr, frame.TypeLog:
	case frame.TypeCredit:
		if dir, ok := f.CreditDirection(); !ok || dir != frame.CreditRequest {
			return nil
		}
	default:
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.calls[f.ID]
	if c == nil || f.Type == frame.TypeCredit {
		return c
	}
	if w := l.requests[f.ID]; w != nil && !w.bodyEnd.Load() && !w.stopped.Load() && !w.ended.Load() {
		return nil
	}
	return c
}

// turn admits who can go.
func (l *link) turn() {
	l.mu.Lock()
	start := l.admitted()
	l.mu.Unlock()
	l.start(start)
}

// find looks a request up; w is nil when the id is over or unknown, and fate says what that makes of the frame.
func (l *link) find(f *frame.Frame) (w *wireRequest, fate stats.Fate) {
	if w := l.latest; w != nil && w.flow.ID() == f.ID && !w.ended.Load() {
		return w, stats.Consumed // it is in the table until it has ended
	}
	l.mu.Lock()
	w = l.requests[f.ID]
	if w != nil && !w.ended.Load() {
		l.mu.Unlock()
		l.latest = w
		return w, stats.Consumed
	}
	recent := w != nil || l.recent.Contains(f.ID)
	l.mu.Unlock()
	if recent {
		l.c.opts.log.Debug("straggler", "type", f.Type.String(), "rid", f.ID.String())
		return nil, stats.Straggled
	}
	l.c.opts.log.Warn("frame of an unknown request", "type", f.Type.String(), "rid", f.ID.String())
	return nil, stats.Dropped(stats.NoRoute)
}

// routed finds the request that a data frame goes to: one in state Q or R. In state X the frame is a drop, in E it poisons
//
func (l *link) routed(f *frame.Frame) (w *wireRequest, fate stats.Fate) {
	w, fate = l.find(f)
	switch {
	case w == nil:
		return nil, fate
	case w.stopped.Load():
		return nil, stats.Dropped(stats.Cancelled)
	case w.bodyEnd.Load():
		l.poison(w, protocolError("%s after the end of the body", f.Type))
		return nil, stats.Consumed
	}
	return w, stats.Consumed
}

// fault poisons a request that broke a rule. It returns the frame's fate: the given one, unless there is a fault.
func (l *link) fault(w *wireRequest, fate stats.Fate, fault *failure.Failure) stats.Fate {
	if fault == nil {
		return fate
	}
	if w.stopped.Load() {
		return stats.Dropped(stats.Cancelled) // since it was looked up; the fault is that its input has failed
	}
	l.poison(w, fault)
	if fault.Code == failure.CreditViolation {
		return stats.Dropped(stats.CreditViolation)
	}
	return stats.Consumed
}

func protocolError(format string, args ...any) *failure.Failure {
	return failure.Newf(failure.ProtocolError, failure.Internal, format, args...)
}

// request takes a REQ: the checks of in their order, then admission.
func (l *link) request(f *frame.Frame) stats.Fate {
	l.mu.Lock()
	if w := l.requests[f.ID]; w != nil && !w.ended.Load() {
		l.mu.Unlock()
		l.poison(w, protocolError("a second REQ with the id of a live request"))
		return stats.Consumed
	}
	ending := l.ending
	l.mu.Unlock()
	rt, refusal := l.resolve(f)
	switch {
	case refusal != nil:
	case ending != nil:
		refusal = ending
	case f.Has.Has(frame.KeyPayload) && len(f.Payload) > 0:
		refusal = protocolError("a REQ carries no data, and this one has a payload of %d bytes", len(f.Payload))
	}
	if refusal == nil {
		refusal = l.arrive(f, rt)
	}
	if refusal != nil {
		l.refuse(f.ID, f.Routing, refusal)
		l.mu.Lock()
		l.recent.Add(f.ID) // what follows of its body straggles
		l.mu.Unlock()
		return stats.Consumed
	}
	return stats.Delivered
}

// resolve finds the handler of a REQ: cap present, policy gate, lookup.
func (l *link) resolve(f *frame.Frame) (*route, *failure.Failure) {
	if !f.Has.Has(frame.KeyCap) {
		return nil, failure.New(failure.InvalidRequest, failure.Internal, "a REQ without a cap")
	}
	if l.live.Load() == nil && !isIdentity(string(f.Cap)) {
		return nil, failure.New(failure.ProtocolViolation, failure.Internal, "a REQ for "+string(f.Cap)+" before the first POLICY")
	}
	if rt := l.routes[string(f.Cap)]; rt != nil {
		return rt, nil
	}
	name := string(f.Cap)
	i, ok, err := l.index.Lookup(name)
	if err != nil || !ok {
		no := failure.New(failure.NoHandler, failure.Environment, "No handler registered for cap: "+name)
		no.Err = err
		return nil, no
	}
	rt := &route{cap: name, pattern: l.handlers[i].pattern.String(), handler: i}
	media, err := urn.ResponseMedia(name)
	rt.media, rt.err = []byte(media), err
	rt.def = l.c.definition(rt.pattern)
	if len(l.routes) >= maxRoutes {
		clear(l.routes)
	}
	l.routes[name] = rt
	return rt, nil
}

// isIdentity reports whether a cap URN is equivalent to cap:effect=none.
func isIdentity(name string) bool {
	if name == urn.Identity {
		return true
	}
	c, err := urn.ParseCap(name)
	return err == nil && c.String() == urn.Identity
}

// arrive puts a request into the table and admits it, or puts it in line.
func (l *link) arrive(f *frame.Frame, rt *route) *failure.Failure {
	w := l.newRequest(f.ID, f.Routing, rt)
	l.mu.Lock()
	if ending := l.ending; ending != nil { // since the look in request: nobody would end this one any more
		l.mu.Unlock()
		w.stop(ending)
		return ending
	}
	got, err := l.pools.Arrive(rt.handler, &w.slot)
	if err != nil {
		l.mu.Unlock()
		w.stop(err)
		return failure.From(err)
	}
	if limit := uint64(max(0, l.c.opts.maxQueued)); limit > 0 && l.pools.Waiting() > limit {
		l.pools.CancelWaiting(&w.slot)
		l.mu.Unlock()
		full := failure.Newf(failure.QueueFull, failure.Resource, "%d requests wait already", limit)
		w.stop(full)
		return full
	}
	l.requests[f.ID] = w
	l.active++
	if got.Admitted {
		l.order(w)
		l.mu.Unlock()
		l.arrived = append(l.arrived, w)
		return nil
	}
	w.waiting = true
	w.recv.Wait()
	// Under the lock, so that no admission can put its dequeued notice in front.
	l.notice(w, frame.LogRecord{Level: "queued", Class: failure.Internal,
		Message: fmt.Sprintf("Request queued (position %d on pool '%s')", got.Position, got.Blocking)},
		frame.Meta{"queue_position": got.Position, "blocking_pool": got.Blocking})
	l.mu.Unlock()
	return nil
}

func (l *link) newRequest(id, routing frame.ID, rt *route) *wireRequest {
	w := &wireRequest{link: l, handler: &l.handlers[rt.handler]}
	w.env, w.route, w.wire = l, rt, w
	w.ctx, w.stop = context.WithCancelCause(l.ctx)
	w.flow.Init(id, routing)
	w.slot.Owner = w
	w.recv.Init(&l.stages, &w.flow, frame.CreditRequest, w)
	flush := w.flushGrants
	w.recv.BeforeWait(flush)
	if w.handler.merged {
		w.recv.Merge()
	}
	w.recv.Watch(&w.act)
	w.sender.Watch(&w.act)
	name := frame.NewUUID().Append(w.name[:0])
	w.sender.Init(&l.stages, &w.flow, name, rt.media, flush)
	if err := w.gates.Register(string(name), w.sender.Gate()); err != nil {
		panic(err) // a fresh router takes its first gate
	}
	w.input.src = wirePackage{w}
	w.sink = wireSink{&w.sender, w}
	w.out.sink, w.out.ctx, w.out.keepalive = &w.sink, w.ctx, l.c.opts.keepalive
	if rt.def != nil && rt.def.Output != nil {
		w.out.contract = w
	}
	if l.c.opts.ageFlush {
		w.age = new(ageFlusher)
		w.age.start(w.ctx, &w.sender)
	}
	return w
}

// bodyEnd takes END or ERR of a request's body.
func (l *link) bodyEnd(f *frame.Frame) stats.Fate {
	w, fate := l.find(f)
	switch {
	case w == nil:
		return fate
	case w.stopped.Load():
		return stats.Consumed
	case w.bodyEnd.Load():
		return stats.Straggled
	}
	if f.Type == frame.TypeEnd {
		if fault := w.recv.End(); fault != nil {
			l.poison(w, fault)
			return stats.Consumed
		}
	} else {
		remote, err := f.Failure()
		if err != nil {
			l.poison(w, protocolError("the ERR of the body: %w", err))
			return stats.Consumed
		}
		w.recv.Close(&failure.Remote{Failure: *remote})
	}
	w.bodyEnd.Store(true)
	l.latest = nil // it is not needed any more, and need not be kept
	l.launch()
	return stats.Delivered
}

// launch starts the handlers of the requests that were admitted on arrival. The reader calls it when the body of a request is
// complete, and before it may wait: a handler that finds what has arrived in its place need not be woken for it again.
func (l *link) launch() {
	if len(l.arrived) > 0 {
		l.watch.arm()
	}
	for i, w := range l.arrived {
		l.arrived[i] = nil
		go w.serve() // ends with the handler; finish waits until the table is empty
	}
	l.arrived = l.arrived[:0]
}

// grant takes a CREDIT.
func (l *link) grant(f *frame.Frame) stats.Fate {
	dir, ok := f.CreditDirection()
	if !ok {
		return stats.Dropped(stats.NoRoute)
	}
	w, fate := l.find(f)
	if w == nil || w.stopped.Load() || dir != frame.CreditResponse {
		return fate
	}
	var stream []byte
	if f.Has.Has(frame.KeyStreamID) {
		stream = f.StreamID
	}
	if w.gates.Grant(stream, f.Credit) != credit.Granted {
		return stats.Consumed // spent: its stream is over
	}
	return stats.Delivered
}

// cancelled takes a CANCEL (section 8.1).
func (l *link) cancelled(f *frame.Frame) stats.Fate {
	w, fate := l.find(f)
	if w == nil {
		return fate
	}
	reason := f.CancelReason()
	reason.ForceKill = false
	l.end(w, &outcome{failure: reason.Terminal(), streamEnd: true, reason: &reason}, &failure.CancelledError{Reason: reason})
	return fate
}
