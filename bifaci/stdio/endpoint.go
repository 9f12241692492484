package stdio

import (
	"errors"
	"fmt"
	"os"
	"sync/atomic"
	"syscall"
	"time"
)

// ErrInterrupted is what reads and writes return after Interrupt, for ever. Nothing was lost on the way: what was read
// or written before was returned.
var ErrInterrupted = errors.New("stdio: interrupted")

const (
	endpointOpen = iota
	endpointInterrupted
	endpointClosed
)

// endpoint is one end of a pipe, or a file or terminal in its place, together with how far it has come in life.
type endpoint struct {
	file   *os.File
	raw    syscall.RawConn
	inPoll bool         // waits in Go's poller, so that a deadline wakes it
	isPipe bool         // has a capacity; a socket has none
	state  atomic.Int32 // only ever rises
}

func newEndpoint(file *os.File) (*endpoint, error) {
	raw, err := file.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file.Name(), err)
	}
	return &endpoint{
		file:   file,
		raw:    raw,
		inPoll: file.SetDeadline(time.Time{}) == nil,
		isPipe: info.Mode()&os.ModeNamedPipe != 0,
	}, nil
}

// advance moves the state up and reports whether that changed anything.
func (e *endpoint) advance(state int32) bool {
	for {
		now := e.state.Load()
		if now >= state {
			return false
		}
		if e.state.CompareAndSwap(now, state) {
			return true
		}
	}
}

// stopped is the error of every call after Interrupt or Close, nil before.
func (e *endpoint) stopped() error {
	switch e.state.Load() {
	case endpointInterrupted:
		return ErrInterrupted
	case endpointClosed:
		return os.ErrClosed
	}
	return nil
}

// failure names what a failed call failed of: a deadline that passed and a closed descriptor are our own doing.
func (e *endpoint) failure(op string, err error) error {
	if stopped := e.stopped(); stopped != nil {
		err = stopped
	}
	var named *os.PathError
	if errors.As(err, &named) {
		return err
	}
	return &os.PathError{Op: op, Path: e.file.Name(), Err: err}
}

func (e *endpoint) close() error {
	if !e.advance(endpointClosed) {
		return nil
	}
	return e.file.Close()
}
