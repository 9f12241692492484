package conform

import "bytes"

func identityChecks() []check {
	return []check{
		{id: "identity-copies", rule: "R-1.13", title: "identity gives back what it gets, whatever that is", run: identityCopies},
		{id: "identity-after-policy", rule: "wire 6.3", title: "identity is served before POLICY and after it, again and again",
			run: identityAfterPolicy},
		{id: "identity-empty", rule: "R-1.13", title: "without input identity answers with one empty stream", run: identityEmpty},
		{id: "identity-long", rule: "R-1.13", title: "a stream of any length passes identity with a window of 2", run: identityLong},
		{id: "identity-meta", rule: "R-1.13", title: "identity starts its answer with the first input's stream meta", run: identityMeta},
	}
}

func identityCopies(t *trial) {
	s := t.live(defaultLimits())
	for _, size := range []int{1, 23, 24, 255, 256, 65_536} {
		want := randomBytes(size)
		s.call(identityCap, want).wantAnswer(want)
	}
	var want []byte
	r := s.request(identityCap)
	a, b := r.open("a", "media:"), r.open("b", "media:")
	for i := range 20 {
		piece := randomBytes(10 + i)
		want = append(want, piece...)
		if i%2 == 0 {
			a.give(cborOf(piece))
		} else {
			b.give(cborOf(piece))
		}
	}
	a.end()
	b.finish()
	r.wantAnswer(want)
	s.finish()
}

func identityAfterPolicy(t *trial) {
	s := t.start(defaultLimits())
	s.hello()
	s.verify()
	s.roundTrip()
	s.send(policyFrame("online", true))
	s.roundTrip()
	s.verify()
	s.finish()
}

func identityEmpty(t *trial) {
	s := t.live(defaultLimits())
	r := s.request(identityCap)
	r.send(endFrame())
	r.wantEnd()
	r.first(kStreamStart)
	end := r.first(kStreamEnd)
	t.ensure(end[xCount] == uint64(0) && len(r.all(kChunk)) == 0, end, "STREAM_START, STREAM_END with chunk_count 0, END",
		"chunk_count %v, %d chunks", end[xCount], len(r.all(kChunk)))
	s.finish()
}

func identityLong(t *trial) {
	const chunks = 2000
	s := t.live(window(2))
	r := s.request(identityCap)
	a := r.open("long", "media:")
	piece := randomBytes(16)
	for range chunks {
		a.give(cborOf(piece))
	}
	a.finish()
	r.wantAnswer(bytes.Repeat(piece, chunks))
	s.finish()
}

func identityMeta(t *trial) {
	s := t.live(defaultLimits())
	r := s.request(identityCap)
	a := r.open("named", "media:", func(f frame) { f[xMeta] = map[string]any{"title": "conform"} })
	a.give(cborOf([]byte("x")))
	a.finish()
	r.wantEnd()
	start := r.first(kStreamStart)
	t.ensure(start.metaText("title") == "conform", start, "the stream meta of the input", "meta {%s}", metaLine(start.meta()))
	s.finish()
}
