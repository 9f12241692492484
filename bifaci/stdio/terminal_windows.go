package stdio

import (
	"os"
	"syscall"
)

// IsTerminal reports whether f is a console. The null device, pipes and files are none.
func IsTerminal(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	console := false
	err = raw.Control(func(handle uintptr) {
		var mode uint32
		console = syscall.GetConsoleMode(syscall.Handle(handle), &mode) == nil
	})
	return err == nil && console
}
