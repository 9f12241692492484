package stats

import "fmt"

// Reason says why a frame was dropped. The set is closed; counting under any other value panics.
type Reason uint8

// The reasons of.
const (
	NoRoute         Reason = iota // the id was never known here, or a CREDIT without a direction
	ChannelClosed                 // the output had failed already
	CreditViolation               // a CHUNK beyond the granted window
	Cancelled                     // the request was cancelled or poisoned and its handler still runs
	MasterDied                    // the process or relay behind the route is gone

	reasonCount = iota
)

var reasonNames = [reasonCount]string{"no_route", "channel_closed", "credit_violation", "cancelled", "master_died"}

// String is the stable name of, as in the JSON of a snapshot.
func (r Reason) String() string {
	if int(r) < len(reasonNames) {
		return reasonNames[r]
	}
	return fmt.Sprintf("reason(%d)", uint8(r))
}

// MarshalText writes the name, so that a Reason can be a key of a JSON object. A value outside the set is an error.
func (r Reason) MarshalText() ([]byte, error) {
	if int(r) >= len(reasonNames) {
		return nil, fmt.Errorf("stats: drop reason %d: not one of 0 to %d", uint8(r), reasonCount-1)
	}
	return []byte(reasonNames[r]), nil
}

// UnmarshalText reads a name that MarshalText wrote. Any other text is an error and leaves r alone.
func (r *Reason) UnmarshalText(text []byte) error {
	for i, name := range reasonNames {
		if string(text) == name {
			*r = Reason(i)
			return nil
		}
	}
	return fmt.Errorf("stats: drop reason %.40q: not one of %q", text, reasonNames)
}
