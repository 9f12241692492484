package conform

import "fmt"

func heartbeatChecks() []check {
	return []check{
		{id: "heartbeat-reply", rule: "R-4.4", title: "a probe is answered with its id, the pool map and three totals", run: heartbeatReply},
		{id: "heartbeat-once", rule: "R-4.1", title: "each of 300 probes is answered once, in order", run: heartbeatOnce},
		{id: "heartbeat-under-load", rule: "R-4.3",
			title: "probes are answered while requests stand and wait for credit, input, or their turn", run: heartbeatUnderLoad},
		{id: "heartbeat-while-busy", rule: "R-4.12", title: "probes are answered while handlers keep every processor busy",
			needs: []string{"spin"}, run: heartbeatWhileBusy},
		{id: "capacities-apply", rule: "R-5.20", title: "desired_capacities are applied before the reply, which shows them", run: capacitiesApply},
		{id: "capacities-all-or-none", rule: "R-4.2",
			title: "one unknown pool refuses the whole batch with UNKNOWN_POOL, and nothing is applied", run: capacitiesAllOrNone},
		{id: "capacities-unreadable", rule: "R-4.2",
			title: "capacities that are no object of unsigned numbers in a byte string are refused with UNKNOWN_POOL", run: capacitiesUnreadable},
		{id: "pool-map", rule: "R-5.42", title: "the pool map counts who is served and who waits", run: poolMap},
	}
}

func heartbeatReply(t *trial) {
	s := t.live(defaultLimits())
	for _, id := range []any{uint64(0), uint64(5), uint64(1<<63 - 1), newUUID()} {
		probe := controlFrame(kHeartbeat, id)
		s.send(probe)
		f := s.awaitFrame("the answer to the probe "+idKey(id), func(f frame) bool { return f.kind() == kHeartbeat && idKey(f[xID]) == idKey(id) })
		s.pools(f)
		for _, key := range []string{"drops_total", "stragglers_total", "overruns_total"} {
			_, ok := f.meta()[key].(uint64)
			t.ensure(ok, f, "meta with "+key+", an unsigned number", "it is %v", f.meta()[key])
		}
		_, footprint := f.meta()["footprint_mb"].(uint64)
		_, rss := f.meta()["rss_mb"].(uint64)
		t.ensure(footprint == rss, f, "footprint_mb and rss_mb, or neither", "one of them")
		t.ensure(f[xSeq] == uint64(0) && !f.has(xRoutingID), f, "seq 0 and no routing id", "something else")
	}
	s.goesOn()
}

func heartbeatOnce(t *trial) {
	const probes = 300
	s := t.live(defaultLimits())
	var all []frame
	for range probes {
		all = append(all, heartbeatFrame(""))
	}
	s.send(all...)
	s.answerTo(all[probes-1])
	s.goesOn()
	var answers []frame
	for _, f := range s.frames() {
		if f.kind() == kHeartbeat {
			answers = append(answers, f)
		}
	}
	t.ensure(len(answers) == probes, nil, fmt.Sprintf("%d answers", probes), "%d", len(answers))
	for i, f := range answers {
		t.ensure(idKey(f[xID]) == idKey(all[i][xID]), f, "the answers in the order of the probes", "another order")
	}
}

func heartbeatUnderLoad(t *trial) {
	s, blocked := t.blocked()
	reading := s.request(identityCap)
	reading.open("s", "media:").give(x)
	s.capacities(`{"all":2}`)
	waiting := s.call(identityCap, []byte("waiting"))
	waiting.log("queued")
	if name := t.roles["stall"]; name != "" {
		s.capacities(`{"all":3}`)
		waiting.wantAnswer([]byte("waiting"))
		s.request(name).open("s", text).give(x)
	}
	for range 20 {
		f := s.probe("")
		t.ensure(f.kind() == kHeartbeat, f, "a HEARTBEAT", "another frame")
	}
	t.ensure(blocked.over() == nil && reading.over() == nil, nil, "requests that stand while the probes are answered", "one has ended")
	s.closeInput()
	s.awaitOutputEnd()
}

