// The bytes of POLICY are OUR ASSUMPTION (spec/wire.md 6.4): the sources name the frame and its effect, and none gives
// its encoding. Everything that depends on the assumption, beside the type number, stands in this file.

package frame

import "strings"

// Policy says which reaches over the network the operator allows.
type Policy struct {
	Name        string // never blank; shown to the user when something is refused
	OurServices bool   // the vendor's own services
	Telemetry   bool
	ThirdParty  bool // services of anybody else
}

// Policy reads a POLICY. All four entries are required and nothing else is allowed beside them; the id is integer 0. The
// error is a [*SyntaxError] with the token bad-policy and ends the connection: going on under the old policy would be
// unsafe.
func (f *Frame) Policy() (Policy, error) {
	if f.ID != UintID(0) {
		return Policy{}, &SyntaxError{Token: TokenBadPolicy, Key: int(KeyID), Offset: Nowhere,
			Detail: "id " + f.ID.String() + ", want integer 0"}
	}
	var network metaValue
	w := walkMeta(f)
	for key, v, ok := w.next(); ok; key, v, ok = w.next() {
		if string(key) != "network" {
			return Policy{}, meaningf(TokenBadPolicy, "unknown entry %.40q, want network only", key)
		}
		network = v
	}
	switch {
	case w.broken:
		return Policy{}, meaningf(TokenBadPolicy, "meta cannot be read")
	case !network.present():
		return Policy{}, meaningf(TokenBadPolicy, "network is missing")
	case network[0]&majorMask != majorMap:
		return Policy{}, meaningf(TokenBadPolicy, "network is %s, want a map", describe(network, 0))
	}
	return readNetwork(network)
}

func readNetwork(raw []byte) (Policy, error) {
	var (
		p                           Policy
		name, ours, telemetry, them bool // seen and right
	)
	w := walkMap(raw)
	for key, v, more := w.next(); more; key, v, more = w.next() {
		switch string(key) {
		case "name":
			p.Name, name = v.words()
		case "our_services":
			p.OurServices, ours = v.bool()
		case "telemetry":
			p.Telemetry, telemetry = v.bool()
		case "third_party":
			p.ThirdParty, them = v.bool()
		default:
			return Policy{}, meaningf(TokenBadPolicy, "unknown entry network.%.40s", key)
		}
	}
	switch {
	case w.broken:
		return Policy{}, meaningf(TokenBadPolicy, "network has a key that is no text")
	case !name:
		return Policy{}, meaningf(TokenBadPolicy, "network.name is missing, blank or no text")
	case !ours:
		return Policy{}, meaningf(TokenBadPolicy, "network.our_services is missing or not true or false")
	case !telemetry:
		return Policy{}, meaningf(TokenBadPolicy, "network.telemetry is missing or not true or false")
	case !them:
		return Policy{}, meaningf(TokenBadPolicy, "network.third_party is missing or not true or false")
	}
	return p, nil
}

// NewPolicy is the POLICY that says p.
func NewPolicy(p Policy) *Frame {
	f := &Frame{Type: TypePolicy, ID: UintID(0), Meta: AppendPolicyMeta(nil, p)}
	f.Has = f.Has.With(KeyMeta)
	return f
}

// AppendPolicyMeta appends the meta of the POLICY that says p.
func AppendPolicyMeta(dst []byte, p Policy) []byte {
	dst = putKey(mapHead(dst, true), "network")
	dst = putText(mapHead(dst, true, true, true, true), "name", p.Name)
	dst = putFlag(dst, "our_services", p.OurServices)
	dst = putFlag(dst, "telemetry", p.Telemetry)
	return putFlag(dst, "third_party", p.ThirdParty)
}

// Valid reports whether p may be sent: it has a name.
func (p Policy) Valid() bool { return strings.TrimSpace(p.Name) != "" }
