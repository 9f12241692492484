package host

import (
	"context"
	"errors"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Call is one request of the host's. Arguments, Finish and Response are those of [bifaci.PeerCall]; they may be used at the
// same time.
type Call struct {
	*bifaci.PeerCall
	conn *Conn
	stop func() bool // of the watch on the caller's context
}

// Call sends a REQ for capURN. When ctx ends before the answer has, the request is cancelled without attribution. The
// caller must read the answer to its end, or cancel, or close it; otherwise the request lives on.
func (c *Conn) Call(ctx context.Context, capURN string) (*Call, error) {
	select {
	case <-c.policySent:
	default:
		select { // nothing is routed before the first policy
		case <-c.policySent:
		case <-c.readEnd:
			return nil, c.Err()
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	c.mu.Lock()
	if c.err != nil {
		err := c.err
		c.mu.Unlock()
		return nil, err
	}
	c.xid++
	xid := frame.UintID(c.xid)
	c.mu.Unlock()
	call := &Call{conn: c}
	peer, err := bifaci.NewCall(context.WithoutCancel(ctx), capURN, bifaci.CallConfig{Link: &c.link, Routing: xid, Ended: call.ended})
	if err != nil {
		return nil, err
	}
	call.PeerCall = peer
	c.mu.Lock()
	if err = c.err; err == nil {
		c.calls[peer.ID()] = call
	}
	c.mu.Unlock()
	if err != nil {
		call.Lost(err)
		return nil, err
	}
	if err := peer.Open(); err != nil {
		call.Lost(err)
		return nil, err
	}
	stop := context.AfterFunc(ctx, func() {
		call.Abandon(context.Cause(ctx), failure.Unattributed())
	})
	c.mu.Lock()
	call.stop = stop
	over := c.calls[peer.ID()] != call
	c.mu.Unlock()
	if over {
		stop()
	}
	return call, nil
}

// ended takes the call out of the table.
func (call *Call) ended(*bifaci.PeerCall) {
	c := call.conn
	c.mu.Lock()
	delete(c.calls, call.ID())
	c.recent.Add(call.ID())
	stop := call.stop
	c.mu.Unlock()
	if stop != nil {
		stop()
	}
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
	fed := make(chan error, 1)
	go func() { fed <- feed(ctx, call, args) }() // ends with the call; waited for below
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
