package conform

import (
	"bytes"
	"fmt"
	"strconv"
)

func answerChecks() []check {
	return []check{
		{id: "max-frame", rule: "R-6.39", title: "no frame exceeds a negotiated max_frame, whatever has to go into it", run: maxFrame},
		{id: "max-chunk", rule: "R-6.39", title: "data is cut at max_chunk raw bytes", needs: []string{"source"}, run: maxChunk},
		{id: "items-shape", rule: "R-6.41", title: "items are cut at max_chunk, and each begins on a frame of its own",
			needs: []string{"items"}, run: itemsShape},
		{id: "echo-borders", rule: "R-6.22", title: "items and their meta come through as they were sent", needs: []string{"echo"}, run: echoBorders},
		{id: "sink-counts", rule: "R-6.23", title: "every byte of every stream is read", needs: []string{"sink"}, run: sinkCounts},
		{id: "tokens-whole", rule: "R-6.37", title: "coalesced writes come whole and in order, up to the last",
			needs: []string{"tokens"}, run: tokensWhole},
		{id: "failure-identity", rule: "R-6.82", title: "a handler's failure keeps its code, class and message",
			needs: []string{"fail"}, run: failureIdentity},
		{id: "peer-call", rule: "R-7.1", title: "a peer call is a REQ with a fresh id, no routing id, parent_rid and an empty payload, then its arguments and END", needs: []string{"peer"}, run: peerCall},
		{id: "peer-answer", rule: "R-7.10",
			title: "the answer to a peer call is read, granted back in direction response, and passed on", needs: []string{"peer"}, run: peerAnswer},
		{id: "peer-failure", rule: "R-7.13", title: "a failed peer call keeps its identity", needs: []string{"peer"}, run: peerFailure},
		{id: "peer-answer-checked", rule: "R-7.14",
			title: "a fault in a peer's answer cancels the call with ABORTED/internal and fails the request, not the connection",
			needs: []string{"peer"}, run: peerAnswerChecked},
		{id: "peer-end-status", rule: "R-7.12", title: "an END without exit_code 0 is a failed peer call", needs: []string{"peer"},
			run: peerEndStatus},
	}
}

func maxFrame(t *trial) {
	small := defaultLimits()
	small.maxFrame = 2048
	s := t.live(small)
	r := s.request(identityCap, withRouting(nil))
	a := r.open("s", "media:")
	var want []byte
	for _, n := range []int{1, 1000, 1900, 1950, 1960} {
		piece := randomBytes(n)
		for len(chunkFrame("s", a.sent, cborOf(piece)).with(xID, r.id).with(xSeq, uint64(9)).encode())-4 > 2048 {
			piece = piece[1:]
		}
		want = append(want, piece...)
		a.give(cborOf(piece))
	}
	a.finish()
	r.wantAnswer(want)
	if name := t.roles["source"]; name != "" {
		s.call(name, []byte("10000")).wantEnd()
	}
	if name := t.roles["fail"]; name != "" {
		s.call(name, append([]byte("MADE_UP|input|"), bytes.Repeat([]byte("long "), 300)...)).wantErr("MADE_UP", "input")
	}
	s.goesOn()
	for _, e := range s.recorded() {
		size := len(e.wire) - 4
		t.ensure(e.fromHost || e.frame.kind() == kHello || size <= 2048, e.frame, "at most 2048 bytes", "%d bytes", size)
	}
}

func maxChunk(t *trial) {
	small := defaultLimits()
	small.maxChunk = 1000
	s := t.live(small)
	r := s.call(t.roles["source"], []byte("10001"))
	r.wantEnd()
	t.ensure(len(r.answer()) == 10001, nil, "10001 bytes", "%d", len(r.answer()))
	for _, f := range r.all(kChunk) {
		b, _ := content(f.payload()) // answer has looked at it
		t.ensure(len(b) <= 1000, f, "at most 1000 raw bytes in a CHUNK", "%d", len(b))
	}
	s.goesOn()
}

