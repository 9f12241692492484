package conform

import (
	"bytes"
	"fmt"
	"strings"
)

func faultChecks() []check {
	return []check{
		{id: "checksum-checked", rule: "R-3.32", title: "a CHUNK with a wrong checksum ends its request with CORRUPTED_DATA",
			run: faults("CORRUPTED_DATA", map[string]fault{
				"one too high": func(r *request) {
					r.s1(chunkFrame("s", 0, x).with(xChecksum, checksum(x)+1), streamEndFrame("s", 1), endFrame())
				},
				"of the inner bytes": func(r *request) {
					r.s1(chunkFrame("s", 0, x).with(xChecksum, checksum([]byte("x"))), streamEndFrame("s", 1), endFrame())
				},
				"zero, on the second": func(r *request) {
					r.s1(chunkFrame("s", 0, x), chunkFrame("s", 1, x).with(xChecksum, uint64(0)), streamEndFrame("s", 2), endFrame())
				},
			})},
		{id: "index-checked", rule: "R-3.33", title: "a chunk_index that is not the next one ends the request with PROTOCOL_ERROR",
			run: faults("PROTOCOL_ERROR", map[string]fault{
				"from 1": func(r *request) { r.s1(chunkFrame("s", 1, x), streamEndFrame("s", 1), endFrame()) },
				"repeated": func(r *request) {
					r.s1(chunkFrame("s", 0, x), chunkFrame("s", 0, x), streamEndFrame("s", 2), endFrame())
				},
				"skipped": func(r *request) {
					r.s1(chunkFrame("s", 0, x), chunkFrame("s", 2, x), streamEndFrame("s", 2), endFrame())
				},
			})},
		{id: "count-checked", rule: "R-3.35",
			title: "a chunk_count that is not the number of CHUNKs ends the request with PROTOCOL_ERROR",
			run: faults("PROTOCOL_ERROR", map[string]fault{
				"too high": func(r *request) { r.s1(chunkFrame("s", 0, x), streamEndFrame("s", 2), endFrame()) },
				"too low": func(r *request) {
					r.s1(chunkFrame("s", 0, x), chunkFrame("s", 1, x), streamEndFrame("s", 1), endFrame())
				},
				"unbounded, and wrong": func(r *request) {
					r.send(startFrame("s", "media:").with(xUnbounded, true), chunkFrame("s", 0, x), streamEndFrame("s", 7), endFrame())
				},
			})},
		{id: "streams-checked", rule: "R-3.31",
			title: "frames of a stream that was not started, or has ended, or starts twice, end the request with PROTOCOL_ERROR",
			run: faults("PROTOCOL_ERROR", map[string]fault{
				"CHUNK of no stream":       func(r *request) { r.send(chunkFrame("s", 0, x), endFrame()) },
				"STREAM_END of no stream":  func(r *request) { r.s1(streamEndFrame("other", 0), streamEndFrame("s", 0), endFrame()) },
				"CHUNK of an ended stream": func(r *request) { r.s1(streamEndFrame("s", 0), chunkFrame("s", 0, x), endFrame()) },
				"STREAM_END twice":         func(r *request) { r.s1(streamEndFrame("s", 0), streamEndFrame("s", 0), endFrame()) },
				"STREAM_START twice":       func(r *request) { r.s1(startFrame("s", "media:"), streamEndFrame("s", 0), endFrame()) },
				"STREAM_START after its end": func(r *request) {
					r.s1(streamEndFrame("s", 0), startFrame("s", "media:"), streamEndFrame("s", 0), endFrame())
				},
				"END while a stream is open": func(r *request) { r.s1(chunkFrame("s", 0, x), endFrame()) },
				"END while another is open":  func(r *request) { r.s1(startFrame("t", "media:"), streamEndFrame("t", 0), endFrame()) },
				"CHUNK of an unknown of two": func(r *request) {
					r.s1(startFrame("t", "media:"), chunkFrame("u", 0, x), streamEndFrame("s", 0), streamEndFrame("t", 0), endFrame())
				},
			})},
		{id: "fields-checked", rule: "R-3.30",
			title: "a frame without its stream_id, media_urn or payload ends the request, not the connection",
			run: faults("PROTOCOL_ERROR", map[string]fault{
				"STREAM_START without stream_id": func(r *request) { r.send(startFrame("s", "media:").without(xStreamID)) },
				"STREAM_START without media_urn": func(r *request) { r.send(startFrame("s", "media:").without(xMediaURN)) },
				"CHUNK without stream_id":        func(r *request) { r.s1(chunkFrame("s", 0, x).without(xStreamID)) },
				"CHUNK without payload":          func(r *request) { r.s1(chunkFrame("s", 0, x).without(xPayload)) },
				"STREAM_END without stream_id":   func(r *request) { r.s1(streamEndFrame("s", 0).without(xStreamID)) },
				"ERR without meta":               func(r *request) { r.s1(errFrame("X", "input", "x").without(xMeta)) },
				"ERR of an unknown class":        func(r *request) { r.s1(errFrame("X", "permanent", "x")) },
			})},
		{id: "payload-checked", rule: "R-3.37",
			title: "a scalar payload that is not one CBOR item, and bytes that are no sequence, end the request with DECODE_ERROR",
			run: faults("DECODE_ERROR", map[string]fault{
				"empty": func(r *request) {
					r.s1(chunkFrame("s", 0, nil).with(xPayload, []byte{}), streamEndFrame("s", 1), endFrame())
				},
				"two items":      func(r *request) { r.s1(chunkFrame("s", 0, []byte{1, 2}), streamEndFrame("s", 1), endFrame()) },
				"half an item":   func(r *request) { r.s1(chunkFrame("s", 0, []byte{0x45, 1, 2}), streamEndFrame("s", 1), endFrame()) },
				"a break":        func(r *request) { r.s1(chunkFrame("s", 0, []byte{0xff}), streamEndFrame("s", 1), endFrame()) },
				"a bad sequence": func(r *request) { r.q1(chunkFrame("s", 0, []byte{0x1c})) },
			})},
		{id: "cut-item", rule: "R-3.36", title: "a sequence that ends within an item ends the request with DECODE_ERROR",
			run: faults("DECODE_ERROR", map[string]fault{
				"after its head": func(r *request) { r.q1(chunkFrame("s", 0, []byte{0x45, 1, 2}), streamEndFrame("s", 1), endFrame()) },
				"after a whole one": func(r *request) {
					r.q1(chunkFrame("s", 0, []byte{0x41, 1, 0x82, 1}), streamEndFrame("s", 1), endFrame())
				},
			})},
		{id: "count-optional", rule: "R-3.35", title: "a bounded stream without chunk_count is accepted", run: countOptional},
		{id: "after-body-end", rule: "wire 7.3",
			title: "a stream that starts after the body's END ends the running request with PROTOCOL_ERROR", run: afterBodyEnd},
		{id: "duplicate-req", rule: "R-3.10", title: "a REQ with the id of a live request ends that one with PROTOCOL_ERROR, once",
			run: duplicateReq},
		{id: "req-checked", rule: "R-3.4",
			title: "a REQ without cap, with a payload, or for a cap that nobody serves is refused with its code", run: reqChecked},
		{id: "body-err", rule: "R-3.24", title: "a body that ends with ERR fails the request with that error", run: bodyErr},
		{id: "fault-while-waiting", rule: "R-3.23", title: "a fault in the body of a waiting request is answered at once", run: faultWhileWaiting},
		{id: "fault-unread", rule: "R-3.50", title: "a fault is found although the handler never reads", needs: []string{"stall"}, run: faultUnread},
		{id: "stragglers-silent", rule: "R-3.6", title: "frames of a request that has ended are counted and not answered", run: stragglersSilent},
		{id: "unknown-silent", rule: "R-3.20", title: "frames of an id that never was are counted as drops and not answered", run: unknownSilent},
		{id: "reused-id", rule: "R-3.12", title: "an id that has ended may be used again; seq counts from 0", run: reusedID},
		{id: "second-hello", rule: "R-3.1", title: "a second HELLO is answered with ERR PROTOCOL_ERROR and the connection lives", run: secondHello},
		{id: "id-forms", rule: "wire 5.1", title: "ids and routing ids of both forms are told apart and given back as they came", run: idForms},
	}
}

