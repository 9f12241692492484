package host

import (
	"errors"
	"sync"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/stages"
)

// Bounds of what waits for one cartridge to read, beyond which the calls of others towards it end with QUEUE_FULL: windows bound a
// stream, and nothing bounds the number of calls.
const (
	maxBacklogFrames = 16384     // frames
	maxBacklogBytes  = 128 << 20 // bytes
	maxBacklogLogs   = 2048      // frames, above which LOGs are dropped
)

// relay is a call from one cartridge to another, or to itself: both directions are passed on frame by frame, in order, with the
// flow's seq of the link that they go out on. The two sides end one after the other: the handler's with its terminal, the
// caller's when that has been passed on, which may take longer where chunks are held back. Safe for concurrent use; nothing waits.
//
// Locks: a relay's mutex is taken before those of the links and of their lanes, and never while one of those is held.
type relay struct {
	xid    frame.ID
	capURN string
	caller *Conn
	onEnd  func(*relay) // when the caller's side is over; called once, without a lock

	parent *children // of the request that the caller serves, or nil; guarded by caller.mu

	mu          sync.Mutex
	callerFlow  stages.Flow      // what the caller gets; guarded by the lock of its lanes
	handlerFlow stages.Flow      // what the handler gets; guarded by the lock of its lanes
	served      *life            // of the handler; nil until it runs, and outside of a host
	handler     *Conn            // its link
	below       children         // calls of the handler's; guarded by handler.mu
	body        pacer            // to the handler
	answer      pacer            // to the caller
	bodyOver    bool             // END or ERR of the body has arrived
	answerOver  bool             // the terminal of the answer has arrived: the handler knows the call no more
	callerOver  bool             // the caller has got its terminal, or is gone
	broken      *failure.Failure // a frame could not be passed on
	cascading   []failure.CancelReason
	// What unlock has done.
	handlerForgotten, settled bool
}

func newRelay(caller *Conn, id, xid frame.ID, capURN string, onEnd func(*relay)) *relay {
	r := &relay{xid: xid, capURN: capURN, caller: caller, onEnd: onEnd}
	r.callerFlow.Init(id, xid)
	r.body.source = int64(caller.hello.Limits.InitialCredit)
	r.body.emit, r.answer.emit = r.toHandler, r.toCaller
	return r
}

// The served of a relay, for its handler.

func (r *relay) routing() frame.ID { return r.xid }
func (r *relay) kids() *children   { return &r.below }

// bind connects the relay with the cartridge that serves it, and sends what the caller has sent so far. The handler gets the
// caller's id, or a fresh one where that would make two requests of one link indistinguishable.
//
// It reports false when the relay is over and takes no handler any more.
func (r *relay) bind(l *life) bool {
	r.mu.Lock()
	defer r.unlock()
	if r.callerOver {
		return false
	}
	c := l.conn
	r.served = l
	id := r.callerFlow.ID()
	c.mu.Lock()
	if c == r.caller || c.served[id] != nil || c.peers[id] != nil || c.recent.Contains(id) {
		id = frame.NewUUID()
	}
	err := c.err
	if err == nil {
		c.served[id] = r
	}
	c.mu.Unlock()
	r.handlerFlow.Init(id, r.xid)
	if err != nil {
		r.handlerGone(err)
		return true
	}
	r.handler = c
	r.answer.source = int64(c.hello.Limits.InitialCredit)
	r.answer.start(int64(r.caller.hello.Limits.InitialCredit))
	r.body.start(int64(c.hello.Limits.InitialCredit))
	return true
}

// refused ends a relay whose handler cannot be had.
func (r *relay) refused(err error) {
	r.mu.Lock()
	defer r.unlock()
	if r.handler == nil && !r.callerOver {
		r.handlerGone(err)
	}
}

// fromCaller takes a frame of the body, a grant for the answer, or a CANCEL, on the reader of the caller's link.
func (r *relay) fromCaller(f *frame.Frame, block *stages.Block) {
	r.mu.Lock()
	defer r.unlock()
	switch {
	case r.callerOver, f.Type != frame.TypeCancel && f.Type != frame.TypeCredit && (r.bodyOver || r.answerOver):
		r.caller.stragglers.Add(uint8(f.Type), 1) // the rest of a body that nobody needs
		block.Release()
		return
	case f.Type == frame.TypeCancel:
		reason := f.CancelReason()
		block.Release()
		r.cancelLocked(reason)
		return
	case f.Type == frame.TypeCredit:
		dir, ok := f.CreditDirection()
		if !ok || dir != frame.CreditResponse {
			r.caller.drop(stats.NoRoute, f.Type)
			block.Release()
			return
		}
		r.answer.grant(f.StreamID, f.Has.Has(frame.KeyStreamID), f.Credit)
		if r.answerOver {
			block.Release()
			return
		}
	case f.Type.IsTerminal():
		r.bodyOver = true
	}
	keepLarge(r.caller.dec, f, block)
	r.check(r.body.arrive(f, block, r.caller.dec.Keep), r.caller)
}

