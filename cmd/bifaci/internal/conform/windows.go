package conform

import (
	"bytes"
	"fmt"
)

func windowChecks() []check {
	return []check{
		{id: "window-enforced", rule: "R-10.40",
			title: "CHUNKs far beyond the window end the request with CREDIT_VIOLATION/internal", run: windowEnforced},
		{id: "window-exact", rule: "wire 9 L12",
			title: "exactly initial_credit CHUNKs are taken in without a grant, and one more is a violation", run: windowExact},
		{id: "window-of-unread", rule: "R-10.40", title: "the window is enforced although the handler never reads",
			needs: []string{"stall"}, run: windowOfUnread},
		{id: "response-window", rule: "wire 9 L9.2",
			title: "with window 2 and no grants two CHUNKs come; a grant of 1 gives one more", run: responseWindow},
		{id: "grants-flushed", rule: "R-10.21", title: "all pending grants are sent before the handler waits for more input", run: grantsFlushed},
		{id: "grants-flushed-output", rule: "R-10.21",
			title: "all pending grants are sent before the handler waits for credit of its output", run: grantsFlushedOutput},
		{id: "credit-on-reading", rule: "R-10.27", title: "credit is given back when data is read, not when it arrives", run: creditOnReading},
		{id: "credit-while-waiting", rule: "R-3.22", title: "a request that waits in line gets no grants", run: creditWhileWaiting},
		{id: "discard-credits", rule: "R-1.14", title: "what a handler discards is granted back", run: discardCredits},
		{id: "item-beyond-window", rule: "wire 9 L10.4", title: "a sequence item of 40 fragments passes a window of 2", run: itemBeyondWindow},
		{id: "duplex", rule: "wire 9 L15", title: "a body and its answer flow at the same time, each with a window of 2", run: duplex},
		{id: "credit-undirected", rule: "R-10.14",
			title: "CREDIT without credit_dir, or with another, has no effect and is counted as dropped", run: creditUndirected},
		{id: "credit-strays", rule: "R-10.15", title: "CREDIT for a stream or request that is over or unknown changes nothing", run: creditStrays},
		{id: "credit-saturates", rule: "R-10.10", title: "grants add up without overflow, and a grant of 0 does nothing", run: creditSaturates},
	}
}

var x = cborOf([]byte("x"))

// waiting is a request in line behind the holder of the only place, with one open stream.
func (s *session) waiting() (*request, *argument) {
	r := s.request(identityCap)
	a := r.open("waiting", "media:")
	r.log("queued")
	return r, a
}

func windowEnforced(t *trial) {
	const credit = 4
	s, _, held := t.occupied(window(credit))
	r, a := s.waiting()
	for range 3 * credit {
		a.force(x)
	}
	a.finish()
	held.finish()
	r.wantErr("CREDIT_VIOLATION", "internal")
	s.goesOn()
}

func windowExact(t *trial) {
	for _, credit := range []uint64{1, 2, 8} {
		s, holder, held := t.occupied(window(credit))
		good, a := s.waiting()
		bad, b := s.waiting()
		for range credit {
			a.force(x)
			b.force(x)
		}
		a.finish()
		if f := good.over(); f != nil {
			t.failAt(f, fmt.Sprintf("%d CHUNKs are within the window of %d", credit, credit), "the request has ended")
		}
		b.force(x)
		b.finish()
		held.finish()
		bad.wantErr("CREDIT_VIOLATION", "internal")
		holder.wantEnd()
		good.wantAnswer(bytes.Repeat([]byte("x"), int(credit)))
		s.goesOn()
	}
}

func windowOfUnread(t *trial) {
	const credit = 8
	s := t.live(window(credit))
	r := s.request(t.roles["stall"])
	a := r.open("unread", text)
	for range credit {
		a.force(x)
	}
	s.roundTrip()
	t.ensure(r.over() == nil, r.over(), "a full window is no fault", "the request has ended")
	t.ensure(a.granted() == 0, nil, "no grant for what nobody reads", "%d granted", a.granted())
	a.force(x)
	r.wantErr("CREDIT_VIOLATION", "internal")
	s.goesOn()
}

func responseWindow(t *trial) {
	for _, n := range []int{1, 2, 8} {
		s := t.live(window(uint64(n)))
		r := s.request(identityCap, thrifty)
		a := r.open("long", "media:")
		for range n + 2 {
			a.give(x)
		}
		a.finish()
		r.chunks(n)
		s.roundTrip()
		t.ensure(len(r.all(kChunk)) == n, nil, fmt.Sprintf("%d CHUNKs with a window of %d", n, n), "%d", len(r.all(kChunk)))
		r.grant(1)
		r.chunks(n + 1)
		s.roundTrip()
		s.finish() // waiting for more credit ends with the input
		t.ensure(len(r.all(kChunk)) == n+1, nil, fmt.Sprintf("%d CHUNKs after a grant of 1", n+1), "%d", len(r.all(kChunk)))
	}
}

func grantsFlushed(t *trial) {
	for _, n := range []uint64{1, 5, 8, 17} {
		s := t.live(defaultLimits())
		r := s.request(identityCap)
		a := r.open("slow", "media:")
		for range n {
			a.force(x)
		}
		a.awaitGranted(n) // although less than half a window of 32
		a.finish()
		r.wantEnd()
		s.goesOn()
	}
}

