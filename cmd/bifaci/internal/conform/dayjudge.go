package conform

import (
	"fmt"

	wire "github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

func dayChecks() []check {
	return []check{
		dayCheck("frames-decode", "wire 2.2", "every frame is one that a strict decoder accepts"),
		dayCheck("hello-once", "wire 6.1", "the cartridge says HELLO once, before anything else"),
		dayCheck("right-side", "wire 4", "the cartridge sends no frame that only hosts or relays send"),
		dayCheck("seq-without-gap", "R-4.10", "seq counts the frames of each flow from 0 without gap"),
		dayCheck("seq-of-control", "wire 5.3", "control frames carry seq 0"),
		dayCheck("known-request", "wire 5.1", "every frame names a request or a probe of the host's"),
		dayCheck("every-request-ends", "R-6.81", "every request is answered with END or ERR"),
		dayCheck("one-terminal", "R-6.81", "a request has one END or ERR, not two"),
		dayCheck("terminal-is-last", "R-4.11", "no flow frame of a request follows its END or ERR"),
		dayCheck("routing-on-data", "R-6.31", "STREAM_START, CHUNK, STREAM_END and END carry the request's routing id"),
		dayCheck("routing-on-err", "R-3.5", "ERR carries the request's routing id"),
		dayCheck("routing-on-log", "wire 5.2", "LOG carries the request's routing id"),
		dayCheck("routing-on-credit", "R-10.26", "CREDIT carries the request's routing id"),
		dayCheck("end-exit-code", "R-6.47", "the END of an answer has exit_code 0, progress and eof"),
		dayCheck("start-fields", "R-6.30", "STREAM_START has a stream_id, the media URN that the cap derives, and is_sequence"),
		dayCheck("stream-order", "wire 7.1", "a stream is started once, has its chunks, and is ended once, before END"),
		dayCheck("chunk-index", "wire 3", "chunk_index counts each stream from 0 without gap"),
		dayCheck("chunk-count", "R-6.43", "chunk_count is the number of CHUNKs sent, and absent on unbounded streams only"),
		dayCheck("chunk-checksum", "wire 8.1", "checksum is FNV-1a of the payload as it is in the frame"),
		dayCheck("chunk-keys", "wire 4", "a CHUNK has the keys of its type and none of 4, 7, 8, 9"),
		dayCheck("scalar-payload", "wire 8.2", "each payload of a scalar stream is one whole CBOR item"),
		dayCheck("grant-direction", "R-10.26", "a grant for the body says credit_dir request and a count above 0"),
		dayCheck("grant-stream", "R-10.26", "a grant names the stream it is for"),
		dayCheck("grant-once", "R-10.23", "each CHUNK is granted back at most once"),
		dayCheck("log-shape", "wire 10.2", "LOG has level, message and class; a progress LOG has a number and no class"),
		dayCheck("err-shape", "wire 10.3", "ERR has a code, a message and one of the five classes"),
	}
}

// dayRequest is one request as its frames tell.
type dayRequest struct {
	req     event
	seq     uint64
	ended   bool
	answers map[string]*dayStream // of the cartridge
	body    map[string]*dayStream // of the host
}

type dayStream struct {
	sequence, unbounded, ended bool
	sent, granted              uint64
}

// dayJudge goes through the events of a day in order.
type dayJudge struct {
	*day
	requests map[string]*dayRequest
	probes   map[string]bool
	hellos   int
}

// look notes the first breach of every property.
func (d *day) look() {
	d.found, d.looked = map[string]*breach{}, map[string]int{}
	j := &dayJudge{d, map[string]*dayRequest{}, map[string]bool{}, 0}
	for _, e := range d.events {
		switch {
		case e.fromHost && e.frame != nil:
			j.fromHost(e)
		case !e.fromHost:
			j.fromCartridge(e)
		}
	}
	for _, r := range j.requests {
		d.hold("every-request-ends", r.ended || d.failure != nil, r.req, "END or ERR", "there was none")
	}
}

func (j *dayJudge) fromHost(e event) {
	f, key := e.frame, idKey(e.frame[xID])
	if f.kind() == kHeartbeat {
		j.probes[key] = true
	}
	if f.kind() == kReq {
		j.requests[key] = &dayRequest{req: e, answers: map[string]*dayStream{}, body: map[string]*dayStream{}}
	}
	r := j.requests[key]
	if r == nil {
		return
	}
	switch f.kind() {
	case kStreamStart:
		r.body[f.stream()] = &dayStream{}
	case kChunk:
		r.body[f.stream()].sent++
	}
}

func (j *dayJudge) fromCartridge(e event) {
	f := e.frame
	var decoded wire.Frame
	err := e.err
	if err == nil {
		err = strictly(e.wire[4:])
	}
	if err == nil {
		err = wire.Decode(e.wire[4:], &decoded)
	}
	j.hold("frames-decode", err == nil, e, "a frame", "%v", err)
	if f == nil {
		return
	}
	k := f.kind()
	j.hellos += btoi(k == kHello)
	j.hold("hello-once", (k == kHello) == (j.hellos == 1 && k == kHello) && j.hellos > 0, e, "HELLO once and first", "another order")
	switch k {
	case kHello:
		return
	case kPolicy, kCloseStream, kRelayNotify, kRelayState:
		j.hold("right-side", false, e, "no such frame from a cartridge", "a %s", k)
		return
	}
	j.hold("right-side", true, e, "", "")
	if !k.flow() {
		seq, ok := f[xSeq].(uint64)
		j.hold("seq-of-control", ok && seq == 0, e, "seq 0", "seq %v", f[xSeq])
	}
	r := j.requests[idKey(f[xID])]
	if r == nil || k == kHeartbeat {
		j.hold("known-request", j.probes[idKey(f[xID])], e, "the id of a request or probe", "no frame of the host's has it")
		return
	}
	j.hold("known-request", true, e, "", "")
	j.routing(e, r)
	if k == kCredit {
		j.grant(e, r)
	}
	if k.flow() {
		j.flow(e, r)
	}
}

func (j *dayJudge) routing(e event, r *dayRequest) {
	id := "routing-on-data"
	switch e.frame.kind() {
	case kErr:
		id = "routing-on-err"
	case kLog:
		id = "routing-on-log"
	case kCredit:
		id = "routing-on-credit"
	}
	want, got := "none", "none"
	if v, ok := r.req.frame[xRoutingID]; ok {
		want = idKey(v)
	}
	if v, ok := e.frame[xRoutingID]; ok {
		got = idKey(v)
	}
	j.hold(id, got == want, e, "routing id "+want, "routing id %s", got)
}

func (j *dayJudge) flow(e event, r *dayRequest) {
	f := e.frame
	if r.ended {
		id := "terminal-is-last"
		if f.kind().terminal() {
			id = "one-terminal"
		}
		j.hold(id, false, e, "nothing more on this flow", "a %s after its terminal", f.kind())
		return
	}
	seq, ok := f[xSeq].(uint64)
	j.hold("seq-without-gap", ok && seq == r.seq, e, fmt.Sprintf("seq %d", r.seq), "seq %v", f[xSeq])
	r.seq = seq + 1
	switch f.kind() {
	case kStreamStart, kChunk, kStreamEnd:
		j.stream(e, r)
	case kLog:
		j.log(e)
	case kEnd:
		for id, s := range r.answers {
			j.hold("stream-order", s.ended, e, "a STREAM_END before END", "stream %q is open", id)
		}
		code, ok := f.meta()["exit_code"].(uint64)
		_, isFloat := f.meta()["progress"].(float64)
		j.hold("end-exit-code", ok && code == 0 && isFloat && f[xEOF] == true, e, "exit_code 0, progress (a float) and eof true",
			"exit_code %v, progress %v, eof %v",
			f.meta()["exit_code"], f.meta()["progress"], f[xEOF])
	case kErr:
		j.hold("err-shape", f.code() != "" && f.message() != "" && isClass(f.class()), e, "code, message and attribution_class",
			"meta {%s}", metaLine(f.meta()))
	}
	if f.kind().terminal() {
		r.ended = true
		j.hold("one-terminal", true, e, "", "")
		j.hold("terminal-is-last", true, e, "", "")
	}
}

func (j *dayJudge) stream(e event, r *dayRequest) {
	f := e.frame
	s := r.answers[f.stream()]
	if f.kind() == kStreamStart {
		want, err := urn.ResponseMedia(r.req.frame.text(xCap))
		_, isBool := f[xIsSequence].(bool)
		j.hold("start-fields", err == nil && sameMedia(f.text(xMediaURN), want) && f.stream() != "" && isBool, e,
			fmt.Sprintf("a stream_id, media_urn %s, and is_sequence", want),
			"stream_id %q, media_urn %q, is_sequence %v", f.stream(), f.text(xMediaURN), f[xIsSequence])
		j.hold("stream-order", s == nil, e, "a new stream", "it was started before")
		r.answers[f.stream()] = &dayStream{sequence: f[xIsSequence] == true, unbounded: f[xUnbounded] == true}
		return
	}
	j.hold("stream-order", s != nil && !s.ended, e, "a stream that was started and is open", "stream %q is not", f.stream())
	if s == nil {
		return
	}
	if f.kind() == kStreamEnd {
		s.ended = true
		count, has := f[xCount].(uint64)
		j.hold("chunk-count", has != s.unbounded && (!has || count == s.sent), e,
			fmt.Sprintf("chunk_count %d (absent on an unbounded stream)", s.sent), "chunk_count %v", f[xCount])
		return
	}
	index, ok := f[xIndex].(uint64)
	j.hold("chunk-index", ok && index == s.sent, e, fmt.Sprintf("chunk_index %d", s.sent), "chunk_index %v", f[xIndex])
	s.sent++
	sum, ok := f[xChecksum].(uint64)
	j.hold("chunk-checksum", ok && sum == checksum(f.payload()), e, fmt.Sprintf("checksum %x", checksum(f.payload())), "checksum %x", f[xChecksum])
	j.hold("chunk-keys", f.has(xPayload) && !f.has(xContentType) && !f.has(7) && !f.has(8) && !f.has(xEOF), e,
		"a payload and none of content_type, len, offset, eof", "other keys")
	if !s.sequence {
		j.hold("scalar-payload", strictItem(f.payload()) == nil, e, "one CBOR item", "%v", strictItem(f.payload()))
	}
}

func (j *dayJudge) grant(e event, r *dayRequest) {
	f := e.frame
	n, ok := f[xCredit].(uint64)
	j.hold("grant-direction", ok && n > 0 && f.metaText("credit_dir") == "request", e, "credit_dir request and a count above 0",
		"credit_dir %v, credit %v", f.meta()["credit_dir"], f[xCredit])
	s := r.body[f.stream()]
	j.hold("grant-stream", f.has(xStreamID) && s != nil, e, "the stream_id of one of the request's streams", "stream_id %v", f[xStreamID])
	if s == nil {
		return
	}
	s.granted += n
	j.hold("grant-once", s.granted <= s.sent, e, fmt.Sprintf("at most %d granted", s.sent), "%d granted", s.granted)
}

func (j *dayJudge) log(e event) {
	m := e.frame.meta()
	level, isText := m["level"].(string)
	_, hasMessage := m["message"].(string)
	_, hasClass := m["attribution_class"]
	ok := isText && level != "" && hasMessage
	if level == "progress" {
		_, isFloat := m["progress"].(float64)
		_, isInt := m["progress"].(uint64)
		ok = ok && (isFloat || isInt) && !hasClass
	} else {
		ok = ok && m["message"] != "" && isClass(e.frame.class())
	}
	j.hold("log-shape", ok, e, "level, message and attribution_class, or progress", "meta {%s}", metaLine(m))
}

func isClass(word string) bool {
	switch word {
	case "input", "resource", "environment", "internal", "user":
		return true
	}
	return false
}

func sameMedia(a, b string) bool {
	x, err1 := urn.ParseMedia(a)
	y, err2 := urn.ParseMedia(b)
	return err1 == nil && err2 == nil && x.Equivalent(y)
}

// strictItem says why bytes are not exactly one CBOR item.
func strictItem(b []byte) error {
	var v any
	return codec().strict.Unmarshal(b, &v)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}
