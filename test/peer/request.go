package peer

import (
	"fmt"
	"time"
)

// Request is one request of the host's. What the cartridge answers is collected as it comes.
type Request struct {
	l       *Link
	id      any
	routing any // nil for none
	seq     uint64

	// Guarded by l.mu.
	frames   []Frame // of the answer, but for CREDIT
	streams  []*Stream
	owed     map[string]uint64 // chunks that came and were not granted back
	chunks   uint64
	each     func(content []byte)
	terminal Frame
}

// RequestOption changes how a request is sent.
type RequestOption func(*Request)

// WithRouting sets the routing id: uint64 or 16 bytes; nil leaves it out. The default is a number of the link's own.
func WithRouting(id any) RequestOption { return func(r *Request) { r.routing = id } }

// WithID sets the request id: uint64 or 16 bytes. The default is a fresh uuid.
func WithID(id any) RequestOption { return func(r *Request) { r.id = id } }

// OnContent hands the content of every CHUNK of a scalar answer to f, on the goroutine that reads, instead of keeping the frames.
func OnContent(f func(content []byte)) RequestOption { return func(r *Request) { r.each = f } }

// Request sends a REQ.
func (l *Link) Request(capURN string, opts ...RequestOption) *Request {
	l.t.Helper()
	l.mu.Lock()
	l.xid++
	r := &Request{l: l, id: NewUUID(), routing: l.xid, owed: map[string]uint64{}}
	for _, opt := range opts {
		opt(r)
	}
	l.requests[IDKey(r.id)] = r
	l.mu.Unlock()
	r.Send(ReqFrame(capURN))
	return r
}

// ID is the request's id.
func (r *Request) ID() any { return r.id }

// Routing is the request's routing id, or nil.
func (r *Request) Routing() any { return r.routing }

// Send sends a frame of the request, with its ids and, on a flow frame, the next seq.
func (r *Request) Send(f Frame) { r.l.t.Helper(); r.l.Send(r.addressed(f)) }

func (r *Request) addressed(f Frame) Frame {
	f = f.With(KeyID, r.id)
	if r.routing != nil {
		f[KeyRoutingID] = r.routing
	}
	if f.Type().IsFlow() {
		f[KeySeq] = r.seq
		r.seq++
	}
	return f
}

// take sorts a frame of the answer in and grants what it earns; l.mu is held.
func (r *Request) take(f Frame) {
	switch f.Type() {
	case TypeCredit:
		for _, s := range r.streams {
			if s.id == f.Stream() {
				s.credit += f.Uint(KeyCredit)
				s.granted += f.Uint(KeyCredit)
			}
		}
		return
	case TypeChunk:
		r.chunks++
		r.earn(f.Stream())
		if r.each != nil {
			content, err := Content(f.Payload())
			if err != nil {
				r.l.t.Errorf("peer: %s: %v", f, err)
			}
			r.each(content)
			return
		}
	case TypeEnd, TypeErr:
		r.terminal = f
	}
	r.frames = append(r.frames, f)
}

// earn grants half a window back when that much has come; l.mu is held.
func (r *Request) earn(stream string) {
	r.owed[stream]++
	if r.l.opts.manual || r.owed[stream] < max(1, r.l.limits.InitialCredit/2) {
		return
	}
	grant := r.control(CreditFrame("response", stream, r.owed[stream]))
	r.owed[stream] = 0
	r.l.remember("h2c", grant)
	r.l.queue(grant.Encode())
}

// control gives a control frame its ids.
func (r *Request) control(f Frame) Frame {
	f[KeyID] = r.id
	if r.routing != nil {
		f[KeyRoutingID] = r.routing
	}
	return f
}

// Grant grants chunks of the answer's last stream, which it waits for.
func (r *Request) Grant(n uint64) {
	r.l.t.Helper()
	r.Send(CreditFrame("response", r.AnswerStream().Stream(), n))
}

// AnswerStream waits for the STREAM_START of the answer and returns it.
func (r *Request) AnswerStream() (start Frame) {
	r.l.t.Helper()
	r.await("the STREAM_START of the answer", func() bool {
		for _, f := range r.frames {
			if f.Type() == TypeStreamStart {
				start = f
			}
		}
		return start != nil
	})
	return start
}

