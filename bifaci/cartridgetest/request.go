package cartridgetest

import (
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// Request is one request of the host. Methods that send return the request, so that a test reads as a dialogue.
type Request struct {
	dialogue
	media string // of a stream that the test does not name
}

// RequestOption is how a request is made.
type RequestOption func(*Request)

// WithID gives the request an id of the test's choice; the default is a fresh uuid.
func WithID(id frame.ID) RequestOption { return func(r *Request) { r.id = id } }

// WithRouting gives the request a routing id of the test's choice, the zero ID for none; the default is the next integer.
func WithRouting(id frame.ID) RequestOption { return func(r *Request) { r.routing = id } }

// Request sends a REQ.
func (h *Host) Request(capURN string, opts ...RequestOption) *Request {
	h.t.Helper()
	r := h.newRequest(opts)
	if c, err := urn.ParseCap(capURN); err == nil {
		r.media = c.In().String()
	}
	r.send(ReqFrame(capURN), false)
	return r
}

// RequestFrame sends a REQ that may break the rules. What the host sends for it is not judged.
func (h *Host) RequestFrame(f Frame, opts ...RequestOption) *Request {
	h.t.Helper()
	r := h.newRequest(opts)
	r.force([]Frame{f})
	return r
}

// Unsent is a request that the host knows and has not sent: for frames of an id that the cartridge does not know.
func (h *Host) Unsent(opts ...RequestOption) *Request { return h.newRequest(opts) }

func (h *Host) newRequest(opts []RequestOption) *Request {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.xid++
	r := &Request{dialogue: dialogue{h: h, id: frame.NewUUID(), routing: frame.UintID(h.xid), in: newIncoming(nil)}, media: "media:"}
	if h.opts.unrouted {
		r.routing = frame.ID{}
	}
	for _, opt := range opts {
		opt(r)
	}
	h.requests[r.id] = &r.dialogue
	h.order = append(h.order, &r.dialogue)
	return r
}

// ID is the request's id.
func (r *Request) ID() frame.ID { return r.id }

// Stream starts a named stream of the body.
func (r *Request) Stream(id, mediaURN string, opts ...StreamOption) *Stream {
	r.h.t.Helper()
	return r.open(id, mediaURN, opts)
}

// Chunk sends data as one byte string on the stream that was started last; without one it starts a bounded scalar stream that is
// labelled with the cap's input. It waits for credit.
func (r *Request) Chunk(data string) *Request {
	r.h.t.Helper()
	r.only(r.media).Chunk(data)
	return r
}

// Item sends one value as [Stream.Item] does on the stream that was started last; without one it starts a bounded sequence.
func (r *Request) Item(v any) *Request {
	r.h.t.Helper()
	r.only(r.media, Sequence).Item(v, nil)
	return r
}

// End ends the streams that are open, and the body.
func (r *Request) End() *Request {
	r.h.t.Helper()
	r.closeStreams()
	r.send(EndFrame(false), false)
	return r
}

// Fail ends the body with ERR.
func (r *Request) Fail(code string, class failure.Class, message string) *Request {
	r.h.t.Helper()
	r.send(ErrFrame(code, class, message), false)
	return r
}

// Cancel sends CANCEL.
func (r *Request) Cancel(reason failure.CancelReason) *Request {
	r.h.t.Helper()
	r.send(CancelFrame(reason), false)
	return r
}

// CloseFeeds sends CLOSE_STREAM for the live feed of a reference stream, or of all when stream is empty.
func (r *Request) CloseFeeds(stream string) *Request {
	r.h.t.Helper()
	r.send(CloseStreamFrame(stream), false)
	return r
}

// Grant grants n chunks of the answer, on the stream that was started last, or without naming one when there is none yet.
func (r *Request) Grant(n uint64) *Request {
	r.h.t.Helper()
	r.grant(n)
	return r
}

// GrantStream grants n chunks of one stream of the answer.
func (r *Request) GrantStream(stream string, n uint64) *Request {
	r.h.t.Helper()
	r.grantStream(stream, n)
	return r
}

// Send sends frames that may break the rules: ids and seq are filled in where they are missing, and nothing else is done for
// them. What the host sends for this request is not judged any more.
func (r *Request) Send(frames ...Frame) *Request {
	r.h.t.Helper()
	r.force(frames)
	return r
}

// WantStream waits for the next stream of the answer.
func (r *Request) WantStream() Answer {
	r.h.t.Helper()
	return r.wantStream()
}

// WantItems waits for the next items of the answer and compares them. A string stands for a byte string or a text of that content,
// anything else for its CBOR value.
func (r *Request) WantItems(want ...any) *Request {
	r.h.t.Helper()
	r.wantItems(want)
	return r
}

// WantBytes waits for the rest of the answer's items up to its terminal and compares their joined bytes.
func (r *Request) WantBytes(want string) *Request {
	r.h.t.Helper()
	if got := r.Collect(); got != want {
		r.h.t.Fatalf("cartridgetest: the answer of request %s has %d bytes %.200q, want %d bytes %.200q", short(r.id), len(got), got,
			len(want), want)
	}
	return r
}

// Collect waits for the terminal and returns the joined bytes of the items that no other call has taken.
func (r *Request) Collect() string {
	r.h.t.Helper()
	r.awaitTerminal()
	return r.rest()
}

// WantLog waits for the next LOG of the level, skipping others, and returns its meta.
func (r *Request) WantLog(level string) map[string]any {
	r.h.t.Helper()
	return r.wantLog(level)
}

// WantEnd waits for END with exit_code 0 and makes sure that no item of the answer is left over. It returns END's meta.
func (r *Request) WantEnd() map[string]any {
	r.h.t.Helper()
	return r.wantEnd(true)
}

// WantErr waits for ERR and compares code and class. Items that came before it do not matter. It returns what ERR says.
func (r *Request) WantErr(code string, class failure.Class) *failure.Failure {
	r.h.t.Helper()
	f := r.awaitTerminal()
	got := f.Failure()
	if f.Type() != frame.TypeErr || got.Code != code || got.Class != class {
		r.h.t.Fatalf("cartridgetest: request %s ended with %s, want ERR %s/%s", short(r.id), f, code, class)
	}
	return got
}

// WantGrants waits for the next grants for a stream of the body, and compares them one by one. An empty want waits for none.
func (r *Request) WantGrants(stream string, want ...uint64) *Request {
	r.h.t.Helper()
	r.wantGrants(stream, want)
	return r
}

// WantGranted waits until the cartridge has granted n chunks of a stream, in whatever pieces, since the last WantGrants.
func (r *Request) WantGranted(stream string, n uint64) *Request {
	r.h.t.Helper()
	var got uint64
	r.h.awaitOf(&r.dialogue, fmt.Sprintf("grants of %d for stream %s", n, stream), func() bool {
		got = 0
		for _, g := range r.in.grants[stream] {
			got += g
		}
		return got >= n
	})
	if got > n {
		r.h.t.Fatalf("cartridgetest: %d chunks of stream %s were granted, want %d", got, stream, n)
	}
	r.h.mu.Lock()
	r.in.grants[stream] = nil
	r.h.mu.Unlock()
	return r
}

// Frames are the frames of the answer so far, without CREDIT. It does not wait.
func (r *Request) Frames() []Frame {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	return append([]Frame(nil), r.in.frames...)
}

// Grants are the grants for a stream of the body that no Want has taken yet. It does not wait.
func (r *Request) Grants(stream string) []uint64 {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	return append([]uint64(nil), r.in.grants[stream]...)
}

// Terminal is the END or ERR of the answer, nil before it came. It does not wait.
func (r *Request) Terminal() Frame {
	r.h.mu.Lock()
	defer r.h.mu.Unlock()
	return r.in.terminal
}
