//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package stdio

import (
	"os"
	"syscall"
	"unsafe"
)

// IsTerminal reports whether f is a terminal: something that has line settings. The null device, pipes, sockets and
// files are none. f stays in the mode it is in, unlike after [os.File.Fd].
func IsTerminal(f *os.File) bool {
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	terminal := false
	err = raw.Control(func(fd uintptr) {
		var settings syscall.Termios
		_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, getTermios, uintptr(unsafe.Pointer(&settings)))
		terminal = errno == 0
	})
	return err == nil && terminal
}
