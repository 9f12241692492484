package conform

import "fmt"

func cancelChecks() []check {
	return []check{
		{id: "cancel-words", rule: "wire 11.1",
			title: "the terminal of a cancelled request has the code, class and words of the reason, whatever was going on", run: cancelWords},
		{id: "cancel-waiting", rule: "R-8.10", title: "a waiting request is cancelled at once, in the words of the reason", run: cancelWaiting},
		{id: "cancel-blocked", rule: "R-8.25", title: "CANCEL ends a request that waits for credit or for input", run: cancelBlocked},
		{id: "cancel-once", rule: "R-8.5", title: "the first CANCEL counts, and there is one terminal", run: cancelOnce},
		{id: "cancel-after-handler", rule: "R-8.21",
			title: "the terminal waits for the handler: STREAM_END of an open answer comes first, with what was sent", run: cancelAfterHandler},
		{id: "cancel-cascade", rule: "R-7.40",
			title: "CANCEL of a request cancels its peer call for the same reason, and its own terminal comes after that",
			needs: []string{"peer"}, run: cancelCascade},
		{id: "cancel-force", rule: "wire 11.1", title: "force_kill is the host's affair: the cartridge treats it as a plain CANCEL",
			run: cancelForce},
		{id: "cancel-frees", rule: "R-5.15", title: "a cancelled request gives its place back, and whoever waits goes on", run: cancelFrees},
		{id: "close-stream-ignored", rule: "R-8.41", title: "CLOSE_STREAM without a live feed changes nothing", run: closeStreamIgnored},
	}
}

// reasons has every row of the table of terminals.
func reasons() []struct{ code, class, message, wantCode, wantClass, wantMessage string } {
	const collateral = "Request aborted as collateral of a failure elsewhere in the run"
	return []struct{ code, class, message, wantCode, wantClass, wantMessage string }{
		{"", "", "", "CANCELLED", "internal", "Request cancelled"},
		{"", "", "why", "CANCELLED", "internal", "Request cancelled: why"},
		{"CANCELLED", "user", "Cancelled by user", "CANCELLED", "user", "Cancelled by user"},
		{"CANCELLED", "user", "", "CANCELLED", "user", "Request cancelled (CANCELLED)"},
		{"ABORTED_COLLATERAL", "environment", "a neighbour died", "ABORTED_COLLATERAL", "environment", collateral + ": a neighbour died"},
		{"ABORTED_COLLATERAL", "resource", "", "ABORTED_COLLATERAL", "resource", collateral},
		{"ABORTED", "internal", "shutting down", "ABORTED", "internal", "Request aborted by the host: shutting down"},
		{"ABORTED", "", "", "ABORTED", "internal", "Request aborted by the host"},
		{"MADE_UP", "input", "words", "MADE_UP", "input", "MADE_UP: words"},
		{"MADE_UP", "no such class", "", "MADE_UP", "internal", "Request cancelled (MADE_UP)"},
		{"   ", "user", " ", "CANCELLED", "user", "Request cancelled"},
	}
}

func cancelWords(t *trial) {
	s := t.live(defaultLimits())
	for _, c := range reasons() {
		r := s.request(identityCap)
		r.open("s", "media:").give(x)
		r.chunks(1)
		r.cancel(c.code, c.class, c.message)
		f := r.wantErr(c.wantCode, c.wantClass)
		t.ensure(f.message() == c.wantMessage, f, fmt.Sprintf("the message %q", c.wantMessage), "%q", f.message())
	}
	s.goesOn()
}

func cancelWaiting(t *trial) {
	s, holder, held := t.occupied(defaultLimits())
	for _, c := range reasons() {
		r := s.call(identityCap, []byte("never"))
		r.log("queued")
		r.cancel(c.code, c.class, c.message)
		f := r.wantErr(c.wantCode, c.wantClass)
		t.ensure(f.message() == c.wantMessage, f, fmt.Sprintf("the message %q", c.wantMessage), "%q", f.message())
		t.ensure(len(r.all(kStreamStart, kChunk)) == 0, nil, "no answer of a request that never started", "a stream")
	}
	held.finish()
	holder.wantEnd()
	s.goesOn()
}

func cancelBlocked(t *trial) {
	s, r := t.blocked()
	r.cancel("CANCELLED", "user", "Cancelled by user")
	r.wantErr("CANCELLED", "user")
	for _, open := range []func(r *request){func(*request) {}, func(r *request) { r.open("s", "media:") },
		func(r *request) { r.open("s", "media:", unbounded, sequence) }} {
		r := s.request(identityCap)
		open(r)
		r.cancel("CANCELLED", "user", "Cancelled by user")
		r.wantErr("CANCELLED", "user")
	}
	s.goesOn()
}

