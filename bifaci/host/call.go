package host

import (
	"context"
	"errors"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stages"
)

// Call is one request of the host's. Arguments, Finish and Response are those of [bifaci.PeerCall]; they may be used at the
// same time.
type Call struct {
	*bifaci.PeerCall
	conn    *Conn
	stop    func() bool // of the watch on the caller's context; guarded by conn.mu
	below   children    // guarded by conn.mu
	release func()      // when the call is over; nil outside of a [Host]
	watcher *watcher    // of what arrives; nil when nobody wants to know
}

// CallOption changes how a call is made.
type CallOption func(*callOptions)

type callOptions struct {
	reason    failure.CancelReason
	preferred string
	target    ID
	targeted  bool
	activity  time.Duration
	contract  bool
}

// WithCancelReason sets what the cartridge is told when the context of the call ends. The default names nobody.
func WithCancelReason(reason failure.CancelReason) CallOption {
	return func(o *callOptions) { o.reason = reason }
}

// WithPreferred names a cap that is taken, whatever its distance, if an equivalent one is registered and can serve the call. It means
// nothing to [Conn.Call].
func WithPreferred(capURN string) CallOption { return func(o *callOptions) { o.preferred = capURN } }

// WithTarget names the cartridge that must serve the call: CARTRIDGE_NOT_FOUND when there is none with the id, CARTRIDGE_UNAVAILABLE
// when it has failed. It means nothing to [Conn.Call].
func WithTarget(id ID) CallOption { return func(o *callOptions) { o.target, o.targeted = id, true } }

// WithCallActivityTimeout is [WithActivityTimeout] for one call.
func WithCallActivityTimeout(d time.Duration) CallOption {
	return func(o *callOptions) { o.activity = d }
}

// Call sends a REQ for capURN. It waits for the first policy and for room on the link, under ctx. When ctx ends before the
// answer has, the request is cancelled. The caller must read the answer to its end, or cancel, or close it; otherwise
// the request lives on.
func (c *Conn) Call(ctx context.Context, capURN string, opts ...CallOption) (*Call, error) {
	o := callOptions{reason: failure.Unattributed(), activity: c.opts.activity}
	for _, opt := range opts {
		opt(&o)
	}
	if err := c.awaitPolicy(ctx); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.xid++
	xid := frame.UintID(c.xid)
	c.mu.Unlock()
	return c.call(ctx, capURN, xid, &Call{watcher: newWatcher(&o, nil, nil)}, o)
}

// call makes call a request with the routing id xid.
func (c *Conn) call(ctx context.Context, capURN string, xid frame.ID, call *Call, o callOptions) (*Call, error) {
	call.conn = c
	peer, err := bifaci.NewCall(context.WithoutCancel(ctx), capURN, bifaci.CallConfig{Link: &c.link, Routing: xid, Ended: call.ended,
		Cancelled: call.cancelled})
	if err != nil {
		return nil, err
	}
	call.PeerCall = peer
	if err := c.register(call); err != nil {
		call.Lost(err)
		return nil, err
	}
	call.watch(ctx, o.reason)
	call.watcher.start(call)
	if err := peer.Open(); err != nil {
		if c.lanes.Err() != nil {
			<-c.over // at once or soon: then it is known how the cartridge has ended
		}
		if ended := c.Err(); ended != nil {
			err = ended
		}
		call.Lost(err)
		return nil, err
	}
	return call, nil
}

// awaitPolicy waits until requests may be sent.
func (c *Conn) awaitPolicy(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	select {
	case <-c.policySent:
		return nil
	default:
	}
	select {
	case <-c.policySent:
		return nil
	case <-c.over:
		return c.Err()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// register puts a call into the table, while there is a link.
func (c *Conn) register(call *Call) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.err != nil:
		return c.err
	case c.closing:
		return c.opts.closed
	}
	c.served[call.ID()] = call
	return nil
}

// watch cancels the call when ctx ends.
func (call *Call) watch(ctx context.Context, reason failure.CancelReason) {
	stop := context.AfterFunc(ctx, func() { call.Abandon(context.Cause(ctx), reason) })
	c := call.conn
	c.mu.Lock()
	call.stop = stop
	over := c.served[call.ID()] != served(call)
	c.mu.Unlock()
	if over {
		stop()
	}
}

// ended takes the call out of the table.
func (call *Call) ended(*bifaci.PeerCall) {
	c := call.conn
	c.mu.Lock()
	_, registered := c.served[call.ID()]
	delete(c.served, call.ID())
	c.recent.Add(call.ID())
	stop := call.stop
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
	call.watcher.end()
	if registered && call.release != nil {
		call.release()
	}
}

