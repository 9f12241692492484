package stdio

import (
	"os"
	"time"
)

// Out is the writing end of a link. One goroutine writes at a time; Interrupt and Close may come from any other.
type Out struct {
	end    *endpoint
	grown  bool      // growing was tried, or is not needed; owned by the writer
	single [1][]byte // Write's argument as a vector
	vector vector    // what WriteBuffers keeps between calls
}

func newOut(file *os.File) (*Out, error) {
	end, err := newEndpoint(file)
	if err != nil {
		return nil, err
	}
	return &Out{end: end, grown: !end.isPipe}, nil
}

// Write writes all of p or says why not. It waits while the pipe is full, and grows it to 1 MiB when that happens for
// the first time. It is woken by [Out.Interrupt], after which this and every later call fails with [ErrInterrupted], and
// by Close ([os.ErrClosed]). When the reader is gone it fails with [syscall.EPIPE].
func (o *Out) Write(p []byte) (int, error) {
	o.single[0] = p
	n, err := o.WriteBuffers(o.single[:])
	o.single[0] = nil
	return int(n), err
}

// WriteBuffers writes the buffers one after the other as if they were one, with as few system calls as the system
// allows, and returns how many bytes went out. It changes neither bufs nor what is in it and keeps nothing. Waiting and
// errors are those of [Out.Write].
func (o *Out) WriteBuffers(bufs [][]byte) (int64, error) {
	if err := o.end.stopped(); err != nil {
		return 0, o.end.failure("write", err)
	}
	n, err := o.writeVector(bufs)
	if err != nil {
		err = o.end.failure("write", err)
	}
	return n, err
}

// Interrupt makes the present and every future write fail with [ErrInterrupted]. A write that waits is woken on pipes
// and sockets only. It never blocks, and may be called from any goroutine and any number of times.
func (o *Out) Interrupt() {
	if o.end.advance(endpointInterrupted) && o.end.inPoll {
		_ = o.end.file.SetWriteDeadline(time.Unix(1, 0)) // fails on a closed file only, where nobody waits
	}
}

// Close interrupts a write and closes the descriptor: the reader sees the end of the input once it has read what was
// written. A second call does nothing.
func (o *Out) Close() error {
	return o.end.close()
}