// deliver takes a frame of the answer, or a grant for the body, on the reader of the handler's link.
func (r *relay) deliver(f *frame.Frame, block *stages.Block) {
	r.mu.Lock()
	defer r.unlock()
	switch {
	case r.callerOver:
		r.handler.stragglers.Add(uint8(f.Type), 1)
		block.Release()
		return
	case f.Type == frame.TypeCredit:
		dir, ok := f.CreditDirection()
		if !ok || dir != frame.CreditRequest {
			r.handler.drop(stats.NoRoute, f.Type)
			block.Release()
			return
		}
		r.body.grant(f.StreamID, f.Has.Has(frame.KeyStreamID), f.Credit)
		if r.broken != nil {
			block.Release()
			return
		}
	case f.Type == frame.TypeLog && r.caller.lanes.Backlog() > maxBacklogLogs:
		r.caller.drop(stats.ChannelClosed, f.Type)
		block.Release()
		return
	case f.Type.IsTerminal():
		r.answerOver = true
	}
	keepLarge(r.handler.dec, f, block)
	r.check(r.answer.arrive(f, block, r.handler.dec.Keep), r.handler)
}

// check fails the relay when a side has broken a rule.
func (r *relay) check(fault *failure.Failure, by *Conn) {
	if fault == nil {
		return
	}
	if fault.Code == failure.CreditViolation {
		by.drop(stats.CreditViolation, frame.TypeChunk)
	}
	r.fail(fault)
}

// fail ends both sides: an ERR to the caller, a CANCEL to the handler.
func (r *relay) fail(f *failure.Failure) {
	if !r.callerOver {
		r.toHandlerCancel(failure.HostAbort(failure.Internal, f.Message))
		r.toCallerErr(f)
	}
}

func (r *relay) violated(fault *failure.Failure) {
	r.mu.Lock()
	defer r.unlock()
	r.fail(fault)
}

// cancel ends the relay because what it was made for was cancelled: the caller gets the reason's terminal at once, the handler a
// CANCEL, and so do the calls below it.
func (r *relay) cancel(reason failure.CancelReason) {
	r.mu.Lock()
	defer r.unlock()
	r.cancelLocked(reason)
}

func (r *relay) cancelLocked(reason failure.CancelReason) {
	if r.callerOver {
		return // the first reason stands
	}
	r.toHandlerCancel(reason) // without its force: no cartridge kills another
	r.toCallerErr(reason.Terminal())
}

// lost ends the relay because the handler's link has ended. An answer that had come whole is still passed on.
func (r *relay) lost(err error) {
	r.mu.Lock()
	defer r.unlock()
	if !r.answerOver && !r.callerOver {
		r.handlerGone(err)
	}
}

func (r *relay) handlerGone(err error) {
	r.answerOver = true
	if errors.Is(err, ErrClosed) { // the host ends: nothing is made up
		r.callerOver = true
		return
	}
	r.toCallerErr(failure.From(err))
}

// callerLost ends the relay because the caller's link has ended.
func (r *relay) callerLost(err error) {
	r.mu.Lock()
	defer r.unlock()
	if r.callerOver {
		return
	}
	r.callerOver = true
	if !errors.Is(err, ErrClosed) {
		r.toHandlerCancel(failure.Collateral(failure.Environment, "the calling cartridge has ended"))
	}
}

// toHandler and toCaller pass a frame on.

func (r *relay) toHandler(f *frame.Frame, block *stages.Block) {
	if r.broken != nil || r.answerOver {
		block.Release()
		return
	}
	r.pass(r.handler, &r.handlerFlow, f, block)
}

func (r *relay) toCaller(f *frame.Frame, block *stages.Block) {
	if r.broken != nil || r.callerOver {
		block.Release()
		return
	}
	terminal := f.Type.IsTerminal()
	r.pass(r.caller, &r.callerFlow, f, block)
	if terminal && r.broken == nil {
		r.callerOver = true
	}
}

