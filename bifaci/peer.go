package bifaci

import (
	"context"
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// PeerInvoker calls other capabilities through the host.
type PeerInvoker interface {
	// Call sends a REQ for capURN at once. The answer can be read from that moment, while arguments are sent.
	Call(ctx context.Context, capURN string) (*PeerCall, error)
}

// NoPeer is the invoker where there is no host: every call returns [ErrPeerUnsupported].
var NoPeer PeerInvoker = noPeer{}

type noPeer struct{}

func (noPeer) Call(context.Context, string) (*PeerCall, error) { return nil, ErrPeerUnsupported }

// Peer calls other capabilities on behalf of this request: a cancel of the request cancels its calls, and calls that are
// unfinished when the handler returns are cancelled.
func (r *Request) Peer() PeerInvoker {
	if r.wire == nil {
		return NoPeer
	}
	return wirePeer{r.wire}
}

// wirePeer makes calls on the link of the request.
type wirePeer struct{ w *wireRequest }

func (p wirePeer) Call(ctx context.Context, capURN string) (*PeerCall, error) {
	w, l := p.w, p.w.link
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	w.sweepCalls()
	c, err := NewCall(w.ctx, capURN, CallConfig{Link: &l.stages, Parent: w.flow.ID(), Ended: w.callEnded, Flush: w.flushGrants,
		AgeFlush: l.c.opts.ageFlush})
	if err != nil {
		return nil, fmt.Errorf("peer call: %w", err)
	}
	if err := w.addCall(c); err != nil {
		c.Lost(err)
		return nil, err
	}
	w.watch(ctx, c)
	if err := c.Open(); err != nil {
		c.Lost(err)
		return nil, err
	}
	return c, nil
}

// watch cancels the call when the context that was given to Call ends: without attribution, unless that is the request's own end,
// whose words go on to its calls.
func (w *wireRequest) watch(ctx context.Context, c *PeerCall) {
	stop := context.AfterFunc(ctx, func() {
		if w.stopped.Load() {
			reason, cause := w.farewell()
			c.Abandon(cause, reason)
			return
		}
		c.Abandon(context.Cause(ctx), failure.Unattributed())
	})
	context.AfterFunc(c.ctx, func() { stop() })
}

// addCall registers a call, so that frames find it and the request's end cancels it.
func (w *wireRequest) addCall(c *PeerCall) error {
	l := w.link
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending != nil {
		return l.ending
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.outcome != nil || w.noCalls {
		if cause := context.Cause(w.ctx); cause != nil {
			return cause
		}
		return ErrRequestEnded
	}
	if w.calls == nil {
		w.calls = make(map[frame.ID]*PeerCall)
	}
	w.calls[c.ID()] = c
	w.hasCalls.Store(true)
	l.calls[c.ID()] = c
	l.hasCalls.Store(true)
	return nil
}

// callEnded forgets a call; late frames of it are stragglers.
func (w *wireRequest) callEnded(c *PeerCall) {
	l := w.link
	l.mu.Lock()
	if l.calls[c.ID()] == c {
		delete(l.calls, c.ID())
		l.hasCalls.Store(len(l.calls) > 0)
		l.recent.Add(c.ID())
	}
	l.mu.Unlock()
}

// sweepCalls forgets ended calls, once as many have come together as are unfinished: a handler may make any number in its life.
func (w *wireRequest) sweepCalls() {
	w.mu.Lock()
	var over []*PeerCall
	if len(w.calls) >= w.sweepAt {
		for id, c := range w.calls {
			if c.over.Load() {
				over = append(over, c)
				delete(w.calls, id)
			}
		}
		w.sweepAt = minSweep + 2*len(w.calls)
	}
	w.mu.Unlock()
	for _, c := range over {
		c.join() // nothing of it waits for anything any more
	}
}

// minSweep is how many calls a request remembers before it forgets the ended ones.
const minSweep = 8

// openCalls lists the request's calls; some may have ended.
func (w *wireRequest) openCalls() []*PeerCall {
	if !w.hasCalls.Load() {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	calls := make([]*PeerCall, 0, len(w.calls))
	for _, c := range w.calls {
		calls = append(calls, c)
	}
	return calls
}

// endCalls ends what is unfinished of the calls of a handler that has returned. Goroutines that it left behind make no more.
func (w *wireRequest) endCalls() {
	w.mu.Lock()
	w.noCalls = true
	w.mu.Unlock()
	reason, cause := w.farewell()
	w.abandonCalls(cause, reason)
	w.joinCalls()
}

// abandonCalls cancels what is unfinished of the request's calls.
func (w *wireRequest) abandonCalls(cause error, reason failure.CancelReason) {
	for _, c := range w.openCalls() {
		c.Abandon(cause, reason)
	}
}

// joinCalls waits for the goroutines that feed the request's calls; the calls have ended.
func (w *wireRequest) joinCalls() {
	for _, c := range w.openCalls() {
		c.join()
	}
}

// BytesArg is one argument of [CallBytes].
type BytesArg struct {
	MediaURN string
	Value    []byte
	Meta     frame.Meta // of the stream; nil for none
}

// CallBytes calls capURN with one scalar stream per argument, and returns the answer for reading while the arguments are fed in the
// background. An argument that cannot be sent fails the answer.
func CallBytes(ctx context.Context, p PeerInvoker, capURN string, args ...BytesArg) (*PeerResponse, error) {
	c, err := p.Call(ctx, capURN)
	if err != nil {
		return nil, err
	}
	c.feeding(func() { // ends with the call; joined before the request's terminal
		if err := c.feed(args); err != nil {
			c.Abandon(fmt.Errorf("peer call: %w", err), failure.HostAbort(failure.Internal, "an argument could not be sent"))
		}
	})
	return c.Response(), nil
}

// feed sends arguments one after the other and ends the body.
func (c *PeerCall) feed(args []BytesArg) error {
	for _, a := range args {
		out := c.Arg(a.MediaURN)
		if a.Meta != nil {
			if err := out.Start(WithMeta(a.Meta)); err != nil {
				return err
			}
		}
		if _, err := out.Write(a.Value); err != nil {
			return err
		}
		if err := out.Close(c.ctx); err != nil {
			return err
		}
	}
	return c.Finish(c.ctx)
}