// Cancel sends a CANCEL; without a code it is unattributed.
func (r *Request) Cancel(code, class, message string) {
	r.l.t.Helper()
	r.Send(CancelFrame(code, class, message))
}

// End ends the body.
func (r *Request) End() { r.l.t.Helper(); r.Send(EndFrame()) }

// Give sends a body of one scalar stream, cut at max_chunk, and ends it.
func (r *Request) Give(mediaURN string, content []byte) {
	r.l.t.Helper()
	s := r.Open("arg0", mediaURN)
	s.Content(content)
	s.End()
	r.End()
}

// Forget drops the request; frames that still come for it are unclaimed.
func (r *Request) Forget() {
	r.l.mu.Lock()
	delete(r.l.requests, IDKey(r.id))
	r.l.mu.Unlock()
}

func (r *Request) await(what string, ready func() bool) {
	r.l.t.Helper()
	r.l.await(fmt.Sprintf("%s (request %s)", what, IDKey(r.id)), ready)
}

// AwaitChunks waits until n CHUNKs of the answer have come in all.
func (r *Request) AwaitChunks(n uint64) {
	r.l.t.Helper()
	r.await(fmt.Sprintf("%d chunks of the answer", n), func() bool { return r.chunks >= n })
}

// Chunks is how many CHUNKs of the answer have come.
func (r *Request) Chunks() uint64 {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return r.chunks
}

// AwaitTerminal waits for END or ERR.
func (r *Request) AwaitTerminal() (f Frame) {
	r.l.t.Helper()
	r.await("END or ERR", func() bool { f = r.terminal; return f != nil })
	return f
}

// TerminalWithin waits for END or ERR for the given time only; nil means that there was none.
func (r *Request) TerminalWithin(d time.Duration) (f Frame) {
	r.l.awaitWithin(d, func() bool { f = r.terminal; return f != nil })
	return f
}

// WantEnd waits for the terminal, which must be an END of success.
func (r *Request) WantEnd() Frame {
	r.l.t.Helper()
	f := r.AwaitTerminal()
	code, ok := f.Meta()["exit_code"].(uint64)
	if f.Type() != TypeEnd || !ok || code != 0 {
		r.l.fatal(fmt.Sprintf("END with exit_code 0 (request %s)", IDKey(r.id)), "it ended with "+f.String())
	}
	return f
}

// WantErr waits for the terminal, which must be an ERR of this code and class.
func (r *Request) WantErr(code, class string) Frame {
	r.l.t.Helper()
	f := r.AwaitTerminal()
	if f.Type() != TypeErr || f.Code() != code || f.Class() != class || f.Message() == "" {
		r.l.fatal(fmt.Sprintf("ERR %s/%s (request %s)", code, class, IDKey(r.id)), "it ended with "+f.String())
	}
	return f
}

// Frames are the frames of the answer so far, but for CREDIT.
func (r *Request) Frames() []Frame {
	r.l.mu.Lock()
	defer r.l.mu.Unlock()
	return append([]Frame(nil), r.frames...)
}

// Logs are the LOG frames so far.
func (r *Request) Logs() (logs []Frame) {
	for _, f := range r.Frames() {
		if f.Type() == TypeLog {
			logs = append(logs, f)
		}
	}
	return logs
}

// Content is the content of the answer so far, a scalar stream.
func (r *Request) Content() (all []byte) {
	r.l.t.Helper()
	for _, f := range r.Frames() {
		if f.Type() != TypeChunk {
			continue
		}
		content, err := Content(f.Payload())
		if err != nil {
			r.l.t.Fatalf("peer: %s: %v", f, err)
		}
		all = append(all, content...)
	}
	return all
}

// Stream is one argument stream.
type Stream struct {
	r         *Request
	id        string
	unbounded bool
	sent      uint64

	credit, granted uint64 // guarded by r.l.mu
}

// StreamOption changes how a stream is started.
type StreamOption func(*Stream, Frame)