func heartbeatWhileBusy(t *trial) {
	s := t.live(defaultLimits())
	const handlers = 16
	var busy []*request
	for range handlers {
		busy = append(busy, s.call(t.roles["spin"], []byte("600000")))
	}
	s.awaitPool("all", "the handlers run", func(p pool) bool { return *p.Active == handlers })
	for range 10 {
		s.probe("")
	}
	for _, r := range busy {
		t.ensure(r.over() == nil, r.over(), "a handler that is busy while the probes are answered", "it has ended")
		r.cancel("", "", "")
	}
	for _, r := range busy {
		r.wantErr("CANCELLED", "internal")
	}
	s.goesOn()
}

// configured is what the pool map says of pools.
func (s *session) configured(f frame, names ...string) (all []uint64) {
	pools := s.pools(f)
	for _, name := range names {
		all = append(all, *pools[name].Configured)
	}
	return all
}

func capacitiesApply(t *trial) {
	s := t.live(defaultLimits())
	identity := s.identityPool()
	for _, n := range []uint64{1, 7, 0, 1 << 40} {
		f := s.probe(fmt.Sprintf(`{"all":%d,%q:%d}`, n, identity, n+1))
		got := s.configured(f, "all", identity)
		t.ensure(got[0] == n && got[1] == n+1, f, fmt.Sprintf("configured %d of all and %d of identity", n, n+1), "%v", got)
		got = s.configured(s.probe(""), "all", identity)
		t.ensure(got[0] == n && got[1] == n+1, nil, "the same in the next reply", "%v", got)
	}
	f := s.probe(`{}`)
	t.ensure(s.configured(f, "all")[0] == 1<<40, f, "an empty batch changes nothing", "it does")
	s.goesOn()
}

// identityPool is the name of the singleton pool of identity.
func (s *session) identityPool() string {
	if _, ok := s.pools(s.probe(""))[identityCap]; !ok {
		s.t.fail("a pool "+identityCap, "there is none")
	}
	return identityCap
}

func capacitiesAllOrNone(t *trial) {
	s := t.live(defaultLimits())
	s.capacities(`{"all":5}`)
	for _, batch := range []string{`{"all":2,"conform-no-such-pool":1}`, `{"conform-no-such-pool":1,"all":2}`, `{"zzz":1,"all":2}`,
		`{"AAA":1,"all":2}`} {
		f := s.probe(batch)
		t.ensure(f.is(kErr, "UNKNOWN_POOL", "internal") && !f.has(xRoutingID), f,
			"ERR UNKNOWN_POOL/internal with the probe's id for "+batch, "another frame")
		after := s.probe("")
		t.ensure(s.configured(after, "all")[0] == 5, after, "all stays at 5 after "+batch, "it is %v", s.configured(after, "all"))
	}
	s.goesOn()
}

func capacitiesUnreadable(t *trial) {
	s := t.live(defaultLimits())
	before := s.configured(s.probe(""), "all")[0]
	for _, v := range []any{[]byte(`not json`), []byte(`[]`), []byte(`{"all":-1}`), []byte(`{"all":1.5}`), []byte(`{"all":"2"}`),
		[]byte(`{"all":null}`), `{"all":2}`, uint64(2)} {
		probe := controlFrame(kHeartbeat, newUUID()).with(xMeta, map[string]any{"desired_capacities": v})
		s.send(probe)
		f := s.answerTo(probe)
		t.ensure(f.is(kErr, "UNKNOWN_POOL", "internal"), f, fmt.Sprintf("ERR UNKNOWN_POOL/internal for %v", v), "another frame")
	}
	f := s.probe("")
	t.ensure(s.configured(f, "all")[0] == before, f, "nothing was applied", "something was")
	s.goesOn()
}

func poolMap(t *trial) {
	s, holder, held := t.occupied(defaultLimits())
	var waiting []*request
	for range 3 {
		r := s.call(identityCap, []byte("w"))
		r.log("queued")
		waiting = append(waiting, r)
	}
	for _, name := range []string{"all", s.identityPool()} {
		f := s.probe("")
		p := s.pools(f)[name]
		t.ensure(*p.Active == 1 && *p.Queued == 3, f, name+" with 1 active and 3 queued", "%d active, %d queued", *p.Active, *p.Queued)
	}
	held.finish()
	holder.wantEnd()
	for _, r := range waiting {
		r.wantAnswer([]byte("w"))
	}
	s.awaitIdle()
	s.goesOn()
}