func grantsFlushedOutput(t *trial) {
	const credit = 8
	s := t.live(window(credit))
	r := s.request(identityCap, thrifty)
	a := r.open("long", "media:")
	for range credit + 1 {
		a.give(x)
	}
	r.chunks(credit)
	a.awaitGranted(credit) // the handler has read these, whatever it does with the next
	r.cancel("", "", "")
	r.wantErr("CANCELLED", "internal")
	s.goesOn()
}

func creditOnReading(t *trial) {
	const credit = 8
	s := t.live(window(credit))
	r := s.request(identityCap, thrifty) // after a window of answers it reads no more
	a := r.open("long", "media:")
	for range 2 * credit {
		a.give(x)
	}
	r.chunks(credit)
	a.awaitGranted(credit)
	s.roundTrip()
	granted := a.granted() // before the end of the input, after which what nobody reads is discarded and credited
	s.finish()
	t.ensure(granted <= credit+2, nil, fmt.Sprintf("about %d CHUNKs granted back of %d, for no more can have been read",
		credit+1, 2*credit), "%d granted", granted)
}

func creditWhileWaiting(t *trial) {
	s, _, held := t.occupied(window(4))
	r, a := s.waiting()
	for range 4 {
		a.force(x)
	}
	s.probe("")
	s.send(r.addressed(frameOf(kLog).with(xMeta, map[string]any{"level": "info", "message": "x", "attribution_class": "internal"})))
	s.call(nobodysCap, nil).wantErr("NO_HANDLER", "environment") // everything before it was dealt with
	t.ensure(a.granted() == 0, nil, "no grant while the request waits", "%d granted", a.granted())
	held.finish()
	a.awaitGranted(4)
	a.finish()
	r.wantAnswer([]byte("xxxx"))
	s.finish()
}

func discardCredits(t *trial) {
	const credit = 4
	s := t.live(window(credit))
	r := s.request("cap:out=media:void")
	a := r.open("void", "media:")
	for range 10 * credit {
		a.give(x)
	}
	a.finish()
	f := r.end()
	if f.is(kErr, "NO_HANDLER", "environment") {
		t.skip("the cartridge does not serve cap:out=media:void")
	}
	r.wantEnd()
	t.ensure(len(r.all(kStreamStart)) == 0, nil, "END alone", "a stream")
	s.finish()
}

func itemBeyondWindow(t *trial) {
	s := t.live(window(2))
	r := s.request(identityCap)
	a := r.open("items", "media:", sequence)
	item := randomBytes(4000)
	whole := cborOf(item)
	for len(whole) > 0 {
		n := min(100, len(whole))
		a.give(whole[:n])
		whole = whole[n:]
	}
	a.finish()
	r.wantAnswer(item)
	s.finish()
}

func duplex(t *trial) {
	const chunks = 300
	s := t.live(window(2))
	var all []*request
	var args []*argument
	for range 3 {
		r := s.request(identityCap)
		all, args = append(all, r), append(args, r.open("both", "media:"))
	}
	piece := randomBytes(50)
	for range chunks {
		for _, a := range args {
			a.give(cborOf(piece))
		}
	}
	for i, r := range all {
		args[i].finish()
		r.wantAnswer(bytes.Repeat(piece, chunks))
	}
	s.finish()
}

// blocked is an identity request that waits for credit of its answer: the window of 1 is used up.
func (t *trial) blocked() (*session, *request) {
	s := t.live(window(1))
	r := s.request(identityCap, thrifty)
	a := r.open("long", "media:")
	for range 3 {
		a.give(x)
	}
	a.finish()
	r.chunks(1)
	return s, r
}

func creditUndirected(t *trial) {
	s, r := t.blocked()
	stream := r.first(kStreamStart).stream()
	before := s.probe("").metaUint("drops_total")
	r.send(creditFrame("sideways", stream, 5), creditFrame("", stream, 5).without(xMeta), creditFrame("request", stream, 5))
	s.roundTrip()
	t.ensure(len(r.all(kChunk)) == 1, nil, "no CHUNK for a CREDIT without the direction response", "%d CHUNKs", len(r.all(kChunk)))
	if after := s.probe("").metaUint("drops_total"); after < before+2 {
		t.fail(fmt.Sprintf("drops_total of %d or more", before+2), "%d", after)
	}
	r.grant(2)
	r.wantAnswer([]byte("xxx"))
	s.finish()
}

func creditStrays(t *trial) {
	s, r := t.blocked()
	r.send(creditFrame("response", "no such stream", 5))
	s.send(creditFrame("response", "x", 5).with(xID, newUUID()), creditFrame("request", "x", 5).with(xID, uint64(77)))
	done := s.call(identityCap, []byte("done"))
	done.wantEnd()
	done.send(creditFrame("response", done.first(kStreamStart).stream(), 3))
	s.roundTrip()
	t.ensure(len(r.all(kChunk)) == 1, nil, "no CHUNK for the CREDIT of another stream", "%d CHUNKs", len(r.all(kChunk)))
	r.grant(2)
	r.wantAnswer([]byte("xxx"))
	n := len(done.all())
	s.finish()
	t.ensure(len(done.all()) == n, nil, "no answer to a CREDIT after the terminal", "%d more frames", len(done.all())-n)
}

func creditSaturates(t *trial) {
	s, r := t.blocked()
	r.grant(0)
	s.roundTrip()
	t.ensure(len(r.all(kChunk)) == 1, nil, "no CHUNK for a grant of 0", "%d CHUNKs", len(r.all(kChunk)))
	r.grant(1<<64 - 1)
	r.grant(1<<64 - 1)
	r.wantAnswer([]byte("xxx"))
	s.goesOn()
}
