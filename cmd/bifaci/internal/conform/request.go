package conform

import (
	"bytes"
	"fmt"
	"slices"
)

// request is one request of the host's. What the cartridge answers is collected as it comes, and each CHUNK is granted back at once
// unless the request is thrifty.
type request struct {
	s       *session
	id      any
	routing any // nil for none
	thrifty bool
	served  bool // the cartridge is the caller: its END ends the body only
	seq     uint64

	// Guarded by s.mu.
	got      []frame // everything with this id
	credit   map[string]uint64
	granted  map[string]uint64
	terminal frame
}

// requestOption changes how a request is sent.
type requestOption func(*request)

// withRouting sets the routing id; nil leaves it out. The default is a number of the session's own.
func withRouting(id any) requestOption { return func(r *request) { r.routing = id } }

func withID(id any) requestOption { return func(r *request) { r.id = id } }

// thrifty grants nothing back.
func thrifty(r *request) { r.thrifty = true }

// newRequest is a request of which nothing was sent yet.
func (s *session) newRequest(opts ...requestOption) *request {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.xid++
	r := &request{s: s, id: newUUID(), routing: s.xid, credit: map[string]uint64{}, granted: map[string]uint64{}}
	for _, opt := range opts {
		opt(r)
	}
	s.requests[idKey(r.id)] = r
	return r
}

// request sends a REQ.
func (s *session) request(capURN string, opts ...requestOption) *request {
	r := s.newRequest(opts...)
	r.send(reqFrame(capURN))
	return r
}

// call sends a whole request with one scalar argument.
func (s *session) call(capURN string, argument []byte, opts ...requestOption) *request {
	r := s.newRequest(opts...)
	r.send(reqFrame(capURN), startFrame("arg", inMedia(capURN)), chunkFrame("arg", 0, cborOf(argument)), streamEndFrame("arg", 1), endFrame())
	return r
}

// send sends frames of the request, in one piece, with its ids and, on flow frames, the next seq.
func (r *request) send(frames ...frame) {
	for i, f := range frames {
		frames[i] = r.addressed(f)
	}
	r.s.send(frames...)
}

func (r *request) addressed(f frame) frame {
	f = f.with(xID, r.id)
	if r.routing != nil {
		f[xRoutingID] = r.routing
	}
	if f.kind().flow() {
		f[xSeq] = r.seq
		r.seq++
	}
	return f
}

// take sorts a frame of the cartridge's in; s.mu is held.
func (r *request) take(f frame) {
	r.got = append(r.got, f)
	switch k := f.kind(); {
	case k == kCredit:
		r.credit[f.stream()] += f.uint(xCredit)
		r.granted[f.stream()] += f.uint(xCredit)
	case k == kChunk && !r.thrifty:
		grant := creditFrame("response", f.stream(), 1).with(xID, r.id)
		if r.routing != nil {
			grant[xRoutingID] = r.routing
		}
		w := grant.encode()
		r.s.events = append(r.s.events, event{fromHost: true, frame: grant, wire: w})
		r.s.queue(w)
	case k.terminal() && r.terminal == nil && !r.served:
		r.terminal = f
	}
}

func (r *request) String() string { return "request " + shortID(r.id) }

// await waits for something of this request. Nothing comes behind the terminal.
func (r *request) await(what string, ready func() bool) {
	came := false
	r.s.await(fmt.Sprintf("%s (%s)", what, r), func() bool {
		came = ready()
		return came || r.terminal != nil
	})
	r.s.t.ensure(came, r.terminal, fmt.Sprintf("%s (%s)", what, r), "the request ended before")
}

// all is what came for the request so far, of some kinds or of any.
func (r *request) all(kinds ...kind) (found []frame) {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.allLocked(kinds)
}

func (r *request) allLocked(kinds []kind) (found []frame) {
	for _, f := range r.got {
		if len(kinds) == 0 || slices.Contains(kinds, f.kind()) {
			found = append(found, f)
		}
	}
	return found
}

// first waits for the first frame of a kind.
func (r *request) first(k kind) (f frame) { return r.nth(k, 1) }

// nth waits until n frames of a kind have come and returns the last of these.
func (r *request) nth(k kind, n int) (f frame) {
	r.await(fmt.Sprintf("%d %s", n, k), func() bool {
		if all := r.allLocked([]kind{k}); len(all) >= n {
			f = all[n-1]
			return true
		}
		return false
	})
	return f
}

