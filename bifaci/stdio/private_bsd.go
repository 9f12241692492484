//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package stdio

import "syscall"

// reopen always fails: opening /dev/fd/N gives another name of the same open file here, not a new one.
func reopen(int, int) (int, error) {
	return -1, syscall.ENOTSUP
}

// replace makes descriptor at another name of fd, inherited by children.
func replace(fd, at int) error {
	return syscall.Dup2(fd, at)
}

// canWait reports whether Go's poller can wait for what stat describes. A named pipe, which unlike others has a link in
// a directory, is left out: kqueue may not tell when its last writer is gone (Go issue 24164).
func canWait(stat *syscall.Stat_t) bool {
	switch stat.Mode & syscall.S_IFMT {
	case syscall.S_IFIFO:
		return stat.Nlink == 0
	case syscall.S_IFSOCK:
		return true
	}
	return false
}
