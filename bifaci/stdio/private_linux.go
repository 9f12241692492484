package stdio

import (
	"strconv"
	"syscall"
)

// reopen opens what fd has open a second time, so that its flags are ours alone. Linux does that for pipes and named
// pipes, not for sockets (ENXIO), and not without /proc or across users.
func reopen(fd, mode int) (int, error) {
	return syscall.Open("/proc/self/fd/"+strconv.Itoa(fd), mode, 0)
}

// replace makes descriptor at another name of fd, inherited by children.
func replace(fd, at int) error {
	return syscall.Dup3(fd, at, 0)
}

// canWait reports whether Go's poller can wait for what stat describes.
func canWait(stat *syscall.Stat_t) bool {
	kind := stat.Mode & syscall.S_IFMT
	return kind == syscall.S_IFIFO || kind == syscall.S_IFSOCK
}
