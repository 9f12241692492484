package pools

import (
	"bytes"
	"encoding/json"
	"fmt"
)

const (
	// All names the pool that holds every pattern. A manifest cannot declare a pool of this name, but it can give it a
	// capacity.
	All = "all"
	// Unlimited is the capacity that never says no, wherever a capacity is written.
	Unlimited uint64 = 0

	// MetaPools is the meta key of HELLO and of heartbeat replies that carries [States] as JSON in a byte string.
	MetaPools = "pools"
	// MetaDesired is the meta key of heartbeat probes that carries [Desired] as JSON in a byte string.
	MetaDesired = "desired_capacities"
)

// State is what one pool reports about itself. Counts are requests; 0 as a capacity is [Unlimited].
type State struct {
	Declared   uint64 `json:"declared"`   // from the manifest
	Configured uint64 `json:"configured"` // the operator's; starts as Declared
	// Available is what the cartridge says it can serve at present; nil when it never said. A pointer to 0 and nil
	// admit the same and are different states.
	Available *uint64 `json:"available,omitempty"`
	Active    uint64  `json:"active"` // admitted and not finished
	Queued    uint64  `json:"queued"` // waiting because of this pool
	// Caps are the members, canonical URNs: of [All] in ascending order, of a declared pool as declared, none for a
	// singleton. States of one table share the slice; do not change it.
	Caps []string `json:"caps,omitempty"`
}

// Effective is the bound that admission uses; see the function of this name.
func (s State) Effective() uint64 {
	if s.Available == nil {
		return Effective(s.Configured, 0, false)
	}
	return Effective(s.Configured, *s.Available, true)
}

// States are the states of all pools by name.
type States map[string]State

// Encode writes the map as it travels: compact, names in ascending byte order, members in the order of [State].
// The same map always gives the same bytes.
func (s States) Encode() ([]byte, error) {
	if s == nil {
		return []byte("{}"), nil
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b) // an Encoder and not Marshal, because it can leave < > & in names as they are
	enc.SetEscapeHTML(false)
	if err := enc.Encode(map[string]State(s)); err != nil {
		return nil, fmt.Errorf("encode pool states: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// MarshalJSON is [States.Encode].
func (s States) MarshalJSON() ([]byte, error) { return s.Encode() }

// UnmarshalJSON is [DecodeStates].
func (s *States) UnmarshalJSON(b []byte) error {
	decoded, err := DecodeStates(b)
	if err == nil {
		*s = decoded
	}
	return err
}

// Desired are configured capacities by pool name, the operator's wish in a heartbeat probe.
type Desired map[string]uint64

// Effective is the smaller of the two capacities, where 0 and an absent self-report count as infinity. An infinite result
// is 0.
func Effective(configured, available uint64, hasAvailable bool) uint64 {
	switch {
	case !hasAvailable || available == Unlimited:
		return configured
	case configured == Unlimited:
		return available
	default:
		return min(configured, available)
	}
}
