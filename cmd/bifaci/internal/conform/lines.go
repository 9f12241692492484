package conform

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

func lineChecks() []check {
	return []check{
		{id: "queue-notice", rule: "R-5.30",
			title: "a request that has to wait gets LOG queued with its position and the pool; others get none", run: queueNotice},
		{id: "dequeued-first", rule: "R-5.32", title: "LOG dequeued comes before any other frame of a request that waited", run: dequeuedFirst},
		{id: "queue-order", rule: "R-5.52", title: "waiting requests start in the order in which they came", run: queueOrder},
		{id: "arrival-no-overtake", rule: "R-5.13",
			title: "a request that arrives with free room does not overtake one that waits for it", run: arrivalNoOvertake},
		{id: "capacity-raised", rule: "R-5.16", title: "a raised capacity lets waiting requests go at once", run: capacityRaised},
		{id: "capacity-lowered", rule: "R-5.16",
			title: "a lowered capacity interrupts nobody and lets nobody in until there is room", run: capacityLowered},
		{id: "waiting-body", rule: "R-3.22",
			title: "a body that came while the request waited is served whole, also when it ended with ERR", run: waitingBody},
		{id: "slot-freed", rule: "R-5.15", title: "every ending of a request gives its place back once", run: slotFreed},
		{id: "panic-frees", rule: "R-6.90", title: "a panic in a handler is ERR HANDLER_ERROR/internal and gives the place back",
			needs: []string{"panic"}, run: panicFrees},
		{id: "self-report-wakes", rule: "R-5.23",
			title: "a raised self-report lets a waiting request go without any frame of the host's", needs: []string{"available",
				"hold"}, run: selfReportWakes},
		{id: "shared-pool", rule: "R-5.10", title: "a declared pool bounds its members together, and its name is in the notice",
			needs: []string{"hold", "hold2"}, run: sharedPool},
	}
}

func queueNotice(t *trial) {
	s, holder, held := t.occupied(defaultLimits())
	var waiting []*request
	for position := range 3 {
		r := s.call(identityCap, []byte("w"))
		f := r.log("queued")
		t.ensure(f.class() == "internal" && strings.Contains(f.message(), fmt.Sprint(position+1)) && strings.Contains(f.message(), "all"), f,
			fmt.Sprintf("class internal and a message with position %d and pool all", position+1), "%q", f.message())
		waiting = append(waiting, r)
	}
	held.finish()
	holder.wantEnd()
	for _, r := range append(waiting, holder) {
		r.wantEnd()
	}
	s.goesOn()
	t.ensure(len(holder.all(kLog)) == 0, nil, "no notice for a request that did not wait", "%v", holder.all(kLog))
}

func dequeuedFirst(t *trial) {
	s, _, held := t.occupied(defaultLimits())
	r := s.call(identityCap, []byte("w"))
	r.log("queued")
	held.finish()
	r.wantAnswer([]byte("w"))
	s.goesOn()
	flow := r.all(kLog, kStreamStart, kChunk, kStreamEnd, kEnd)
	t.ensure(len(flow) > 2 && flow[0].metaText("level") == "queued" && flow[1].metaText("level") == "dequeued" && flow[1].class() == "internal", flow[1],
		"LOG queued, LOG dequeued (class internal), then the answer", "another order")
}

func queueOrder(t *trial) {
	s, _, held := t.occupied(defaultLimits())
	var waiting []*request
	for range 6 {
		r := s.call(identityCap, []byte("w"))
		r.log("queued")
		waiting = append(waiting, r)
	}
	held.finish()
	for _, r := range waiting {
		r.wantEnd()
	}
	s.goesOn()
	var order []string
	for _, f := range s.frames() {
		if f.kind() == kLog && f.metaText("level") == "dequeued" {
			order = append(order, idKey(f[xID]))
		}
	}
	for i, r := range waiting {
		t.ensure(i < len(order) && order[i] == idKey(r.id), nil, fmt.Sprintf("%s as number %d out of the line", r, i+1), "the order %v", order)
	}
}

func arrivalNoOvertake(t *trial) {
	s, holder, held := t.occupied(defaultLimits())
	first := s.request(identityCap)
	a := first.open("s", "media:")
	first.log("queued")
	// The raised capacity and the arrival come in one piece: there is room, and somebody waits for it.
	second := s.newRequest()
	s.send(heartbeatFrame(`{"all":2}`), second.addressed(reqFrame(identityCap)))
	second.send(endFrame())
	second.log("queued")
	first.log("dequeued")
	a.finish()
	first.wantEnd()
	second.wantEnd()
	held.finish()
	holder.wantEnd()
	s.goesOn()
}

func capacityRaised(t *trial) {
	s, holder, held := t.occupied(defaultLimits())
	var waiting []*request
	for range 4 {
		r := s.call(identityCap, []byte("w"))
		r.log("queued")
		waiting = append(waiting, r)
	}
	s.capacities(`{"all":0}`)
	for _, r := range waiting {
		r.wantAnswer([]byte("w"))
	}
	t.ensure(holder.over() == nil, nil, "the first request goes on", "it has ended")
	held.finish()
	holder.wantEnd()
	s.goesOn()
}

