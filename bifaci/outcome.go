package bifaci

import (
	"context"
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stages"
)

// cascade is the reason with which the request's peer calls are cancelled: the cancel's own, else collateral of the
// violation.
func (o *outcome) cascade() failure.CancelReason {
	if o.reason != nil {
		return *o.reason
	}
	return failure.Collateral(classOf(o.failure), o.failure.Message)
}

// poison fails a request because the other side broke the protocol.
func (l *link) poison(w *wireRequest, fault *failure.Failure) {
	l.end(w, &outcome{failure: fault}, fault)
}

// end stops a request for the given outcome, unless its end was decided before: the first of handler result, cancel and
// violation stands. A waiting request is answered at once; of a running one the context ends, its input and its
// credit waits fail with cause, and the terminal follows when the handler has returned. It never waits.
func (l *link) end(w *wireRequest, o *outcome, cause error) {
	w.mu.Lock()
	if w.outcome != nil {
		w.mu.Unlock()
		return
	}
	w.outcome = o
	w.mu.Unlock()
	w.stopped.Store(true)

	l.mu.Lock()
	waiting := w.waiting
	if waiting {
		w.waiting = false
		w.ended.Store(true)
		l.pools.CancelWaiting(&w.slot)
	}
	l.mu.Unlock()

	w.gates.CloseAll(cause) // first: whoever is woken by the rest finds that nothing can be sent any more
	w.recv.FailThen(cause, func() { w.stop(cause) })
	w.abandonCalls(cause, o.cascade())
	if !waiting {
		return
	}
	if b, err := l.lanes.Own(); err != nil {
		l.lanes.Lost(frame.TypeErr)
	} else {
		err := b.Put(&w.flow, l.errFrame(b.Frame(frame.TypeErr), o.failure), nil)
		b.EndOwn(1)
		if err != nil {
			l.c.opts.log.Error("an ERR could not be sent", "error", err)
		}
	}
	l.mu.Lock()
	start := l.forget(w)
	l.mu.Unlock()
	l.start(start)
}

// serve is a request's goroutine: it runs the handler, then writes the terminal and frees the slot. Whatever the handler does,
// one terminal leaves the process and the slot is freed once.
func (w *wireRequest) serve() {
	growStack(0)
	w.act.Visit()
	guard(w.perform, w.conclude)
}

// perform calls the handler; a factory is called after those of the requests admitted before.
func (w *wireRequest) perform() error {
	if w.stopped.Load() { // between its admission and now; the factory is not called
		w.factoryDone()
		return context.Cause(w.ctx)
	}
	if w.route.err != nil {
		w.factoryDone()
		return failure.Newf(failure.HandlerError, failure.Internal, "the response media of %s cannot be told: %w", w.route.cap, w.route.err)
	}
	if w.handler.fn != nil {
		return w.handler.fn(w.ctx, &w.Request)
	}
	op, err := w.makeOp()
	if err != nil {
		return err
	}
	var wet WetContext
	wet.Set(WetKeyRequest, &w.Request)
	return op.Perform(w.ctx, new(DryContext), &wet)
}

// makeOp calls the factory in order of admission.
func (w *wireRequest) makeOp() (Op, error) {
	defer w.factoryDone()
	w.turn.await()
	op := w.handler.factory()
	if op == nil {
		return nil, fmt.Errorf("the factory of %s returned nil", w.route.pattern)
	}
	return op, nil
}

func (w *wireRequest) factoryDone() {
	if w.turn != nil {
		w.turn.await()
		close(w.turn.done)
		w.turn = nil
	}
}

// await waits until the factory of the request before has returned.
func (t *factoryTurn) await() {
	if t.before != nil {
		<-t.before
		t.before = nil
	}
}

// conclude ends the request with the handler's result, or with what was decided before it returned.
func (w *wireRequest) conclude(result error) {
	l := w.link
	if err := logPanic(w.ctx, w.out.sink, result); err != nil {
		l.c.opts.log.Debug("the stack of a panic could not be sent", "error", err)
	}
	result = w.join(result)
	w.endReferences()
	w.recv.Discard()
	w.endCalls()
	if result == nil {
		// Closing is still the handler's work: it waits for credit, and a cancel ends it.
		if err := w.sender.CloseWith(w.ctx, w.success); err != nil {
			result = err
		}
	}
	if result != nil {
		w.fail(result)
	}
	w.gates.CloseAll(ErrClosed)
	w.stop(context.Canceled)
	if w.age != nil {
		w.age.stop()
		w.age.join()
	}
	l.mu.Lock()
	w.ended.Store(true)
	start := l.forget(w)
	l.mu.Unlock()
	l.start(start)
}

// Fault implements stages.Owner.
func (w *wireRequest) Fault(fault *failure.Failure) { w.link.poison(w, fault) }

// fail implements environment.
func (l *link) fail(r *Request, err error) { l.end(r.wire, &outcome{failure: failure.From(err)}, err) }

// farewell is how calls end that are unfinished when the handler has returned. A request that was stopped passes its own
// reason on, also when the handler was quicker than the one who stopped it.
func (w *wireRequest) farewell() (reason failure.CancelReason, cause error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.outcome != nil && w.outcome.failure != nil {
		return w.outcome.cascade(), w.outcome.failure
	}
	return failure.HostAbort(failure.Internal, "the handler has returned"), ErrClosed
}

// succeeded is the outcome of every success.
var succeeded = new(outcome)

// success fills in END, when nothing stopped the request before. It is called under the lanes' lock.
func (w *wireRequest) success(f *frame.Frame) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.outcome != nil {
		return false
	}
	w.outcome = succeeded
	w.ended.Store(true)
	progress, message := 1.0, ""
	if w.last != nil {
		progress, message = w.last.progress, cutText(w.last.message, int(w.link.stages.Limits.MaxFrame), 0)
	}
	f.EOF, f.Meta = true, frame.EndMeta(progress, message)
	f.Has = f.Has.With(frame.KeyEOF).With(frame.KeyMeta)
	return true
}

// fail writes the ERR: of the outcome decided before, or of the handler's error.
func (w *wireRequest) fail(result error) {
	w.mu.Lock()
	if w.outcome == nil {
		w.outcome = &outcome{failure: failure.From(result)}
	}
	o := w.outcome
	w.mu.Unlock()
	if o.failure == nil {
		return // END is on its way
	}
	w.gates.CloseAll(o.failure) // releases data calls that goroutines of the handler still make
	err := w.sender.Abort(context.WithoutCancel(w.ctx), o.streamEnd, func(f *frame.Frame) bool {
		w.ended.Store(true)
		w.link.errFrame(f, o.failure)
		return true
	})
	if err != nil {
		w.link.lanes.Lost(frame.TypeErr)
	}
}

// fitting cuts a message that would make its frame exceed maxFrame.
func fitting(f *failure.Failure, maxFrame int) *failure.Failure {
	message := cutText(f.Message, maxFrame, len(f.Code)+len(f.ArgURN))
	if len(message) == len(f.Message) {
		return f
	}
	g := *f
	g.Message = message
	return &g
}

// cutText cuts a text that would make its frame exceed maxFrame beside others of the given length, on a character border
// and with a mark: a terminal must never fail for its words.
func cutText(text string, maxFrame, others int) string {
	const mark = " … (cut)"
	room := min(maxFrame, frame.MaxBody) - 256 - others
	if len(text) <= room {
		return text
	}
	n := max(0, min(room-len(mark), len(text)))
	for n > 0 && text[n]&0xc0 == 0x80 {
		n--
	}
	return text[:n] + mark
}

var _ stages.Terminal = (*wireRequest)(nil).success
