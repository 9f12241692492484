package conform

import "strings"

func policyChecks() []check {
	return []check{
		{id: "early-req-refused", rule: "wire 6.3",
			title: "a REQ before POLICY is refused with PROTOCOL_VIOLATION/internal and never dispatched", run: earlyReqRefused},
		{id: "early-req-once", rule: "R-3.6", title: "a REQ before POLICY is answered once, whatever follows it", run: earlyReqOnce},
		{id: "early-control", rule: "wire 6.3", title: "HEARTBEAT is answered and CANCEL heard before POLICY", run: earlyControl},
		{id: "policy-live", rule: "R-8.57", title: "a new POLICY holds for running handlers: NETWORK_POLICY/user names it",
			needs: []string{"reach"}, run: policyLive},
		{id: "policy-malformed", rule: "R-8.54", title: "a malformed POLICY ends the connection", run: policyMalformed},
	}
}

// anyCap is a cap of the cartridge that is not identity, or one that nobody serves.
func (t *trial) anyCap() string {
	for def := range t.manifest.Caps() {
		if def.URN != identityCap {
			return def.URN
		}
	}
	return nobodysCap
}

func earlyReqRefused(t *trial) {
	for _, routing := range []any{nil, uint64(7), newUUID()} {
		s := t.start(defaultLimits())
		s.hello()
		s.verify()
		r := s.call(t.anyCap(), []byte("early"), withRouting(routing))
		f := r.wantErr("PROTOCOL_VIOLATION", "internal")
		t.ensure(idKey(f[xRoutingID]) == idKey(routing), f, "the routing id of the REQ, "+idKey(routing), "another")
		s.send(policyFrame("online", true))
		s.goesOn()
		t.ensure(len(r.all()) == 1, r.all()[len(r.all())-1], "nothing but the ERR", "%d frames", len(r.all()))
	}
}

func earlyReqOnce(t *trial) {
	s := t.start(defaultLimits())
	s.hello()
	r := s.request(t.anyCap())
	a := r.open("arg", "media:")
	a.force(cborOf([]byte("x")))
	a.finish()
	r.send(endFrame(), cancelFrame("", "", ""))
	s.verify()
	s.send(policyFrame("online", true))
	s.goesOn()
	terminals := r.all(kEnd, kErr)
	t.ensure(len(terminals) == 1, nil, "one ERR", "%d terminals", len(terminals))
}

func earlyControl(t *trial) {
	s := t.start(defaultLimits())
	s.hello()
	t.ensure(s.probe("").kind() == kHeartbeat, nil, "a HEARTBEAT is answered before POLICY", "it is not")
	r := s.request(identityCap)
	r.open("open", "media:")
	r.send(creditFrame("response", "nobody's", 1), closeFrame(""))
	r.cancel("CANCELLED", "user", "Cancelled by user")
	r.wantErr("CANCELLED", "user")
	s.goesOn()
}

func policyLive(t *trial) {
	s := t.live(defaultLimits())
	r := s.call(t.roles["reach"], []byte("x"))
	s.awaitPool("all", "the handler runs", func(p pool) bool { return *p.Active == 1 })
	s.roundTrip()
	t.ensure(r.over() == nil, r.over(), "a handler that is allowed goes on", "it has ended")
	s.send(policyFrame("conform-says-no", false))
	f := r.wantErr("NETWORK_POLICY", "user")
	t.ensure(strings.Contains(f.message(), "conform-says-no"), f, "a message that names the policy conform-says-no", "%q", f.message())
	s.finish()
}

func policyMalformed(t *trial) {
	network := func() map[string]any {
		return policyFrame("x", true).meta()["network"].(map[string]any)
	}
	for what, edit := range map[string]func(f frame, n map[string]any){
		"without name":         func(_ frame, n map[string]any) { delete(n, "name") },
		"with an empty name":   func(_ frame, n map[string]any) { n["name"] = "" },
		"without a permission": func(_ frame, n map[string]any) { delete(n, "telemetry") },
		"with a number":        func(_ frame, n map[string]any) { n["third_party"] = uint64(1) },
		"with an unknown key":  func(_ frame, n map[string]any) { n["more"] = true },
		"without network":      func(f frame, _ map[string]any) { f[xMeta] = map[string]any{} },
		"without meta":         func(f frame, _ map[string]any) { delete(f, xMeta) },
	} {
		s := t.live(defaultLimits())
		n := network()
		f := policyFrame("x", true).with(xMeta, map[string]any{"network": n})
		edit(f, n)
		s.send(f, barrier())
		s.wantEnded("a POLICY " + what)
		s.wantRefusal()
	}
}
