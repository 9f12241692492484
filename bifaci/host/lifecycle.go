package host

import "fmt"

// State is where a cartridge is in its life.
type State uint8

// The states.
const (
	Registered  State = iota // known, not running
	Spawning                 // its program is being started
	Handshaking              // it runs: HELLO, identity, policy
	Live                     // it serves
	Draining                 // it finishes what it has begun and takes nothing new
	Dead                     // it has ended; the next request starts it again
	Failed                   // it cannot be used until [Host.Reset]
	states
)

var stateNames = [states]string{"registered", "spawning", "handshaking", "live", "draining", "dead", "failed"}

// String is the state's name in lower case.
func (s State) String() string {
	if s < states {
		return stateNames[s]
	}
	return fmt.Sprintf("state %d", uint8(s))
}

// MarshalText gives the name.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// transitions are the steps that allows, with those of R-12.15 (Reset) and R-12.20 (the identity returns).
var transitions = [states][]State{
	Registered:  {Spawning},
	Spawning:    {Handshaking, Failed},
	Handshaking: {Live, Failed},
	Live:        {Draining, Dead, Registered},
	Draining:    {Dead, Live},
	Dead:        {Spawning},
	Failed:      {Registered},
}

// canBecome reports whether one step leads from s to next.
func (s State) canBecome(next State) bool {
	for _, t := range transitions[s] {
		if t == next {
			return true
		}
	}
	return false
}

// lifecycle is a state that only allowed steps change. Guarded by the host's lock.
type lifecycle struct {
	state State
	steps func(from, to State) // told about every step; may be nil
}

// to makes a step. One that is not allowed is a defect of the host.
func (l *lifecycle) to(next State) {
	if !l.state.canBecome(next) {
		panic(fmt.Sprintf("host: a cartridge cannot go from %s to %s", l.state, next))
	}
	from := l.state
	l.state = next
	if l.steps != nil {
		l.steps(from, next)
	}
}
