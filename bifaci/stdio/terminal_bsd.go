//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package stdio

import "syscall"

const getTermios = syscall.TIOCGETA