func cancelOnce(t *trial) {
	s := t.live(defaultLimits())
	r := s.request(identityCap)
	r.open("s", "media:").give(x)
	r.chunks(1)
	r.send(cancelFrame("CANCELLED", "user", "the first"), cancelFrame("ABORTED", "internal", "the second"))
	f := r.wantErr("CANCELLED", "user")
	t.ensure(f.message() == "the first", f, `the message "the first"`, "%q", f.message())
	r.cancel("ABORTED", "internal", "the third")
	s.goesOn()
	t.ensure(len(r.all(kEnd, kErr)) == 1, nil, "one terminal", "%d", len(r.all(kEnd, kErr)))
}

func cancelAfterHandler(t *trial) {
	s := t.live(defaultLimits())
	r := s.request(identityCap)
	a := r.open("s", "media:")
	a.give(x)
	a.give(x)
	r.chunks(2)
	r.cancel("CANCELLED", "user", "Cancelled by user")
	r.wantErr("CANCELLED", "user")
	s.goesOn()
	ends := r.all(kStreamEnd)
	t.ensure(len(ends) == 1 && ends[0][xCount] == uint64(2), nil, "STREAM_END with chunk_count 2 before the ERR", "%v", ends)
	all := r.all(kStreamStart, kChunk, kStreamEnd, kEnd, kErr)
	t.ensure(all[len(all)-1].kind() == kErr, all[len(all)-1], "ERR as the last frame", "another")
}

func cancelForce(t *trial) {
	s := t.live(defaultLimits())
	r := s.request(identityCap)
	r.open("s", "media:")
	r.send(cancelFrame("CANCELLED", "user", "Cancelled by user").with(xForceKill, true))
	r.wantErr("CANCELLED", "user")
	s.goesOn()
}

func cancelFrees(t *trial) {
	s, holder, _ := t.occupied(defaultLimits())
	next := s.call(identityCap, []byte("next"))
	next.log("queued")
	holder.cancel("", "", "")
	holder.wantErr("CANCELLED", "internal")
	next.wantAnswer([]byte("next"))
	s.awaitIdle()
	s.goesOn()
}

func closeStreamIgnored(t *trial) {
	s := t.live(defaultLimits())
	r := s.request(identityCap)
	a := r.open("s", "media:", unbounded)
	a.give(x)
	r.chunks(1)
	r.send(closeFrame("s"), closeFrame(""), closeFrame("no such stream"))
	a.give(x)
	r.chunks(2)
	r.send(streamEndFrame("s", 0).without(xCount), closeFrame("s"), endFrame())
	r.wantAnswer([]byte("xx"))
	s.goesOn()
}

// callee is a peer call of the cartridge's, seen from the host that serves it. What the cartridge sent for it is collected.
func (s *session) callee() *request {
	req := s.awaitFrame("a REQ of the cartridge's", func(f frame) bool { return f.kind() == kReq })
	r := s.newRequest(withID(req[xID]), withRouting(uint64(99)), thrifty, func(r *request) { r.served = true })
	s.mu.Lock()
	defer s.mu.Unlock()
	r.got = nil
	for _, e := range s.events {
		if !e.fromHost && e.frame != nil && idKey(e.frame[xID]) == idKey(req[xID]) {
			r.take(e.frame)
		}
	}
	return r
}

func cancelCascade(t *trial) {
	s := t.live(defaultLimits())
	r := s.call(t.roles["peer"], []byte(nobodysCap))
	callee := s.callee()
	callee.first(kEnd)
	r.cancel("MADE_UP", "resource", "as the host likes")
	r.wantErr("MADE_UP", "resource")
	s.goesOn()
	cancels := callee.all(kCancel)
	t.ensure(len(cancels) == 1, nil, "one CANCEL for the peer call", "%d", len(cancels))
	c := cancels[0]
	t.ensure(c.code() == "MADE_UP" && c.class() == "resource" && c.message() == "as the host likes" && c[xForceKill] == false && !c.has(xRoutingID), c,
		"the same reason, force_kill false, no routing id", "another")
	for _, f := range s.frames() {
		if f.kind() == kCancel {
			return
		}
		t.ensure(!(f.kind() == kErr && idKey(f[xID]) == idKey(r.id)), f,
			"the CANCEL of the peer call before the ERR of the request", "the other order")
	}
}
