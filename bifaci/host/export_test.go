package host

import "io"

// What tests of package host_test need of the inside.

// StandIn is a program that a test lets run in place of a process.
type StandIn struct {
	In, Out, Err interface { // what the host writes to, and what it reads
		io.ReadWriteCloser
		Interrupt()
	}
	PID  int
	Done <-chan struct{}
	Wait func() (interface {
		Success() bool
		String() string
	}, error)
	Kill func() error
}

// WithStandIns makes a host run what launch gives in place of processes.
func WithStandIns(launch func(path string) (StandIn, error)) Option {
	return func(o *options) {
		o.launch = func(path string, _ *options) (program, error) {
			s, err := launch(path)
			return program{in: s.In, out: s.Out, err: s.Err, pid: s.PID, done: s.Done, kill: s.Kill, wait: func() (status, error) {
				st, err := s.Wait()
				return st, err
			}}, err
		}
	}
}

// AllStates are the states of a cartridge, CanBecome the steps between them.
func AllStates() (all []State) {
	for s := range states {
		all = append(all, s)
	}
	return all
}

// CanBecome reports whether one step leads from one state to the other.
func CanBecome(from, to State) bool { return from.canBecome(to) }

// Step makes a step of a lifecycle of its own.
func Step(from, to State) State {
	l := lifecycle{state: from}
	l.to(to)
	return l.state
}
