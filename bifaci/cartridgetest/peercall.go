package cartridgetest

import (
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// PeerCall is a request that the cartridge sends: a handler calls another capability, and the test plays its callee.
type PeerCall struct {
	dialogue
	cap string
}

// WantPeerCall waits for the next REQ of the cartridge.
func (h *Host) WantPeerCall(capURN string) (p *PeerCall) {
	h.t.Helper()
	h.await("a peer call of "+capURN, func() bool {
		if h.taken == len(h.calls) {
			return false
		}
		p = h.calls[h.taken]
		h.taken++
		return true
	})
	if p.cap != capURN {
		h.t.Fatalf("cartridgetest: the cartridge calls %s, want %s", p.cap, capURN)
	}
	return p
}

// ID is the call's request id.
func (p *PeerCall) ID() frame.ID { return p.id }

// Req is the frame that opened the call.
func (p *PeerCall) Req() Frame { return p.in.first }

// Frames are the frames of the call so far, behind REQ and without CREDIT. It does not wait.
func (p *PeerCall) Frames() []Frame {
	p.h.mu.Lock()
	defer p.h.mu.Unlock()
	return append([]Frame(nil), p.in.frames...)
}

// Parent is the request on whose behalf the call is made.
func (p *PeerCall) Parent() frame.ID { return idOf(p.in.first.Meta()["parent_rid"]) }

// WantStream waits for the next argument stream.
func (p *PeerCall) WantStream() Answer {
	p.h.t.Helper()
	return p.wantStream()
}

// WantItems waits for the next items of the arguments, as [Request.WantItems] does.
func (p *PeerCall) WantItems(want ...any) *PeerCall {
	p.h.t.Helper()
	p.wantItems(want)
	return p
}

// WantBody waits for the end of the arguments and makes sure that no item is left over.
func (p *PeerCall) WantBody() *PeerCall {
	p.h.t.Helper()
	p.wantEnd(false)
	return p
}

// WantCancel waits for CANCEL and returns its reason.
func (p *PeerCall) WantCancel() failure.CancelReason {
	p.h.t.Helper()
	var f Frame
	p.h.awaitOf(&p.dialogue, "CANCEL", func() bool {
		f = p.in.cancel
		return f != nil
	})
	text := func(key string) string { s, _ := f.Meta()[key].(string); return s }
	return failure.CancelReason{Code: text("code"), Class: failure.Class(text("attribution_class")),
		Message: text("message"), ForceKill: f.Flag(frame.KeyForceKill)}
}

// Stream starts a named stream of the answer.
func (p *PeerCall) Stream(id, mediaURN string, opts ...StreamOption) *Stream {
	p.h.t.Helper()
	return p.open(id, mediaURN, opts)
}

// Chunk sends data as one byte string of the answer. It waits for credit.
func (p *PeerCall) Chunk(data string) *PeerCall {
	p.h.t.Helper()
	p.only("media:").Chunk(data)
	return p
}

// Log sends a LOG.
func (p *PeerCall) Log(level string, class failure.Class, message string) *PeerCall {
	p.h.t.Helper()
	p.send(LogFrame(level, class, message), false)
	return p
}

// End ends the streams that are open, and the answer with success.
func (p *PeerCall) End() *PeerCall {
	p.h.t.Helper()
	p.closeStreams()
	p.send(EndFrame(true), false)
	return p
}

// Fail ends the answer with ERR.
func (p *PeerCall) Fail(code string, class failure.Class, message string) *PeerCall {
	p.h.t.Helper()
	p.send(ErrFrame(code, class, message), false)
	return p
}

// Grant grants n chunks of the arguments, on the stream that was started last.
func (p *PeerCall) Grant(n uint64) *PeerCall {
	p.h.t.Helper()
	p.grant(n)
	return p
}

// GrantStream grants n chunks of one argument stream.
func (p *PeerCall) GrantStream(stream string, n uint64) *PeerCall {
	p.h.t.Helper()
	p.grantStream(stream, n)
	return p
}

// Send sends frames that may break the rules; see [Request.Send].
func (p *PeerCall) Send(frames ...Frame) *PeerCall {
	p.h.t.Helper()
	p.force(frames)
	return p
}