func itemsShape(t *trial) {
	small := window(2)
	small.maxChunk = 16
	s := t.live(small)
	r := s.call(t.roles["items"], []byte("5"))
	r.wantEnd()
	start := r.first(kStreamStart)
	t.ensure(start[xIsSequence] == true, start, "is_sequence true", "it is %v", start[xIsSequence])
	var item []byte
	items := 0
	for _, f := range r.all(kChunk) {
		t.ensure(len(f.payload()) <= 16, f, "fragments of at most 16 bytes", "%d bytes", len(f.payload()))
		item = append(item, f.payload()...)
		if b, err := content(item); err == nil {
			t.ensure(len(b) == 64, f, "items of 64 bytes", "%d bytes", len(b))
			items, item = items+1, nil
		}
	}
	t.ensure(items == 5 && len(item) == 0, nil, "5 whole items, each on frames of its own", "%d items and %d bytes left", items, len(item))
	s.goesOn()
}

func echoBorders(t *trial) {
	s := t.live(window(4))
	r := s.request(t.roles["echo"])
	a := r.open("items", "media:", sequence, unbounded)
	var want [][]byte
	for i := range 20 {
		item := cborOf(randomBytes(i))
		want = append(want, item)
		a.r.await("credit", func() bool { return r.credit["items"] > 0 })
		f := a.chunk(item)
		f[xMeta] = map[string]any{"n": uint64(i)}
		r.send(f)
	}
	r.send(streamEndFrame("items", 0).without(xCount), endFrame())
	r.wantEnd()
	chunks := r.all(kChunk)
	t.ensure(len(chunks) == len(want), nil, fmt.Sprintf("%d items", len(want)), "%d", len(chunks))
	for i, f := range chunks {
		t.ensure(bytes.Equal(f.payload(), want[i]) && f.meta()["n"] == uint64(i), f, fmt.Sprintf("item %d with its meta", i), "another")
	}
	s.goesOn()
}

func sinkCounts(t *trial) {
	s := t.live(window(3))
	r := s.request(t.roles["sink"])
	a, b := r.open("a", "media:"), r.open("b", "media:", sequence)
	total := 0
	for i := range 50 {
		a.give(cborOf(randomBytes(i)))
		total += i
	}
	a.end()
	for i := range 50 { // behind the first: a handler may take its streams one by one
		b.give(cborOf(randomBytes(2 * i)))
		total += 2 * i
	}
	b.finish()
	r.wantAnswer([]byte(strconv.Itoa(total)))
	s.goesOn()
}

func tokensWhole(t *trial) {
	s := t.live(defaultLimits())
	for _, n := range []int{0, 1, 3, 500} {
		r := s.call(t.roles["tokens"], []byte(strconv.Itoa(n)))
		r.wantAnswer(bytes.Repeat([]byte("0123456789abcdef"), n))
		t.ensure(len(r.all(kChunk)) <= n, nil, "at most one CHUNK for a write", "%d for %d", len(r.all(kChunk)), n)
		t.ensure(n > 0 || len(r.all(kStreamStart)) == 0, nil, "END alone when nothing was written", "a stream")
	}
	s.goesOn()
}

func failureIdentity(t *trial) {
	s := t.live(defaultLimits())
	for _, class := range []string{"input", "resource", "environment", "internal", "user"} {
		r := s.call(t.roles["fail"], []byte("CODE_OF_"+class+"|"+class+"|words | with a bar"))
		f := r.wantErr("CODE_OF_"+class, class)
		t.ensure(f.message() == "words | with a bar", f, "the handler's message", "%q", f.message())
		t.ensure(len(r.all(kStreamEnd)) == 0, nil, "no STREAM_END before the ERR of a failure", "one")
	}
	s.goesOn()
}

// calling makes a request whose handler calls a peer, and serves the call's arguments.
func (t *trial) calling(l limits) (s *session, r, callee *request) {
	s = t.live(l)
	r = s.call(t.roles["peer"], []byte(nobodysCap))
	callee = s.callee()
	callee.first(kEnd)
	return s, r, callee
}

