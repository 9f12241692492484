package stdio

import (
	"syscall"
	"unsafe"
)

// From <linux/fcntl.h> and <asm-generic/ioctls.h>; FIONREAD has the same value as TIOCINQ, which package syscall knows on
// every architecture.
const (
	fSetPipeSize = 1031
	fGetPipeSize = 1032
)

// pipeCapacity is the size of the pipe behind fd in bytes.
func pipeCapacity(fd uintptr) (bytes int, ok bool) {
	n, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, fGetPipeSize, 0)
	return int(n), errno == 0
}

// pipeQueued is the number of bytes that wait in the pipe behind fd; 0 when the system does not tell.
func pipeQueued(fd uintptr) int {
	var n int32
	if _, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCINQ, uintptr(unsafe.Pointer(&n))); errno != 0 {
		return 0
	}
	return int(n)
}

// growPipe asks for a larger pipe and reports whether it was given. A user who has used up the share of pipe memory is
// refused (EPERM), which costs speed and nothing else.
func growPipe(fd uintptr, bytes int) bool {
	_, _, errno := syscall.Syscall(syscall.SYS_FCNTL, fd, fSetPipeSize, uintptr(bytes))
	return errno == 0
}
