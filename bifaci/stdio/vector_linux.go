//go:build linux && !stdio_portable

package stdio

import (
	"syscall"
	"unsafe"
)

// maxVectors is IOV_MAX of the kernel, the most buffers one writev(2) takes.
const maxVectors = 1024

// vector is the array of a writev(2) and how far it has got, kept for the next one.
type vector struct {
	iovecs  []syscall.Iovec
	left    []syscall.Iovec // of iovecs, not written yet
	written int64           // bytes
	err     error
	push    func(fd uintptr) bool // Out.push, made once
}

// writeVector hands the buffers to the kernel as they lie.
func (o *Out) writeVector(bufs [][]byte) (written int64, err error) {
	for len(bufs) > 0 {
		var taken int
		taken, o.vector.iovecs = fillVector(o.vector.iovecs[:0], bufs)
		bufs = bufs[taken:]
		n, err := o.writeAll()
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// fillVector appends buffers until the vector is full, and returns how many of them it went through. Empty ones are
// left out, a vector of nothing but those would look like a write of nothing.
func fillVector(v []syscall.Iovec, bufs [][]byte) (taken int, filled []syscall.Iovec) {
	for _, buf := range bufs {
		if len(v) == maxVectors {
			break
		}
		taken++
		if len(buf) > 0 {
			iovec := syscall.Iovec{Base: unsafe.SliceData(buf)}
			iovec.SetLen(len(buf))
			v = append(v, iovec)
		}
	}
	return taken, v
}

// writeAll writes the whole vector, waiting in the poller as often as it takes, and leaves it cleared so that it pins no
// payload.
func (o *Out) writeAll() (written int64, err error) {
	v := &o.vector
	if v.push == nil {
		v.push = o.push
	}
	v.left, v.written, v.err = v.iovecs, 0, nil
	waitErr := o.end.raw.Write(v.push)
	clear(v.iovecs)
	v.left = nil
	if v.err == nil {
		v.err = waitErr
	}
	return v.written, v.err
}

// push writes until everything is written, which it reports, or the pipe is full.
func (o *Out) push(fd uintptr) bool {
	v := &o.vector
	for len(v.left) > 0 {
		n, _, errno := syscall.Syscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&v.left[0])), uintptr(len(v.left)))
		switch errno {
		case 0:
			v.written += int64(n)
			v.left = advanceVector(v.left, int(n))
			if len(v.left) > 0 {
				o.growOnce(fd) // a short write: the pipe is full
			}
		case syscall.EINTR:
		case syscall.EAGAIN:
			if !o.growOnce(fd) {
				return false
			}
		default:
			v.err = errno
			return true
		}
	}
	return true
}

// growOnce grows a full pipe the first time it is asked to, and reports whether there is room now.
func (o *Out) growOnce(fd uintptr) bool {
	if o.grown {
		return false
	}
	o.grown = true
	capacity, ok := pipeCapacity(fd)
	return ok && capacity < grownPipeBytes && growPipe(fd, grownPipeBytes)
}

// advanceVector drops the first n bytes of v.
func advanceVector(v []syscall.Iovec, n int) []syscall.Iovec {
	for len(v) > 0 && n >= int(v[0].Len) {
		n -= int(v[0].Len)
		v = v[1:]
	}
	if n > 0 {
		rest := unsafe.Slice(v[0].Base, v[0].Len)[n:]
		v[0].Base = unsafe.SliceData(rest)
		v[0].SetLen(len(rest))
	}
	return v
}