func capacityLowered(t *trial) {
	s := t.live(defaultLimits())
	var running []*argument
	for range 3 {
		a := s.request(identityCap).open("s", "media:")
		a.give(x)
		a.r.chunks(1)
		running = append(running, a)
	}
	s.capacities(`{"all":1}`)
	late := s.call(identityCap, []byte("late"))
	late.log("queued")
	for _, a := range running[:2] {
		a.give(x)
		a.finish()
		a.r.wantAnswer([]byte("xx"))
		s.awaitPool("all", "the others run, one waits", func(p pool) bool { return *p.Queued == 1 })
	}
	s.awaitPool("all", "one runs, one waits", func(p pool) bool { return *p.Active == 1 && *p.Queued == 1 })
	running[2].finish()
	running[2].r.wantAnswer([]byte("x"))
	late.wantAnswer([]byte("late"))
	s.goesOn()
}

func waitingBody(t *trial) {
	s, _, held := t.occupied(window(8))
	var want []byte
	r := s.request(identityCap)
	a, b := r.open("a", "media:"), r.open("b", "media:")
	for i := range 8 {
		piece := randomBytes(10 + i)
		want = append(want, piece...)
		a.force(cborOf(piece))
		second := randomBytes(5)
		want = append(want, second...)
		b.force(cborOf(second))
	}
	a.end()
	b.finish()
	broken := s.request(identityCap)
	broken.s1(chunkFrame("s", 0, x), errFrame("SOURCE_BROKE", "resource", "gone"))
	r.log("queued")
	broken.log("queued")
	held.finish()
	r.wantAnswer(want)
	broken.wantErr("SOURCE_BROKE", "resource")
	s.goesOn()
}

func slotFreed(t *trial) {
	s := t.live(defaultLimits())
	s.capacities(`{"all":1}`)
	for range 3 {
		s.roundTrip()
		wrong := s.request(identityCap)
		wrong.s1(chunkFrame("s", 7, x))
		wrong.wantErr("PROTOCOL_ERROR", "internal")
		stopped := s.request(identityCap)
		stopped.open("s", "media:")
		stopped.cancel("", "", "")
		stopped.wantErr("CANCELLED", "internal")
		s.call(nobodysCap, nil).wantErr("NO_HANDLER", "environment")
		if name := t.roles["fail"]; name != "" {
			s.call(name, []byte("MADE_UP|input|as told")).wantErr("MADE_UP", "input")
		}
	}
	s.awaitIdle()
	s.goesOn()
}

func panicFrees(t *trial) {
	s := t.live(defaultLimits())
	s.capacities(`{"all":1}`)
	for range 5 {
		s.call(t.roles["panic"], []byte("now")).wantErr("HANDLER_ERROR", "internal")
	}
	s.awaitIdle()
	s.goesOn()
}

// holding is a request for hold that has started and reads.
func (s *session) holding(role string) *argument {
	r := s.request(s.t.roles[role])
	a := r.open("s", inMedia(s.t.roles[role]))
	return a
}

// poolOf is the name of a cap's own pool.
func poolOf(capURN string) string {
	c, err := urn.ParseCap(capURN)
	if err != nil {
		return capURN
	}
	return c.String()
}

func selfReportWakes(t *trial) {
	s := t.live(defaultLimits())
	name := poolOf(t.roles["hold"])
	s.call(t.roles["available"], []byte(name+" 1")).wantEnd()
	first := s.holding("hold")
	first.r.chunks(1)
	second := s.holding("hold")
	second.r.thrifty = true
	second.r.log("queued")
	s.call(t.roles["available"], []byte(name+" 2"), thrifty).wantEnd()
	second.r.log("dequeued") // nothing was sent since
	second.r.chunks(1)
	first.finish()
	second.finish()
	first.r.wantAnswer([]byte("started"))
	second.r.wantAnswer([]byte("started"))
	s.goesOn()
}

func sharedPool(t *trial) {
	s := t.live(defaultLimits())
	members := []string{poolOf(t.roles["hold"]), poolOf(t.roles["hold2"])}
	shared := ""
	for name, p := range s.pools(s.probe("")) {
		if name != "all" && slices.Contains(p.Caps, members[0]) && slices.Contains(p.Caps, members[1]) {
			shared = name
		}
	}
	if shared == "" {
		t.skip("no declared pool has both hold and hold2")
	}
	s.capacities(fmt.Sprintf(`{%q:2}`, shared))
	one, two := s.holding("hold"), s.holding("hold2")
	one.r.chunks(1)
	two.r.chunks(1)
	three := s.holding("hold")
	f := three.r.log("queued")
	t.ensure(strings.Contains(f.message(), shared), f, "a message that names the pool "+shared, "%q", f.message())
	p := s.pools(s.probe(""))[shared]
	t.ensure(*p.Active == 2 && *p.Queued == 1, nil, shared+" with 2 active and 1 queued", "%d active, %d queued", *p.Active, *p.Queued)
	s.roundTrip() // another cap passes the one that waits
	two.finish()
	two.r.wantAnswer([]byte("started"))
	three.r.log("dequeued")
	one.finish()
	three.finish()
	one.r.wantEnd()
	three.r.wantEnd()
	s.goesOn()
}