// fault sends what is wrong with a request.
type fault func(r *request)

// s1 sends frames of a request behind the start of its scalar stream s.
func (r *request) s1(frames ...frame) {
	r.send(append([]frame{startFrame("s", "media:")}, frames...)...)
}

// q1 is s1 with a sequence.
func (r *request) q1(frames ...frame) {
	r.send(append([]frame{startFrame("s", "media:").with(xIsSequence, true)}, frames...)...)
}

// faults sends each fault on a request of its own, which has to end with ERR code/internal, once, while the connection lives.
func faults(code string, all map[string]fault) func(t *trial) {
	return func(t *trial) {
		s := t.live(defaultLimits())
		var requests []*request
		for what, send := range all {
			r := s.request(identityCap)
			send(r)
			f := r.end()
			t.ensure(f.is(kErr, code, "internal") && f.message() != "", f, fmt.Sprintf("%s: ERR %s/internal with a message", what,
				code), "the terminal is another")
			t.ensure(idKey(f[xRoutingID]) == idKey(r.routing), f, "the routing id of the REQ", "another")
			requests = append(requests, r)
		}
		s.goesOn()
		for _, r := range requests {
			t.ensure(len(r.all(kEnd, kErr)) == 1, nil, "one terminal", "%d", len(r.all(kEnd, kErr)))
		}
	}
}