// Sequence starts a stream of items.
func Sequence(_ *Stream, f Frame) { f[KeyIsSequence] = true }

// Unbounded starts a stream without a promise of length.
func Unbounded(s *Stream, f Frame) { s.unbounded, f[KeyUnbounded] = true, true }

// Open starts an argument stream.
func (r *Request) Open(id, mediaURN string, opts ...StreamOption) *Stream {
	r.l.t.Helper()
	s := &Stream{r: r, id: id}
	f := StartFrame(id, mediaURN)
	for _, opt := range opts {
		opt(s, f)
	}
	r.l.mu.Lock()
	s.credit = r.l.limits.InitialCredit
	r.streams = append(r.streams, s)
	r.l.mu.Unlock()
	r.Send(f)
	return s
}

// Content sends bytes as byte strings, cut at max_chunk. It waits for credit. Nothing to send is one empty chunk.
func (s *Stream) Content(content []byte) {
	s.r.l.t.Helper()
	limit := int(s.r.l.Limits().MaxChunk)
	for first := true; first || len(content) > 0; first = false {
		n := min(limit, len(content))
		s.Payload(Value(content[:n]))
		content = content[n:]
	}
}

// Payload sends one CHUNK. It waits for credit, or for the end of the answer, after which nothing is sent any more.
func (s *Stream) Payload(payload []byte) {
	s.r.l.t.Helper()
	if s.awaitCredit() {
		s.Force(payload)
	}
}

// awaitCredit reports whether there is credit; otherwise the answer has ended.
func (s *Stream) awaitCredit() (ok bool) {
	s.r.l.t.Helper()
	s.r.await(fmt.Sprintf("credit for chunk %d of stream %s", s.sent, s.id), func() bool {
		ok = s.r.terminal == nil && s.credit > 0
		return ok || s.r.terminal != nil
	})
	return ok
}

// Force sends one CHUNK without looking at the credit.
func (s *Stream) Force(payload []byte) {
	s.r.l.t.Helper()
	s.force(ChunkFrame(s.id, s.sent, payload))
}

func (s *Stream) force(chunk Frame) {
	s.r.l.t.Helper()
	s.r.l.mu.Lock()
	s.credit -= min(1, s.credit)
	s.r.l.mu.Unlock()
	s.r.Send(chunk)
	s.sent++
}

// Wire sends one CHUNK whose bytes were changed by edit, without looking at the credit.
func (s *Stream) Wire(edit func(wire []byte), payload []byte) {
	s.r.l.t.Helper()
	s.r.l.mu.Lock()
	s.credit -= min(1, s.credit)
	s.r.l.mu.Unlock()
	wire := s.r.addressed(ChunkFrame(s.id, s.sent, payload)).Encode()
	edit(wire)
	s.r.l.SendWire(wire)
	s.sent++
}

// Repeat sends the same payload n times, hashed once. It waits for credit, or for the end of the answer.
func (s *Stream) Repeat(payload []byte, n int) {
	s.r.l.t.Helper()
	chunk := ChunkFrame(s.id, 0, payload)
	for range n {
		if !s.awaitCredit() {
			return
		}
		s.force(chunk.With(KeyChunkIndex, s.sent))
	}
}

// End ends the stream; it says how many chunks there were unless the stream is unbounded.
func (s *Stream) End() {
	s.r.l.t.Helper()
	f := StreamEndFrame(s.id, s.sent)
	if s.unbounded {
		delete(f, KeyChunkCount)
	}
	s.r.Send(f)
}

// AwaitGranted waits until n chunks were granted in all.
func (s *Stream) AwaitGranted(n uint64) {
	s.r.l.t.Helper()
	s.r.await(fmt.Sprintf("%d chunks granted on stream %s", n, s.id), func() bool { return s.granted >= n })
}

// Granted is how many chunks were granted beyond the window.
func (s *Stream) Granted() uint64 {
	s.r.l.mu.Lock()
	defer s.r.l.mu.Unlock()
	return s.granted
}

// Sent is how many CHUNKs were sent.
func (s *Stream) Sent() uint64 { return s.sent }