// log waits for a LOG of a level.
func (r *request) log(level string) (f frame) {
	r.await("LOG "+level, func() bool {
		for _, g := range r.allLocked([]kind{kLog}) {
			if g.metaText("level") == level {
				f = g
				return true
			}
		}
		return false
	})
	return f
}

// over is the terminal, nil when it has not come yet.
func (r *request) over() frame {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	return r.terminal
}

// end waits for the terminal.
func (r *request) end() (f frame) {
	r.await("END or ERR", func() bool { f = r.terminal; return f != nil })
	return f
}

// wantEnd waits for the terminal, which must be an END of success.
func (r *request) wantEnd() frame {
	f := r.end()
	code, ok := f.meta()["exit_code"].(uint64)
	r.s.t.ensure(f.kind() == kEnd && ok && code == 0, f, fmt.Sprintf("END with exit_code 0 (%s)", r), "the terminal is another")
	return f
}

// wantErr waits for the terminal, which must be an ERR of this code and class, with a message.
func (r *request) wantErr(code, class string) frame {
	f := r.end()
	r.s.t.ensure(f.is(kErr, code, class) && f.message() != "", f, fmt.Sprintf("ERR %s/%s with a message (%s)", code, class, r),
		"the terminal is another")
	return f
}

// answer is the content of the scalar answer so far.
func (r *request) answer() (all []byte) {
	for _, f := range r.all(kChunk) {
		b, err := content(f.payload())
		r.s.t.ensure(err == nil, f, "a payload that is one CBOR byte string or text", "%v", err)
		all = append(all, b...)
	}
	return all
}

// wantAnswer waits for the END and compares the content of the scalar answer.
func (r *request) wantAnswer(want []byte) {
	r.wantEnd()
	if got := r.answer(); !bytes.Equal(got, want) {
		r.s.t.fail(fmt.Sprintf("the answer of %s is %d bytes %.32x", r, len(want), want), "%d bytes %.32x", len(got), got)
	}
}

// chunks waits until n CHUNKs of the answer have come in all.
func (r *request) chunks(n int) { r.nth(kChunk, n) }

// grant grants chunks of the answer's stream, for whose start it waits.
func (r *request) grant(n uint64) {
	r.send(creditFrame("response", r.first(kStreamStart).stream(), n))
}

// cancel sends a CANCEL.
func (r *request) cancel(code, class, message string) { r.send(cancelFrame(code, class, message)) }

// argument is one argument stream.
type argument struct {
	r    *request
	id   string
	sent uint64
}

// open starts a bounded scalar argument stream; edit may change the STREAM_START.
func (r *request) open(id, mediaURN string, edit ...func(frame)) *argument {
	f := startFrame(id, mediaURN)
	for _, e := range edit {
		e(f)
	}
	r.s.mu.Lock()
	r.credit[id] += r.s.agreed.credit
	r.s.mu.Unlock()
	r.send(f)
	return &argument{r: r, id: id}
}

func sequence(f frame)  { f[xIsSequence] = true }
func unbounded(f frame) { f[xUnbounded] = true }

// chunk makes the next CHUNK without sending it.
func (a *argument) chunk(payload []byte) frame {
	a.r.s.mu.Lock()
	a.r.credit[a.id] -= min(1, a.r.credit[a.id])
	a.r.s.mu.Unlock()
	f := chunkFrame(a.id, a.sent, payload)
	a.sent++
	return f
}

// force sends a CHUNK without looking at the credit.
func (a *argument) force(payload []byte) { a.r.send(a.chunk(payload)) }

// give sends a CHUNK when there is credit, or nothing when the answer has ended.
func (a *argument) give(payload []byte) {
	over := false
	a.r.s.await(fmt.Sprintf("credit for chunk %d of stream %s (%s)", a.sent, a.id, a.r), func() bool {
		over = a.r.terminal != nil
		return over || a.r.credit[a.id] > 0
	})
	if !over {
		a.force(payload)
	}
}

// end ends the stream.
func (a *argument) end() { a.r.send(streamEndFrame(a.id, a.sent)) }

// finish ends the stream and the body.
func (a *argument) finish() { a.r.send(streamEndFrame(a.id, a.sent), endFrame()) }

// granted is how many chunks were granted beyond the window.
func (a *argument) granted() uint64 {
	a.r.s.mu.Lock()
	defer a.r.s.mu.Unlock()
	return a.r.granted[a.id]
}

// awaitGranted waits until n chunks were granted beyond the window.
func (a *argument) awaitGranted(n uint64) {
	a.r.await(fmt.Sprintf("%d chunks granted on stream %s", n, a.id), func() bool { return a.r.granted[a.id] >= n })
}