func countOptional(t *trial) {
	s := t.live(defaultLimits())
	r := s.request(identityCap)
	r.s1(chunkFrame("s", 0, x), streamEndFrame("s", 0).without(xCount), endFrame())
	r.wantAnswer([]byte("x"))
	r = s.request(identityCap)
	r.send(startFrame("s", "media:").with(xUnbounded, true), chunkFrame("s", 0, x), streamEndFrame("s", 0).without(xCount), endFrame())
	r.wantAnswer([]byte("x"))
	s.finish()
}

func afterBodyEnd(t *trial) {
	s, r := t.blocked()
	r.send(startFrame("late", "media:"))
	r.wantErr("PROTOCOL_ERROR", "internal")
	s.goesOn()
}

func duplicateReq(t *trial) {
	s := t.live(defaultLimits())
	for _, routing := range []any{uint64(50), uint64(51)} {
		r := s.request(identityCap, withRouting(uint64(50)))
		a := r.open("s", "media:")
		a.give(x)
		r.chunks(1)
		s.send(reqFrame(identityCap).with(xID, r.id).with(xRoutingID, routing))
		a.finish()
		f := r.wantErr("PROTOCOL_ERROR", "internal")
		t.ensure(f[xRoutingID] == uint64(50), f, "the routing id of the first REQ", "another")
		s.roundTrip()
		t.ensure(len(r.all(kEnd, kErr)) == 1, nil, "one terminal", "%d", len(r.all(kEnd, kErr)))
	}
	s.finish()
}

func reqChecked(t *trial) {
	s := t.live(defaultLimits())
	for _, c := range []struct {
		req         frame
		code, class string
	}{
		{reqFrame(nobodysCap), "NO_HANDLER", "environment"},
		{reqFrame("no cap at all"), "NO_HANDLER", "environment"},
		{reqFrame(identityCap).without(xCap), "INVALID_REQUEST", "internal"},
		{reqFrame(identityCap).with(xPayload, []byte("data")), "PROTOCOL_ERROR", "internal"},
	} {
		r := s.newRequest()
		r.send(c.req, startFrame("s", "media:"), chunkFrame("s", 0, x), streamEndFrame("s", 1), endFrame())
		f := r.wantErr(c.code, c.class)
		if c.code == "NO_HANDLER" {
			t.ensure(strings.Contains(f.message(), c.req.text(xCap)), f, "a message with the URN "+c.req.text(xCap), "%q", f.message())
		}
		s.roundTrip()
		t.ensure(len(r.all()) == 1, nil, "one ERR and nothing else", "%d frames", len(r.all()))
	}
	s.finish()
}

func bodyErr(t *trial) {
	s := t.live(defaultLimits())
	r := s.request(identityCap)
	r.s1(chunkFrame("s", 0, x))
	r.chunks(1)
	r.send(errFrame("SOURCE_BROKE", "resource", "the disk is gone"))
	f := r.wantErr("SOURCE_BROKE", "resource")
	t.ensure(f.message() == "the disk is gone", f, "the message of the caller's ERR", "%q", f.message())
	s.goesOn()
}

func faultWhileWaiting(t *trial) {
	s, holder, held := t.occupied(defaultLimits())
	r := s.request(identityCap)
	r.log("queued")
	r.s1(chunkFrame("s", 0, x).with(xChecksum, uint64(3)))
	r.wantErr("CORRUPTED_DATA", "internal")
	s.awaitPool("all", "nobody waits", func(p pool) bool { return *p.Queued == 0 && *p.Active == 1 })
	held.finish()
	holder.wantEnd()
	s.goesOn()
}

func faultUnread(t *trial) {
	s := t.live(defaultLimits())
	big := cborOf(randomBytes(200_000))
	for code, f := range map[string]frame{
		"CORRUPTED_DATA": chunkFrame("s", 0, big).with(xChecksum, uint64(3)),
		"DECODE_ERROR":   chunkFrame("s", 0, append(bytes.Clone(big), 0)),
		"PROTOCOL_ERROR": chunkFrame("s", 4, big),
	} {
		r := s.request(t.roles["stall"])
		r.send(startFrame("s", text), f)
		r.wantErr(code, "internal")
	}
	s.goesOn()
}

