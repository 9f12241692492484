package conform

import "fmt"

func feedChecks() []check {
	needs := []string{"feed"}
	return []check{
		{id: "feed-items", rule: "R-9.21", title: "a synthetic feed gives the items that its selector asks for, with their meta",
			needs: needs, run: feedItems},
		{id: "feed-defaults", rule: "R-9.11", title: "an empty selector means the defaults: 10 items of 32 bytes", needs: needs, run: feedDefaults},
		{id: "feed-selector", rule: "R-9.12", title: "a selector with an unknown or wrong member fails with FEED_SELECTOR/input",
			needs: needs, run: feedSelector},
		{id: "feed-unknown", rule: "R-9.3", title: "a live reference of no known family fails with FEED_UNAVAILABLE/environment",
			needs: needs, run: feedUnknown},
		{id: "feed-close", rule: "R-8.40",
			title: "CLOSE_STREAM ends a feed: what was captured is delivered and the request ends with END", needs: needs, run: feedClose},
		{id: "feed-close-early", rule: "R-8.43", title: "a feed that is closed while its request waits ends at once, without items",
			needs: needs, run: feedCloseEarly},
		{id: "feed-cancel", rule: "R-9.42", title: "CANCEL ends a feed and its request with the reason", needs: needs, run: feedCancel},
		{id: "end-feed", rule: "R-2.30", title: "the end of the input closes a feed, and its request ends with END", needs: needs, run: endFeed},
	}
}

const synthetic = "media:live;synthetic"

// feed sends a request whose argument is a live reference.
func (s *session) feed(reference, selector string) *request {
	r := s.newRequest()
	r.send(reqFrame(s.t.roles["feed"]), startFrame("tap", reference), chunkFrame("tap", 0, cborOf([]byte(selector))),
		streamEndFrame("tap", 1), endFrame())
	return r
}

// wantItems waits for END and looks at the items: n of them, or any number, each as captured.
func (r *request) wantItems(n int, size int, interval uint64) {
	r.wantEnd()
	t := r.s.t
	chunks := r.all(kChunk)
	if n >= 0 {
		t.ensure(len(chunks) == n, nil, fmt.Sprintf("%d items", n), "%d", len(chunks))
	}
	if start := r.first(kStreamStart); start[xIsSequence] != true || start[xUnbounded] != true {
		t.failAt(start, "an unbounded sequence", "is_sequence %v, unbounded %v", start[xIsSequence], start[xUnbounded])
	}
	end := r.first(kStreamEnd)
	t.ensure(!end.has(xCount), end, "no chunk_count on an unbounded stream", "chunk_count %v", end[xCount])
	for _, f := range chunks {
		b, err := content(f.payload())
		seq := f.metaUint("seq")
		t.ensure(err == nil && len(b) == size && (size == 0 || b[0] == byte(seq) && b[size-1] == byte(seq)), f,
			fmt.Sprintf("%d bytes of %d", size, byte(seq)), "%x", b)
		t.ensure(f.meta()["pts_us"] == seq*interval*1000 && f.metaUint("capture_ts_us") > 0, f,
			fmt.Sprintf("pts_us %d and a capture_ts_us", seq*interval*1000), "meta {%s}", metaLine(f.meta()))
	}
	gap := false
	for i, f := range chunks {
		gap = gap || f.meta()["gap"] != nil
		t.ensure(gap || f.metaUint("seq") == uint64(i), f, fmt.Sprintf("seq %d", i), "seq %d", f.metaUint("seq"))
	}
}

func feedItems(t *trial) {
	s := t.live(defaultLimits())
	s.feed(synthetic, `{"params":{"interval_ms":0,"item_bytes":3,"items":4}}`).wantItems(4, 3, 0)
	s.feed(synthetic, `{"params":{"interval_ms":1,"item_bytes":5,"items":100},"stop":{"max_items":7}}`).wantItems(7, 5, 1)
	s.feed(synthetic, `{"stop":{"max_items":0}}`).wantItems(0, 32, 10)
	s.goesOn()
}

func feedDefaults(t *trial) {
	s := t.live(defaultLimits())
	a, b := s.feed(synthetic, `{}`), s.feed(synthetic, ``)
	a.wantItems(10, 32, 10)
	b.wantItems(10, 32, 10)
	s.goesOn()
}

func feedSelector(t *trial) {
	s := t.live(defaultLimits())
	for _, selector := range []string{`{"devise":"mic0"}`, `{"stop":{"duration":1000}}`, `{"stop":{"max_item":3}}`, `{not json`,
		`[]`, `{} {}`, `{"params":{"itemz":3}}`, `{"on_overrun":"sometimes"}`} {
		r := s.feed(synthetic, selector)
		f := r.end()
		t.ensure(f.is(kErr, "FEED_SELECTOR", "input"), f, "ERR FEED_SELECTOR/input for "+selector, "the terminal is another")
	}
	s.goesOn()
}

func feedUnknown(t *trial) {
	s := t.live(defaultLimits())
	s.feed("media:live;conform-nothing-like-that", `{}`).wantErr("FEED_UNAVAILABLE", "environment")
	s.goesOn()
}

// endless is a feed that goes on until it is stopped, and of which some items have come.
func (t *trial) endless() (*session, *request) {
	s := t.live(defaultLimits())
	r := s.feed(synthetic, `{"params":{"interval_ms":1,"item_bytes":4,"items":1000000000}}`)
	r.chunks(5)
	return s, r
}

func feedClose(t *trial) {
	for _, stream := range []string{"tap", ""} {
		s, r := t.endless()
		r.send(closeFrame("another"))
		r.chunks(len(r.all(kChunk)) + 5)
		r.send(closeFrame(stream), closeFrame(stream))
		r.wantItems(-1, 4, 1)
		s.goesOn()
	}
}

func feedCloseEarly(t *trial) {
	s, holder, held := t.occupied(defaultLimits())
	r := s.feed(synthetic, `{"params":{"items":1000000000}}`)
	r.log("queued")
	r.send(closeFrame("tap"))
	s.call(nobodysCap, nil).end() // it was dealt with
	held.finish()
	holder.wantEnd()
	r.wantEnd()
	t.ensure(len(r.all(kChunk)) == 0, nil, "no item", "%d", len(r.all(kChunk)))
	s.goesOn()
}

func feedCancel(t *trial) {
	s, r := t.endless()
	r.cancel("CANCELLED", "user", "Cancelled by user")
	r.wantErr("CANCELLED", "user")
	s.awaitIdle()
	s.goesOn()
}

func endFeed(t *trial) {
	s, r := t.endless()
	s.closeInput()
	// No more is granted after the end of the input: what is captured by then passes, or finds no credit.
	f := r.end()
	t.ensure(f.kind() == kEnd || f.is(kErr, "CONNECTION_CLOSED", "environment"), f, "END, or CONNECTION_CLOSED without credit",
		"the terminal is another")
	s.awaitOutputEnd()
	if state := s.awaitExit(); state.ExitCode() != 0 {
		t.fail("exit status 0", "%v", state)
	}
}
