package bifaci

import (
	"fmt"
	"net/http"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Policy is the host's live network policy.
type Policy = frame.Policy

// Reach is what a handler wants to talk to.
type Reach uint8

// The three reaches of a policy (spec/wire.md 6.4).
const (
	ReachThirdParty  Reach = iota + 1 // somebody else's service
	ReachOurServices                  // the host's own services
	ReachTelemetry                    // analytics
)

// String names the reach in messages.
func (r Reach) String() string {
	switch r {
	case ReachThirdParty:
		return "third-party services"
	case ReachOurServices:
		return "our services"
	case ReachTelemetry:
		return "telemetry"
	}
	return fmt.Sprintf("reach(%d)", uint8(r))
}

// NetworkAccess asks the live policy. It is a cheap handle: it may be copied, handed on, used from any goroutine at any rate
// and after the request ended. It never waits.
type NetworkAccess struct{ env environment }

// NetworkRefused says that the policy forbids a reach; returned from a handler it becomes NETWORK_POLICY/user.
type NetworkRefused struct {
	Reach  Reach
	Policy string // the policy's name; empty before the host has sent one
}

// Error names the reach and the policy.
func (e *NetworkRefused) Error() string { return e.FailureMessage() }

// FailureCode implements [failure.Classified].
func (e *NetworkRefused) FailureCode() string { return failure.NetworkPolicy }

// FailureClass implements [failure.Classified].
func (e *NetworkRefused) FailureClass() failure.Class { return failure.User }

// FailureMessage implements [failure.Classified].
func (e *NetworkRefused) FailureMessage() string {
	if e.Policy == "" {
		return fmt.Sprintf("%s may not be reached: the host has sent no network policy yet", e.Reach)
	}
	return fmt.Sprintf("%s may not be reached under the network policy %q", e.Reach, e.Policy)
}

// FailureArgURN implements [failure.Classified].
func (e *NetworkRefused) FailureArgURN() string { return "" }

// Allow returns nil, or a [*NetworkRefused]: then the call must not be made. Ask before every call: the answer is the policy
// of this moment, not of the request's start.
func (n NetworkAccess) Allow(r Reach) error {
	p, ok := n.env.policy()
	allowed := false
	switch r {
	case ReachThirdParty:
		allowed = p.ThirdParty
	case ReachOurServices:
		allowed = p.OurServices
	case ReachTelemetry:
		allowed = p.Telemetry
	}
	if !ok || !allowed {
		return &NetworkRefused{Reach: r, Policy: p.Name}
	}
	return nil
}

// Transport asks before every request and passes what is allowed to base; nil means [http.DefaultTransport].
func (n NetworkAccess) Transport(r Reach, base http.RoundTripper) http.RoundTripper {
	if base == nil {
		base = http.DefaultTransport
	}
	return askingTransport{n, r, base}
}

type askingTransport struct {
	network NetworkAccess
	reach   Reach
	base    http.RoundTripper
}

// RoundTrip implements [http.RoundTripper].
func (t askingTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if err := t.network.Allow(t.reach); err != nil {
		if req.Body != nil {
			err2 := req.Body.Close()
			_ = err2 // the refusal is what the caller needs to know
		}
		return nil, err
	}
	return t.base.RoundTrip(req)
}