// lateFrames are frames that may cross a terminal.
func lateFrames() []frame {
	return []frame{startFrame("late", "media:"), chunkFrame("late", 0, x), streamEndFrame("late", 1), endFrame(), errFrame("X", "input", "x"),
		frameOf(kLog).with(xMeta, map[string]any{"level": "info", "message": "x", "attribution_class": "input"}), creditFrame("response", "late", 1),
		cancelFrame("CANCELLED", "user", "Cancelled by user"), closeFrame(""), closeFrame("late")}
}

func stragglersSilent(t *trial) {
	s := t.live(defaultLimits())
	for _, end := range []func() *request{
		func() *request { return s.call(identityCap, []byte("ended")) },
		func() *request { return s.call(nobodysCap, nil) },
		func() *request {
			r := s.request(identityCap)
			r.cancel("", "", "")
			return r
		},
	} {
		r := end()
		r.end()
		before, late := s.probe("").metaUint("stragglers_total"), lateFrames()
		n := len(r.all())
		r.send(late...)
		s.roundTrip()
		t.ensure(len(r.all()) == n, nil, "nothing for an ended request", "%d frames", len(r.all())-n)
		if after := s.probe("").metaUint("stragglers_total"); after < before+uint64(len(late)) {
			t.fail(fmt.Sprintf("stragglers_total of %d or more, %d before", before+uint64(len(late)), before), "%d", after)
		}
	}
	s.finish()
}

func unknownSilent(t *trial) {
	s := t.live(defaultLimits())
	r, late := s.newRequest(), lateFrames()
	before := s.probe("").metaUint("drops_total")
	r.send(late...)
	s.roundTrip()
	if after := s.probe("").metaUint("drops_total"); after < before+uint64(len(late)) {
		t.fail(fmt.Sprintf("drops_total of %d or more, %d before", before+uint64(len(late)), before), "%d", after)
	}
	s.finish()
	t.ensure(len(r.all()) == 0, nil, "no answer", "%d frames", len(r.all()))
}

func reusedID(t *trial) {
	s := t.live(defaultLimits())
	id, routing := any(newUUID()), any(uint64(9))
	for _, word := range []string{"first", "second", "third"} {
		r := s.call(identityCap, []byte(word), withID(id), withRouting(routing))
		r.wantAnswer([]byte(word))
		for i, f := range r.all(kStreamStart, kChunk, kStreamEnd, kEnd) {
			t.ensure(f[xSeq] == uint64(i), f, fmt.Sprintf("seq %d", i), "seq %v", f[xSeq])
		}
	}
	s.finish()
}

func secondHello(t *trial) {
	s := t.live(defaultLimits())
	f := helloFrame(defaultLimits()).with(xID, newUUID())
	s.send(f)
	s.goesOn()
	for _, answer := range s.frames() {
		if idKey(answer[xID]) == idKey(f[xID]) {
			t.ensure(answer.is(kErr, "PROTOCOL_ERROR", "internal"), answer, "ERR PROTOCOL_ERROR/internal with the id of the HELLO", "another frame")
			return
		}
	}
	t.fail("ERR PROTOCOL_ERROR/internal with the id of the HELLO", "nothing")
}

func idForms(t *trial) {
	s := t.live(defaultLimits())
	var all []*request
	for _, id := range []any{uint64(0), uint64(7), uint64(1<<63 - 1), append(make([]byte, 15), 7), newUUID()} {
		for range 2 {
			r := s.request(identityCap, withID(id), withRouting(nil))
			a := r.open("s", "media:")
			a.give(cborOf([]byte(idKey(id))))
			a.finish()
			r.wantAnswer([]byte(idKey(id)))
			all = append(all, r)
		}
	}
	for _, routing := range []any{nil, uint64(0), uint64(1 << 40), newUUID()} {
		r := s.call(identityCap, x, withRouting(routing))
		r.wantEnd()
		for _, f := range r.all() {
			v, has := f[xRoutingID]
			t.ensure(has == (routing != nil) && idKey(v) == idKey(routing), f, "routing id "+idKey(routing), "routing id %s", idKey(v))
		}
	}
	s.finish()
	for _, r := range all {
		t.ensure(len(r.all(kEnd, kErr)) >= 1, nil, "a terminal for "+r.String(), "none")
	}
}
