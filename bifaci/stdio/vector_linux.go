//go:build linux && !stdio_portable

package stdio

import (
	"syscall"
	"unsafe"
)

// maxVectors is IOV_MAX of the kernel, the most buffers one writev(2) takes.
const maxVectors = 1024

// vector is the array of a writev(2), kept for the next one.
type vector []syscall.Iovec

// writeVector hands the buffers to the kernel as they lie.
func (o *Out) writeVector(bufs [][]byte) (written int64, err error) {
	for len(bufs) > 0 {
		var taken int
		taken, o.vector = fillVector(o.vector[:0], bufs)
		bufs = bufs[taken:]
		n, err := o.writeAll(o.vector)
		written += n
		if err != nil {
			return written, err
		}
	}
	return written, nil
}

// fillVector appends buffers until the vector is full, and returns how many of them it went through. Empty ones are
// left out, a vector of nothing but those would look like a write of nothing.
func fillVector(v vector, bufs [][]byte) (taken int, filled vector) {
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

// writeAll writes everything in v, waiting in the poller as often as it takes, and leaves it cleared so that it pins no
// payload.
func (o *Out) writeAll(v vector) (written int64, err error) {
	defer clear(v)
	left := v
	waitErr := o.end.raw.Write(func(fd uintptr) bool {
		for len(left) > 0 {
			n, _, errno := syscall.Syscall(syscall.SYS_WRITEV, fd, uintptr(unsafe.Pointer(&left[0])), uintptr(len(left)))
			switch errno {
			case 0:
				written += int64(n)
				left = advanceVector(left, int(n))
				if len(left) > 0 {
					o.growOnce(fd) // a short write: the pipe is full
				}
			case syscall.EINTR:
			case syscall.EAGAIN:
				if !o.growOnce(fd) {
					return false
				}
			default:
				err = errno
				return true
			}
		}
		return true
	})
	if err == nil {
		err = waitErr
	}
	return written, err
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
func advanceVector(v vector, n int) vector {
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
