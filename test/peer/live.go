package peer

import (
	"encoding/json"
	"time"
)

// identityPayload is the nonce of the identity check, wrapped as a byte string (spec/wire.md 6.2).
const identityPayload = "\x47\x66bifaci"

// Hello sends HELLO, waits for the cartridge's, and returns that.
func (l *Link) Hello() Frame {
	l.t.Helper()
	l.Send(HelloFrame(l.opts.limits))
	hello := l.Await("the cartridge's HELLO", func(f Frame) bool { return f.Type() == TypeHello })
	agree := func(key string, ours uint64) uint64 {
		theirs, ok := hello.Meta()[key].(uint64)
		if !ok || theirs == 0 {
			l.t.Fatalf("peer: the cartridge's HELLO has the %s %v", key, hello.Meta()[key])
		}
		return min(ours, theirs)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limits = Limits{agree("max_frame", l.opts.limits.MaxFrame), agree("max_chunk", l.opts.limits.MaxChunk),
		agree("max_reorder_buffer", l.opts.limits.MaxReorderBuffer), agree("initial_credit", l.opts.limits.InitialCredit)}
	return hello
}

// Limits are the negotiated limits; before the HELLO the proposed ones.
func (l *Link) Limits() Limits {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.limits
}

// Identity makes the identity check (spec/wire.md 6.2).
func (l *Link) Identity() {
	l.t.Helper()
	r := l.Request("cap:effect=none", WithRouting(uint64(0)))
	s := r.Open("identity-verify", "media:")
	s.Payload([]byte(identityPayload))
	s.End()
	r.End()
	r.WantEnd()
	if got := r.Content(); string(got) != identityPayload[1:] {
		l.t.Fatalf("peer: the identity check came back as %x, want %x", got, identityPayload[1:])
	}
	r.Forget()
}

// Policy sends a policy.
func (l *Link) Policy(name string, allowed bool) { l.t.Helper(); l.Send(PolicyFrame(name, allowed)) }

// Live makes the link live: HELLO, identity check, a policy that allows everything. It returns the cartridge's HELLO.
func (l *Link) Live() Frame {
	l.t.Helper()
	hello := l.Hello()
	l.Identity()
	l.Policy("online", true)
	return hello
}

// Probe sends a heartbeat and waits for its answer, a HEARTBEAT or an ERR. desired is the JSON of an operator's capacities, or
// empty.
func (l *Link) Probe(desired string) Frame {
	l.t.Helper()
	probe := HeartbeatFrame(desired)
	l.Send(probe)
	key := IDKey(probe[KeyID])
	return l.Await("the answer to a heartbeat", func(f Frame) bool { return IDKey(f[KeyID]) == key })
}

// Pool is one member of the pool map.
type Pool struct {
	Declared, Configured, Active, Queued uint64
	Available                            *uint64
}

// Pools is the pool map of a probe's answer.
func (l *Link) Pools(reply Frame) map[string]Pool {
	l.t.Helper()
	raw, _ := reply.Meta()["pools"].([]byte)
	var pools map[string]Pool
	if err := json.Unmarshal(raw, &pools); err != nil {
		l.t.Fatalf("peer: the pools %q of %s: %v", raw, reply, err)
	}
	if _, ok := pools["all"]; !ok {
		l.t.Fatalf("peer: the pools %q have no all", raw)
	}
	return pools
}

// AwaitPool probes until a pool satisfies what is wanted.
func (l *Link) AwaitPool(name, what string, want func(Pool) bool) {
	l.t.Helper()
	l.Poll("pool "+name+": "+what, func() bool { return want(l.Pools(l.Probe(""))[name]) })
}

// pollInterval is the pause between two looks at something that tells nobody when it changes.
const pollInterval = 10 * time.Millisecond

// Poll looks again and again until done reports true.
func (l *Link) Poll(what string, done func() bool) {
	l.t.Helper()
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for end := time.Now().Add(l.opts.patience); !done(); <-tick.C {
		if time.Now().After(end) {
			l.fatal(what, "it did not come within "+l.opts.patience.String())
		}
	}
}

// AwaitIdle probes until no pool has anybody active or in line.
func (l *Link) AwaitIdle() {
	l.t.Helper()
	l.AwaitPool("all", "nobody active, nobody in line", func(p Pool) bool { return p.Active == 0 && p.Queued == 0 })
}
