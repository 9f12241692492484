package bifaci

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/credit"
	"github.com/pipe-cartridge/pipe/stages"
)

// ErrFinished says that the body of a call was ended already.
var ErrFinished = errors.New("bifaci: the body of the call is finished")

// CallConfig is what a call needs of the link that it is made on. A host fills it in, and the runtime for calls of handlers;
// users of a cartridge or a host never do.
type CallConfig struct {
	Link    *stages.Link
	Routing frame.ID // key 13 of every frame of the call; the zero ID for none
	Parent  frame.ID // the request that the call belongs to, for meta.parent_rid; the zero ID for none
	// Ended is called once when the response has ended or the call was given up, from any goroutine and without a lock.
	Ended func(*PeerCall)
	// Cancelled is called once when the call is given up, from any goroutine and without a lock, before its CANCEL is sent; what it
	// returns is called behind that. It may be nil.
	Cancelled func(failure.CancelReason) (then func())
	// Flush grants what else the caller has consumed before the call waits; may be nil.
	Flush func()
	// AgeFlush sends small writes on arguments by age.
	AgeFlush bool
}

// PeerCall is one request as its caller sees it: argument streams out, one response in, both at the same time. Safe for
// concurrent use.
type PeerCall struct {
	cfg       CallConfig
	cap       string
	ctx       context.Context
	stop      context.CancelCauseFunc
	flow      stages.Flow
	recv      stages.Receiver
	gates     credit.Router
	resp      PeerResponse
	over      atomic.Bool // the response has ended, or the call was given up
	once      sync.Once   // of cfg.Ended
	forgotten sync.Once   // of cfg.Ended
	open      bool        // REQ is on its way; guarded by the lanes' lock

	feeders sync.WaitGroup // goroutines that send arguments; see feeding

	mu       sync.Mutex
	args     []*callArg
	finished bool
}

// callArg is one argument stream of a call.
type callArg struct {
	OutputStream
	sender stages.Sender
	call   *PeerCall
	age    *ageFlusher // or nil
}

// NewCall prepares a call of capURN and sends nothing. The caller registers it under its ID, so that the answer finds it, and
// then calls Open. An error says that the URN does not parse.
func NewCall(ctx context.Context, capURN string, cfg CallConfig) (*PeerCall, error) {
	if _, err := urn.ParseCap(capURN); err != nil {
		return nil, err
	}
	c := &PeerCall{cfg: cfg, cap: capURN}
	c.ctx, c.stop = context.WithCancelCause(ctx)
	c.flow.Init(frame.NewUUID(), cfg.Routing)
	c.recv.Init(cfg.Link, &c.flow, frame.CreditResponse, (*callOwner)(c))
	c.recv.Merge()
	c.recv.BeforeWait(c.flush)
	c.resp.call = c
	return c, nil
}

// ID is the call's request id.
func (c *PeerCall) ID() frame.ID { return c.flow.ID() }

// Routing is the routing id of the call's frames, the zero ID when they have none.
func (c *PeerCall) Routing() frame.ID { return c.flow.Routing() }

// CapURN is the cap that is called.
func (c *PeerCall) CapURN() string { return c.cap }

// Open sends the REQ. It waits for room in the lane until the call ends or is given up; then it returns why, and nothing
// was sent.
func (c *PeerCall) Open() error {
	var meta []byte
	if !c.cfg.Parent.IsZero() {
		meta = frame.AppendParentMeta(nil, c.cfg.Parent)
	}
	b, err := c.cfg.Link.Lanes.Begin(c.ctx, c.flush)
	if err != nil {
		return err
	}
	defer b.End()
	if c.over.Load() {
		return c.why()
	}
	f := b.Frame(frame.TypeReq)
	f.Cap, f.ContentType, f.Payload, f.Meta = []byte(c.cap), []byte("application/cbor"), []byte{}, meta
	f.Has = f.Has.With(frame.KeyCap).With(frame.KeyContentType).With(frame.KeyPayload)
	if meta != nil {
		f.Has = f.Has.With(frame.KeyMeta)
	}
	if err := b.Put(&c.flow, f, nil); err != nil {
		return err
	}
	c.open = true
	return nil
}

