package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

// errInterrupted is why a run ends that was interrupted before there was a request.
var errInterrupted = errors.New("interrupted")

// stopper obeys interrupts: the first one closes the live feeds of the request and ends a streaming input, so that the run ends well; the
// second one cancels the request.
type stopper struct {
	err    io.Writer
	cancel context.CancelCauseFunc // of the whole run

	mu        sync.Mutex
	call      *host.Call // nil before there is one
	input     *tap       // nil when the input cannot be ended early
	told      int        // interrupts since there is a call
	cancelled bool       // a second interrupt has cancelled the request
}

// obey takes interrupts until done.
func (s *stopper) obey(interrupts <-chan os.Signal, done <-chan struct{}) {
	for {
		select {
		case <-interrupts:
			s.interrupt()
		case <-done:
			return
		}
	}
}

// running says which request an interrupt is about from now on, and which input.
func (s *stopper) running(call *host.Call, input *tap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.call, s.input = call, input
}

func (s *stopper) interrupt() {
	s.mu.Lock()
	call, input := s.call, s.input
	if call != nil {
		s.told++
	}
	told := s.told
	s.cancelled = s.cancelled || told == 2
	s.mu.Unlock()
	switch {
	case call == nil:
		s.cancel(errInterrupted)
	case told == 1:
		fmt.Fprintln(s.err, "bifaci run: live input is closed; interrupt again to cancel")
		if err := call.CloseFeeds(""); err != nil {
			fmt.Fprintln(s.err, "bifaci run: closing the feeds:", err) // the link is ending, and so is the run
		}
		if input != nil {
			input.end()
		}
	case told == 2:
		call.Cancel(failure.UserCancel())
	}
}

// byHand reports whether err is how an interrupted run ends.
func (s *stopper) byHand(err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	var cancelled *failure.CancelledError
	return errors.Is(err, errInterrupted) || s.cancelled && errors.As(err, &cancelled)
}

// tap is an input that can be ended before its source ends. What was read from the source before counts.
type tap struct {
	source io.Reader
	pieces chan piece
	ended  chan struct{} // closed by end
	once   sync.Once
	rest   piece // of the reader's
}

type piece struct {
	b   []byte
	err error
}

// newTap reads source on a goroutine that ends with the source or, after its next piece, with the tap.
func newTap(source io.Reader) *tap {
	t := &tap{source: source, pieces: make(chan piece), ended: make(chan struct{})}
	go t.pump() // a read that nothing ends is left behind, for the process to end with it
	return t
}

func (t *tap) pump() {
	// While the reader has one buffer the other one is filled, and not before that is taken the first again.
	buffers := [2][]byte{make([]byte, readSize), make([]byte, readSize)}
	for i := 0; ; i = 1 - i {
		n, err := t.source.Read(buffers[i])
		select {
		case t.pieces <- piece{buffers[i][:n], err}:
		case <-t.ended:
			return
		}
		if err != nil {
			return
		}
	}
}

// end makes the input end behind what was read. It may be called any number of times.
func (t *tap) end() { t.once.Do(func() { close(t.ended) }) }

// Read waits for the source, or for the end.
func (t *tap) Read(p []byte) (int, error) {
	if len(t.rest.b) == 0 && t.rest.err == nil {
		select {
		case t.rest = <-t.pieces:
		case <-t.ended:
			select {
			case t.rest = <-t.pieces: // it was read before
			default:
				return 0, io.EOF
			}
		}
	}
	if len(t.rest.b) == 0 {
		return 0, t.rest.err
	}
	n := copy(p, t.rest.b)
	t.rest.b = t.rest.b[n:]
	return n, nil
}
