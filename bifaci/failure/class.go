package failure

// Class says who has to act on a failure (spec/wire.md 10.1).
type Class string

// The five classes of protocol version 6. Input and User are permanent: the same request fails again. The others may
// be retried.
const (
	Input       Class = "input"       // the caller's data or arguments are wrong
	Resource    Class = "resource"    // a bound was reached: memory, queue, disk
	Environment Class = "environment" // something outside is missing or broken: a device, a program, the link
	Internal    Class = "internal"    // a defect of the cartridge or of the host
	User        Class = "user"        // a person decided so
)

// Valid reports whether c is one of the five classes, spelled exactly.
func (c Class) Valid() bool {
	switch c {
	case Input, Resource, Environment, Internal, User:
		return true
	}
	return false
}