// flush grants what the call and its owner have consumed, before either waits.
func (c *PeerCall) flush() {
	c.recv.Flush()
	if c.cfg.Flush != nil {
		c.cfg.Flush()
	}
}

// Arg opens the stream of one argument. Several may be open and written at the same time; one that is never written is
// sent empty by Finish. After Finish every data call of the stream returns [ErrFinished].
func (c *PeerCall) Arg(mediaURN string) *OutputStream {
	a := &callArg{call: c}
	a.sender.Init(c.cfg.Link, &c.flow, []byte(frame.NewUUID().String()), []byte(mediaURN), c.flush)
	a.sink, a.ctx = a, c.ctx
	if c.cfg.AgeFlush {
		a.age = new(ageFlusher)
		a.age.start(c.ctx, &a.sender)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.finished {
		a.sender.Refuse(ErrFinished)
		return &a.OutputStream
	}
	if err := c.gates.Register(a.sender.ID(), a.sender.Gate()); err != nil {
		a.sender.Refuse(err)
		return &a.OutputStream
	}
	c.args = append(c.args, a)
	return &a.OutputStream
}

// The outputSink of an argument.

func (a *callArg) Start(ctx context.Context, m stages.Mode) error    { return a.sender.Start(ctx, m) }
func (a *callArg) Started() bool                                     { return a.sender.Started() }
func (a *callArg) Fresh() bool                                       { return a.sender.Fresh() }
func (a *callArg) Write(ctx context.Context, p []byte) error         { return a.sender.Write(ctx, p) }
func (a *callArg) EmitValue(ctx context.Context, v any) error        { return a.sender.EmitValue(ctx, v) }
func (a *callArg) Flush(ctx context.Context) error                   { return a.sender.Flush(ctx) }
func (a *callArg) Close(ctx context.Context) error                   { return a.sender.CloseStarted(ctx) }
func (a *callArg) Forward(ctx context.Context, p stages.Piece) error { return a.sender.Forward(ctx, p) }
func (a *callArg) finish(float64, string)                            {}
func (a *callArg) EmitItem(ctx context.Context, v any, meta []byte) error {
	return a.sender.EmitItem(ctx, v, meta)
}

// log refuses: only the answering side of a request logs.
func (a *callArg) log(context.Context, frame.LogRecord) error {
	return errors.New("bifaci: an argument stream has no log; only the answer of a request has")
}

// Finish ends the body: argument streams that are still open are closed, then END is sent. A second call returns
// [ErrFinished]. When the answer came first the rest of the body is not owed, and Finish returns why.
func (c *PeerCall) Finish(ctx context.Context) error {
	c.mu.Lock()
	if c.finished {
		c.mu.Unlock()
		return ErrFinished
	}
	c.finished = true
	args := c.args
	c.mu.Unlock()
	for _, a := range args {
		if err := a.Close(ctx); err != nil {
			return fmt.Errorf("argument %s: %w", a.sender.ID(), err)
		}
		a.sender.Refuse(ErrFinished)
	}
	b, err := c.cfg.Link.Lanes.Begin(ctx, c.flush)
	if err != nil {
		return err
	}
	defer b.End()
	if c.over.Load() { // no END is owed
		return c.why()
	}
	f := b.Frame(frame.TypeEnd)
	f.EOF = true
	f.Has = f.Has.With(frame.KeyEOF)
	return b.Put(&c.flow, f, nil)
}

// Response is the call's answer; it can be read from the moment of the call.
func (c *PeerCall) Response() *PeerResponse { return &c.resp }

// Context ends when the response has ended, with the reason as its cause.
func (c *PeerCall) Context() context.Context { return c.ctx }

// Deliver takes a frame that arrived for the call, on the link's reader: an answer's frame, or a CREDIT for an argument. It
// never waits. block, when not nil, holds the frame's body and belongs to the call. It returns what became of the frame.
func (c *PeerCall) Deliver(f *frame.Frame, block *stages.Block) stats.Fate {
	if f.Type == frame.TypeChunk {
		fate, fault := c.recv.Chunk(f, block)
		return c.check(fate, fault)
	}
	defer block.Release()
	switch f.Type {
	case frame.TypeStreamStart:
		return c.check(stats.Delivered, c.recv.Start(f))
	case frame.TypeStreamEnd:
		return c.check(stats.Delivered, c.recv.StreamEnd(f))
	case frame.TypeLog:
		rec, err := f.LogRecord()
		if err != nil {
			return c.check(stats.Consumed, protocolError("the LOG of an answer: %w", err))
		}
		if c.recv.Log(&rec) {
			return stats.Dropped(stats.ChannelClosed) // this record, or an older one that it has replaced
		}
	case frame.TypeEnd:
		return c.end(f)
	case frame.TypeErr:
		remote, err := f.Failure()
		if err != nil {
			return c.check(stats.Consumed, protocolError("the ERR of an answer: %w", err))
		}
		return c.conclude(&failure.Remote{Failure: *remote})
	case frame.TypeCredit:
		var stream []byte
		if f.Has.Has(frame.KeyStreamID) {
			stream = f.StreamID
		}
		if dir, ok := f.CreditDirection(); !ok {
			return stats.Dropped(stats.NoRoute)
		} else if dir != frame.CreditRequest || c.gates.Grant(stream, f.Credit) != credit.Granted {
			return stats.Consumed
		}
	}
	return stats.Delivered
}

// check fails the call when its answer broke a rule. It returns the frame's fate: the given one, unless there is a fault.
func (c *PeerCall) check(fate stats.Fate, fault *failure.Failure) stats.Fate {
	if fault == nil {
		return fate
	}
	if c.over.Load() {
		return stats.Straggled // it ended since it was looked up; the fault is that its input has failed
	}
	c.violated(fault)
	if fault.Code == failure.CreditViolation {
		return stats.Dropped(stats.CreditViolation)
	}
	return stats.Consumed
}

// end takes the END of the answer: only exit_code 0 is a success.
func (c *PeerCall) end(f *frame.Frame) stats.Fate {
	status, err := f.EndStatus()
	switch {
	case err != nil:
		return c.check(stats.Consumed, protocolError("the END of an answer: %w", err))
	case !status.HasExitCode:
		return c.conclude(failure.New(failure.EndWithoutSuccess, failure.Internal, "the answer's END has no exit_code"))
	case !status.Success():
		return c.conclude(failure.Newf(failure.EndWithoutSuccess, failure.Internal, "the answer's END has exit_code %d", status.ExitCode))
	}
	if c.over.Swap(true) { // before the end can be read: who has read it and closes sends no CANCEL
		return stats.Straggled
	}
	c.resp.setStatus(status)
	if f.Has.Has(frame.KeyPayload) && len(f.Payload) > 0 {
		c.recv.Tail(f.Payload)
	}
	if fault := c.recv.End(); fault != nil {
		c.abandon(fault, violation(fault))
		return stats.Consumed
	}
	c.ended(ErrRequestEnded)
	return stats.Delivered
}

// conclude ends the call in order with a failure of the callee's: what was received is still read, then err.
func (c *PeerCall) conclude(err error) stats.Fate {
	if c.over.Swap(true) {
		return stats.Straggled // it was given up meanwhile
	}
	c.recv.Close(err)
	c.ended(err)
	return stats.Delivered
}

// ErrRequestEnded is what data calls on arguments get after the answer has ended well.
var ErrRequestEnded = errors.New("bifaci: the request has ended")

// why is the reason why a call is over.
func (c *PeerCall) why() error {
	if cause := context.Cause(c.ctx); cause != nil {
		return cause
	}
	return ErrRequestEnded // it is ending at this moment
}

// ended makes every later data call on arguments fail with reason, and tells the link.
func (c *PeerCall) ended(reason error) {
	c.once.Do(func() {
		c.gates.CloseAll(reason)
		for _, a := range c.openArgs() { // later ones find the gates closed
			a.sender.Refuse(reason)
			if a.age != nil {
				a.age.stop()
			}
		}
		c.stop(reason) // last: whoever waits for it finds that nothing can be sent any more
		c.forget()
	})
}

// forget takes the call out of its link's table, once: frames that still come for it are stragglers.
func (c *PeerCall) forget() {
	c.forgotten.Do(func() {
		if c.cfg.Ended != nil {
			c.cfg.Ended(c)
		}
	})
}

func (c *PeerCall) openArgs() []*callArg {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.args
}

// feeding runs f on a goroutine of the call's own, unless the call has ended.
func (c *PeerCall) feeding(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.over.Load() {
		c.feeders.Go(f) // joined after the end of the call
	}
}

// join waits for the goroutines that send arguments; the call has ended.
func (c *PeerCall) join() {
	args := c.openArgs() // under c.mu, so that whoever is feeding has been counted
	c.feeders.Wait()
	for _, a := range args {
		if a.age != nil {
			a.age.join()
		}
	}
}

// callOwner is the call as the owner of its receiver.
type callOwner PeerCall

// Fault implements stages.Owner.
func (c *callOwner) Fault(fault *failure.Failure) { (*PeerCall)(c).violated(fault) }

// violated fails the call because its answer breaks the protocol: an error to the caller, a CANCEL to the callee.
func (c *PeerCall) violated(fault *failure.Failure) {
	c.Abandon(fault, violation(fault))
}

// violation is the reason with which a call is cancelled whose answer breaks the protocol.
func violation(fault *failure.Failure) failure.CancelReason {
	return failure.HostAbort(failure.Internal, fault.Error())
}

// Abandon gives the call up, at once: its reads and writes fail with cause and the callee is sent a CANCEL for the reason,
// unless the answer has ended. It never waits for the callee.
func (c *PeerCall) Abandon(cause error, reason failure.CancelReason) {
	if !c.over.Swap(true) {
		c.abandon(cause, reason)
	}
}

func (c *PeerCall) abandon(cause error, reason failure.CancelReason) {
	then := func() {}
	if c.cfg.Cancelled != nil {
		then = c.cfg.Cancelled(reason)
	}
	c.recv.Fail(cause)
	c.gates.CloseAll(cause) // before CANCEL, so that nobody sends behind it who waits for credit now
	c.forget()              // before CANCEL, so that what the callee sends in answer to it finds no call any more
	if err := c.sendCancel(reason); err != nil {
		c.cfg.Link.Lanes.Lost(frame.TypeCancel)
	}
	c.ended(cause)
	then()
}

// sendCancel ends the call's flow, with a CANCEL if the callee knows the call.
func (c *PeerCall) sendCancel(reason failure.CancelReason) error {
	meta := frame.AppendCancelMeta(nil, reason)
	b, err := c.cfg.Link.Lanes.Own()
	if err != nil {
		return err
	}
	defer b.EndOwn(1)
	defer c.flow.Shut()
	if !c.open {
		return nil
	}
	f := b.Frame(frame.TypeCancel)
	f.ForceKill = reason.ForceKill
	f.Has = f.Has.With(frame.KeyForceKill)
	if len(meta) > 0 {
		f.Meta = meta
		f.Has = f.Has.With(frame.KeyMeta)
	}
	return b.Put(&c.flow, f, nil)
}

// Lost fails the call because its link has ended: what was received before is still read, then cause. Nothing is sent.
func (c *PeerCall) Lost(cause error) {
	if c.over.Swap(true) {
		return
	}
	c.recv.Close(cause)
	c.ended(cause)
}