func (r *relay) pass(to *Conn, fl *stages.Flow, f *frame.Frame, block *stages.Block) {
	b, err := to.lanes.Own()
	if err != nil {
		to.lanes.Lost(f.Type)
		block.Release()
		return // the link is ending, which ends the relay
	}
	err = b.Put(fl, f, block)
	frames, bytes := b.Backlog()
	b.End()
	var large *stages.TooLargeError
	switch {
	case errors.As(err, &large):
		block.Release()
		r.broken = failure.Newf(failure.FrameTooLarge, failure.Environment, "a %s frame of %d bytes is larger than the %d bytes that the other cartridge takes",
			large.Type, large.Size, large.Limit)
	case err != nil:
		block.Release()
		r.broken = failure.From(err)
	case frames > maxBacklogFrames || bytes > maxBacklogBytes:
		r.broken = failure.Newf(failure.QueueFull, failure.Resource, "%d frames, %d bytes wait for a cartridge that does not read", frames, bytes)
	}
}

// keepAbove is up to how many bytes of payload the lanes certainly copy at once; a longer one must last until it is written.
const keepAbove = 4 << 10

func keepLarge(dec *stages.Decoder, f *frame.Frame, block *stages.Block) {
	if block == nil && len(f.Payload) > keepAbove {
		dec.Keep(f, nil)
	}
}

// toCallerErr ends the caller's side.
func (r *relay) toCallerErr(f *failure.Failure) {
	r.callerOver = true
	b, err := r.caller.lanes.Own()
	if err != nil {
		r.caller.lanes.Lost(frame.TypeErr)
		return
	}
	defer b.EndOwn(1)
	e := b.Frame(frame.TypeErr)
	e.Meta = frame.AppendErrMeta(nil, fitting(f, r.caller.hello.Limits.MaxFrame))
	e.Has = e.Has.With(frame.KeyMeta)
	if err := b.Put(&r.callerFlow, e, nil); err != nil {
		r.caller.opts.log.Error("an ERR could not be sent", "error", err)
	}
}

// fitting cuts a message that would make its frame too large.
func fitting(f *failure.Failure, maxFrame uint64) *failure.Failure {
	const others = 1024 // bytes beside the message
	if uint64(len(f.Message)+len(f.Code)+len(f.ArgURN)+others) <= maxFrame {
		return f
	}
	g := *f
	g.Message, g.ArgURN = "the failure's message is too long for this link", ""
	return &g
}

// toHandlerCancel ends the handler's side, unless it has ended.
func (r *relay) toHandlerCancel(reason failure.CancelReason) {
	if r.answerOver {
		return
	}
	r.answerOver = true
	if r.handler == nil {
		return
	}
	h := r.handler
	h.cancelling(r.handlerFlow.ID(), reason)
	b, err := h.lanes.Own()
	if err != nil {
		h.lanes.Lost(frame.TypeCancel)
		return
	}
	c := b.Frame(frame.TypeCancel)
	c.Has = c.Has.With(frame.KeyForceKill)
	if meta := frame.AppendCancelMeta(nil, reason); len(meta) > 0 {
		c.Meta = meta
		c.Has = c.Has.With(frame.KeyMeta)
	}
	if err := b.Put(&r.handlerFlow, c, nil); err != nil {
		h.opts.log.Error("a CANCEL could not be sent", "error", err)
	}
	r.handlerFlow.Shut()
	b.EndOwn(1)
	r.cascading = append(r.cascading, reason)
}

// unlock makes the turn: it ends what a frame could not pass, forgets the sides that are over, and then unlocks.
func (r *relay) unlock() {
	if r.broken != nil {
		r.fail(r.broken)
	}
	if r.callerOver {
		r.body.drop()
		r.answer.drop()
	}
	reasons := r.cascading
	r.cascading = nil
	h := r.handler
	forgetHandler, forgetCaller := r.answerOver && h != nil && !r.handlerForgotten, r.callerOver && !r.settled
	r.handlerForgotten = r.handlerForgotten || forgetHandler
	r.settled = r.settled || forgetCaller
	r.mu.Unlock()
	if forgetHandler {
		h.mu.Lock()
		if h.served[r.handlerFlow.ID()] == served(r) {
			delete(h.served, r.handlerFlow.ID())
			h.recent.Add(r.handlerFlow.ID())
		}
		h.mu.Unlock()
	}
	for _, reason := range reasons {
		h.cascade(&r.below, reason)
	}
	if forgetCaller {
		c := r.caller
		c.mu.Lock()
		if c.peers[r.callerFlow.ID()] == r {
			delete(c.peers, r.callerFlow.ID())
			c.recent.Add(r.callerFlow.ID())
		}
		if r.parent != nil {
			r.parent.remove(r)
		}
		c.mu.Unlock()
		r.onEnd(r)
	}
}
