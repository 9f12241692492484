package stdio

import (
	"io"
	"os"
	"sync/atomic"
	"time"
)

// grownPipeBytes is what a pipe that was seen full is grown to. Not before: the pipes of one user share 64 MiB.
const grownPipeBytes = 1 << 20

// In is the reading end of a link. One goroutine reads at a time; Interrupt and Close may come from any other.
type In struct {
	end     *endpoint
	reading atomic.Bool // a Read is in or near its system call
	grown   bool        // growing was tried, or is not needed; owned by the reader
}

func newIn(file *os.File) (*In, error) {
	end, err := newEndpoint(file)
	if err != nil {
		return nil, err
	}
	return &In{end: end, grown: !end.isPipe}, nil
}

// Read reads what is there, waiting for the first byte. It returns [io.EOF] when all writers are gone. It is woken by
// [In.Interrupt], after which this and every later call fails with [ErrInterrupted], and by Close ([os.ErrClosed]);
// see [In.Interruptible] for when. A pipe that is seen full is grown to 1 MiB, once.
func (in *In) Read(p []byte) (int, error) {
	in.reading.Store(true) // before the look at the state: Interrupt does these two the other way round
	defer in.reading.Store(false)
	if err := in.end.stopped(); err != nil {
		return 0, in.end.failure("read", err)
	}
	n, err := in.end.file.Read(p)
	if !in.grown && n == len(p) && n > 0 {
		in.growIfFull(n)
	}
	if err != nil && err != io.EOF {
		err = in.end.failure("read", err)
	}
	return n, err
}

// growIfFull grows the pipe if it was full before the n bytes were taken out. Pages that are partly filled count as
// full, so full means within a quarter of the capacity. A refusal is final: asking again would be refused again.
func (in *In) growIfFull(n int) {
	_ = in.end.raw.Control(func(fd uintptr) {
		capacity, ok := pipeCapacity(fd)
		if !ok || capacity >= grownPipeBytes {
			in.grown = true
			return
		}
		if n < capacity/4*3 {
			n += pipeQueued(fd)
		}
		if n >= capacity/4*3 {
			in.grown = true
			growPipe(fd, grownPipeBytes)
		}
	})
}

// Interruptible reports whether Interrupt and Close wake a Read that is waiting already. They do so on pipes and
// sockets. On a file or a terminal, and where the package comment lists an exception, such a Read goes on until
// something arrives.
func (in *In) Interruptible() bool {
	return in.end.inPoll || canCancelReads
}

// Interrupt makes the present and every future Read fail with [ErrInterrupted]. It never blocks on the peer, may be
// called from any goroutine and any number of times; the descriptor stays open.
func (in *In) Interrupt() {
	if in.end.advance(endpointInterrupted) {
		in.wake()
	}
}

// Close interrupts a Read and closes the descriptor. A second call does nothing.
func (in *In) Close() error {
	if in.end.state.Load() == endpointOpen && !in.end.inPoll {
		in.Interrupt() // a poller wakes readers on close, nothing else does
	}
	return in.end.close()
}

func (in *In) wake() {
	if in.end.inPoll {
		_ = in.end.file.SetReadDeadline(time.Unix(1, 0)) // fails on a closed file only, where nobody waits
		return
	}
	cancelRead(in)
}
