package stdio

import (
	"syscall"
	"unsafe"
)

// awaitEnd waits until the child of that id has ended and leaves it to be collected, so that neither its id nor its
// group's can be given away meanwhile. It reports false when the system cannot do that.
func awaitEnd(pid int) bool {
	const byPID = 1          // P_PID of <linux/wait.h>
	var info [128 / 8]uint64 // a siginfo_t, which nobody reads
	for {
		_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, byPID, uintptr(pid), uintptr(unsafe.Pointer(&info)),
			syscall.WEXITED|syscall.WNOWAIT, 0, 0)
		if errno != syscall.EINTR {
			return errno == 0
		}
	}
}