func peerCall(t *trial) {
	s, r, callee := t.calling(defaultLimits())
	all := callee.all()
	req := all[0]
	_, isBytes := req[xID].([]byte)
	t.ensure(isBytes && idKey(req[xID]) != idKey(r.id), req, "a fresh uuid", "another id")
	t.ensure(req.text(xCap) == nobodysCap && req.text(xContentType) == "application/cbor" && req.has(xPayload) && len(req.payload()) == 0, req, "cap, content_type application/cbor and an empty payload", "something else")
	t.ensure(idKey(req.meta()["parent_rid"]) == idKey(r.id), req, "parent_rid "+idKey(r.id), "%v", req.meta()["parent_rid"])
	kinds := ""
	for i, f := range all {
		kinds += f.kind().String() + " "
		t.ensure(!f.has(xRoutingID), f, "no routing id on frames of a peer call", "one")
		t.ensure(!f.kind().flow() || f[xSeq] == uint64(i), f, fmt.Sprintf("seq %d", i), "seq %v", f[xSeq])
	}
	t.ensure(kinds == "req stream_start chunk stream_end end ", nil, "REQ, one argument, END", "%s", kinds)
	got, err := content(all[2].payload())
	t.ensure(err == nil && string(got) == nobodysCap, all[2], "the argument's text", "%q", got)
	callee.send(frameOf(kEnd).with(xEOF, true).with(xMeta, map[string]any{"exit_code": uint64(0), "progress": 1.0}))
	r.wantAnswer(nil)
	s.goesOn()
}

func peerAnswer(t *trial) {
	const credit = 2
	s, r, callee := t.calling(window(credit))
	callee.send(frameOf(kLog).with(xMeta, map[string]any{"level": "info", "message": "working", "attribution_class": "internal"}),
		startFrame("answer", "media:void").with(xIsSequence, false))
	var want []byte
	for i := range 10 {
		piece := randomBytes(20 + i)
		want = append(want, piece...)
		callee.await("a grant for the answer", func() bool { return callee.granted["answer"]+credit > uint64(i) })
		callee.send(chunkFrame("answer", uint64(i), cborOf(piece)))
	}
	callee.send(streamEndFrame("answer", 10), frameOf(kEnd).with(xEOF, true).with(xMeta, map[string]any{"exit_code": uint64(0), "progress": 1.0}))
	r.wantAnswer(want)
	s.goesOn()
	grants := callee.all(kCredit)
	for _, f := range grants {
		t.ensure(f.metaText("credit_dir") == "response" && !f.has(xRoutingID) && f.stream() == "answer", f,
			"credit_dir response, the stream, no routing id", "something else")
	}
	t.ensure(len(callee.all(kCancel)) == 0, nil, "no CANCEL of a call that was answered", "one")
}

func peerFailure(t *trial) {
	s, r, callee := t.calling(defaultLimits())
	callee.send(errFrame("PEER_BROKE", "resource", "the other one failed"))
	f := r.wantErr("PEER_BROKE", "resource")
	t.ensure(f.message() == "the other one failed", f, "the peer's message", "%q", f.message())
	s.goesOn()
	t.ensure(len(callee.all(kCancel)) == 0, nil, "no CANCEL after the terminal of a call", "one")
}

func peerAnswerChecked(t *trial) {
	s, r, callee := t.calling(defaultLimits())
	callee.send(startFrame("answer", "media:void").with(xIsSequence, false), chunkFrame("answer", 0, x).with(xChecksum, uint64(3)),
		streamEndFrame("answer", 1), frameOf(kEnd).with(xEOF, true).with(xMeta, map[string]any{"exit_code": uint64(0), "progress": 1.0}))
	f := r.end()
	t.ensure(f.kind() == kErr, f, "a failure of the request", "another terminal")
	c := callee.first(kCancel)
	t.ensure(c.code() == "ABORTED" && c.class() == "internal", c, "CANCEL ABORTED/internal", "another reason")
	s.goesOn()
}

func peerEndStatus(t *trial) {
	for what, meta := range map[string]any{"no meta": nil, "exit_code 3": map[string]any{"exit_code": uint64(3), "progress": 1.0}} {
		s, r, callee := t.calling(defaultLimits())
		f := frameOf(kEnd).with(xEOF, true)
		if meta != nil {
			f[xMeta] = meta
		}
		callee.send(f)
		end := r.end()
		t.ensure(end.kind() == kErr, end, "ERR when the peer's END has "+what, "another terminal")
		s.goesOn()
	}
}
