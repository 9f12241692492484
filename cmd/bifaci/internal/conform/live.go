package conform

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// pollInterval is the pause between two looks at something that tells nobody when it changes.
const pollInterval = 5 * time.Millisecond

// hello makes the handshake and returns the cartridge's HELLO.
func (s *session) hello() frame {
	s.send(helloFrame(s.proposal))
	f := s.awaitFrame("the cartridge's HELLO", func(f frame) bool { return f.kind() == kHello })
	agree := func(key string, ours uint64) uint64 {
		theirs, ok := f.meta()[key].(uint64)
		s.t.ensure(ok && theirs > 0, f, "a HELLO with a positive "+key, "it is %v", f.meta()[key])
		return min(ours, theirs)
	}
	agreed := limits{agree("max_frame", s.proposal.maxFrame), agree("max_chunk", s.proposal.maxChunk),
		agree("max_reorder_buffer", s.proposal.maxReorder), agree("initial_credit", s.proposal.credit)}
	s.mu.Lock()
	s.agreed = agreed
	s.mu.Unlock()
	return f
}

// verify makes the identity check (spec/wire.md 6.2).
func (s *session) verify() {
	r := s.newRequest(withRouting(uint64(0)))
	nonce := []byte("\x66bifaci")
	r.send(reqFrame(identityCap), startFrame("identity-verify", "media:"), chunkFrame("identity-verify", 0, cborOf(nonce)),
		streamEndFrame("identity-verify", 1), endFrame())
	r.wantAnswer(nonce)
}

// live starts the cartridge and makes the link live: HELLO, identity check, a policy that allows everything.
func (t *trial) live(proposal limits) *session {
	s := t.start(proposal)
	shipped := s.pools(s.hello())
	s.verify()
	s.send(policyFrame("online", true))
	if *shipped["all"].Configured > 0 || shipped[identityCap].Configured != nil && *shipped[identityCap].Configured > 0 {
		s.capacities(fmt.Sprintf(`{"all":0,%q:0}`, identityCap)) // checks that need a line make one
	}
	s.patience = t.patience
	return s
}

// roundTrip makes a request and sees it answered: the cartridge has dealt with every frame that was sent before.
func (s *session) roundTrip() {
	want := randomBytes(8)
	s.call(identityCap, want).wantAnswer(want)
}

// goesOn proves that the link lives, and then that it ends well, so that nothing more can come.
func (s *session) goesOn() {
	s.roundTrip()
	s.finish()
}

// probe sends a heartbeat and waits for its answer, a HEARTBEAT or an ERR.
func (s *session) probe(desired string) frame {
	f := heartbeatFrame(desired)
	s.send(f)
	return s.answerTo(f)
}

func (s *session) answerTo(probe frame) frame {
	key := idKey(probe[xID])
	return s.awaitFrame("the answer to heartbeat "+shortID(probe[xID]), func(f frame) bool { return idKey(f[xID]) == key })
}

// capacities sets capacities, which must be accepted.
func (s *session) capacities(desired string) {
	f := s.probe(desired)
	s.t.ensure(f.kind() == kHeartbeat, f, "the capacities "+desired+" are accepted", "they are not")
}

// pool is one member of the pool map.
type pool struct {
	Declared, Configured, Active, Queued *uint64
	Available                            *uint64
	Caps                                 []string
}

// pools reads the pool map of a HELLO or of a probe's answer.
func (s *session) pools(f frame) map[string]pool {
	raw, ok := f.meta()["pools"].([]byte)
	s.t.ensure(ok, f, "meta with pools, a byte string", "pools is %T", f.meta()["pools"])
	var all map[string]pool
	err := json.Unmarshal(raw, &all)
	s.t.ensure(err == nil, f, "pools that are a JSON object of states", "%v", err)
	for name, p := range all {
		for member, v := range map[string]*uint64{"declared": p.Declared, "configured": p.Configured, "active": p.Active, "queued": p.Queued} {
			s.t.ensure(v != nil, f, fmt.Sprintf("pool %s with %s", name, member), "it is missing")
		}
	}
	_, ok = all["all"]
	s.t.ensure(ok, f, "a pool all", "there is none")
	return all
}

// awaitPool probes until a pool is as wanted.
func (s *session) awaitPool(name, what string, want func(pool) bool) {
	end := time.Now().Add(s.patience)
	for {
		f := s.probe("")
		p, ok := s.pools(f)[name]
		s.t.ensure(ok, f, "a pool "+name, "there is none")
		if want(p) {
			return
		}
		s.t.ensure(time.Now().Before(end), f, fmt.Sprintf("pool %s: %s", name, what), "active %d, queued %d, and "+inVain+"%v",
			*p.Active, *p.Queued, s.patience)
		time.Sleep(pollInterval)
	}
}

// occupied makes a live link on which pool all has one place and somebody holds it: an identity request whose body is open.
func (t *trial) occupied(proposal limits) (s *session, holder *request, body *argument) {
	s = t.live(proposal)
	s.capacities(`{"all":1}`)
	holder = s.request(identityCap)
	body = holder.open("held", "media:")
	s.awaitPool("all", "the request holds the only place", func(p pool) bool { return *p.Active == 1 })
	return s, holder, body
}

// inMedia is the media URN of a cap's main input.
func inMedia(capURN string) string {
	c, err := urn.ParseCap(capURN)
	if err != nil || c.In().IsVoid() {
		return "media:"
	}
	return c.In().String()
}

// awaitIdle probes until nobody is active or in line.
func (s *session) awaitIdle() {
	s.awaitPool("all", "nobody active, nobody in line", func(p pool) bool { return *p.Active == 0 && *p.Queued == 0 })
}
