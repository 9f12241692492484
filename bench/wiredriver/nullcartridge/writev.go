//go:build linux

package main

import (
	"os"
	"syscall"
	"unsafe"
)

// writev writes the parts in order, without joining them first.
func writev(f *os.File, parts ...[]byte) error {
	iov := make([]syscall.Iovec, 0, 3)
	for {
		iov = iov[:0]
		for i := range parts {
			if n := len(parts[i]); n > 0 {
				iov = append(iov, syscall.Iovec{Base: &parts[i][0], Len: uint64(n)})
			}
		}
		if len(iov) == 0 {
			return nil
		}
		n, _, e := syscall.Syscall(syscall.SYS_WRITEV, f.Fd(), uintptr(unsafe.Pointer(&iov[0])), uintptr(len(iov)))
		if e == syscall.EINTR || e == syscall.EAGAIN {
			continue
		}
		if e != 0 {
			return e
		}
		for i := range parts {
			k := min(int(n), len(parts[i]))
			parts[i] = parts[i][k:]
			n -= uintptr(k)
		}
	}
}