// cancelled passes a cancel of the call on to what was called on its behalf, and kills the process when that is what the
// reason asks for.
func (call *Call) cancelled(reason failure.CancelReason) (then func()) {
	call.conn.cancelling(call.ID(), reason)
	return func() {
		call.conn.cascade(&call.below, reason)
		if c := call.conn; reason.ForceKill && (c.opts.kill != nil || c.opts.ended != nil) {
			call.conn.condemn(failure.New(failure.AbortedCollateral, failure.Environment,
				"the cartridge was killed because another request of it was cancelled by force"))
		}
	}
}

// The served of a call.

func (call *Call) routing() frame.ID { return call.Routing() }
func (call *Call) kids() *children   { return &call.below }
func (call *Call) lost(err error)    { call.Lost(err) }

func (call *Call) deliver(f *frame.Frame, block *stages.Block) {
	if !call.watcher.saw(call, f) {
		block.Release()
		return
	}
	call.conn.lost(f.Type, call.Deliver(f, block))
}

// Cancel ends the call for the given reason: its reads and writes fail with the reason's identity at once, and the cartridge is
// sent a CANCEL.
func (call *Call) Cancel(reason failure.CancelReason) {
	call.Abandon(&failure.CancelledError{Reason: reason}, reason)
}

// CloseFeeds asks the cartridge to close the live feed that it opened for the reference stream streamID, or all of the request's
// feeds when it is empty. The call goes on to its natural end.
func (call *Call) CloseFeeds(streamID string) error {
	var f frame.Frame
	f.Reset(frame.TypeCloseStream, call.ID())
	f.WithRouting(call.Routing())
	if streamID != "" {
		f.StreamID = []byte(streamID)
		f.Has = f.Has.With(frame.KeyStreamID)
	}
	return call.conn.put(&f)
}

// closeFeedsLimit is how long [Call.CloseFeedsAndWait] waits when its context says nothing shorter.
const closeFeedsLimit = 60 * time.Second

// CloseFeedsAndWait closes all live feeds of the request and waits for its answer to end, for 60 s at most and under ctx. It returns
// nil only after a successful END, otherwise what happened. Somebody must go on reading the answer.
func (call *Call) CloseFeedsAndWait(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, closeFeedsLimit, errors.New("host: the request has not ended within a minute of the end of its feeds"))
	defer cancel()
	if err := call.CloseFeeds(""); err != nil {
		return err
	}
	select {
	case <-call.Context().Done():
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if cause := context.Cause(call.Context()); !errors.Is(cause, bifaci.ErrRequestEnded) {
		return cause
	}
	return nil
}

// Argument is one argument of [Conn.CallBytes].
type Argument struct {
	MediaURN string
	Value    []byte
}

// CallBytes calls capURN with one scalar stream per argument and returns the bytes of the answer. Logs are dropped. Arguments are
// fed while the answer is read.
func (c *Conn) CallBytes(ctx context.Context, capURN string, args ...Argument) ([]byte, error) {
	call, err := c.Call(ctx, capURN)
	if err != nil {
		return nil, err
	}
	return call.exchange(ctx, args)
}

// exchange feeds the arguments while it reads the answer.
func (call *Call) exchange(ctx context.Context, args []Argument) ([]byte, error) {
	var err error
	fed := make(chan error, 1)
	go func() { // ends with the call, which ends with ctx; waited for below
		err := feed(call.Context(), call, args)
		if err != nil && call.conn.lanes.Err() != nil {
			<-call.conn.over // which ends the call, and says how the cartridge has ended
			err = call.conn.Err()
		}
		if err != nil {
			call.Abandon(err, failure.HostAbort(failure.Internal, "an argument could not be sent"))
		}
		fed <- err
	}()
	var all []byte
	for it, itemErr := range call.Response().Items(ctx) {
		if itemErr != nil {
			err = itemErr
			break
		}
		if it.Data != nil {
			all = append(all, it.Data.Bytes...)
			it.Data.Release()
		}
	}
	if err != nil {
		call.Abandon(err, failure.Unattributed())
	}
	feedErr := <-fed
	if err == nil && feedErr != nil && !errors.Is(feedErr, bifaci.ErrRequestEnded) {
		err = feedErr // the answer ended well although an argument could not be sent
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

func feed(ctx context.Context, call *Call, args []Argument) error {
	for _, a := range args {
		out := call.Arg(a.MediaURN)
		if _, err := out.WriteContext(ctx, a.Value); err != nil {
			return err
		}
		if err := out.Close(ctx); err != nil {
			return err
		}
	}
	return call.Finish(ctx)
}
