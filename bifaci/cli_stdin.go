package bifaci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"sync/atomic"

	"github.com/pipe-cartridge/pipe/bifaci/stdio"
	"github.com/pipe-cartridge/pipe/stages"
)

// cliStdin is standard input: read whole, once, or given to one argument as a live stream. It is read on a goroutine of its own,
// because a read of standard input cannot be interrupted everywhere; whoever wants what was read waits under a context.
type cliStdin struct {
	r     io.Reader
	whole *wholeInput   // of readAll; used by the goroutine that plans
	ended chan struct{} // closed when a live stream is to end behind what was read of it

	mu      sync.Mutex
	live    bool // there is a live stream that goes on
	reading bool // a read is under way
	stopped bool // no further read may begin
}

// wholeInput is everything that was read; done is closed when it is there.
type wholeInput struct {
	b    []byte
	err  error
	done chan struct{}
}

func newCLIStdin(r io.Reader) *cliStdin { return &cliStdin{r: r, ended: make(chan struct{})} }

// available reports whether standard input can hold a value: a terminal cannot (spec/manifest-cli.md 10.4).
func (s *cliStdin) available() bool {
	if s.r == nil {
		return false
	}
	f, ok := s.r.(*os.File)
	return !ok || !stdio.IsTerminal(f)
}

// readAll waits for the end of the input, or of ctx. Later calls give the same bytes.
func (s *cliStdin) readAll(ctx context.Context) ([]byte, error) {
	if s.whole == nil {
		w := &wholeInput{done: make(chan struct{})}
		s.whole = w
		s.begin()
		go func() { // ends with the input; stop releases it
			w.b, w.err = io.ReadAll(s.r)
			s.done()
			close(w.done)
		}()
	}
	select {
	case <-s.whole.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if err := s.whole.err; err != nil {
		return nil, fmt.Errorf("reading standard input: %w", err)
	}
	return s.whole.b, nil
}

// setLive says that an argument gets the input as it comes.
func (s *cliStdin) setLive() {
	s.mu.Lock()
	s.live = true
	s.mu.Unlock()
}

// close ends the live stream as if the input had ended behind what was read so far. It reports whether there was one that went on.
func (s *cliStdin) close() bool {
	was := s.over()
	if was {
		close(s.ended)
	}
	return was
}

// over notes that no live stream goes on, and reports whether that is new.
func (s *cliStdin) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.live
	s.live = false
	return was
}

// stop ends reading when the command is over, and releases a read under way where that can be done.
func (s *cliStdin) stop() {
	s.mu.Lock()
	s.stopped = true
	reading := s.reading
	s.mu.Unlock()
	if !reading || s.r == os.Stdin { // os.Stdin is not ours to close, and the process is about to end
		return
	}
	if c, ok := s.r.(io.Closer); ok {
		err := c.Close()
		_ = err // it was closed to release its reader
	}
}

// begin announces a read; it is refused when the command is over.
func (s *cliStdin) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reading = !s.stopped
	return s.reading
}

func (s *cliStdin) done() {
	s.mu.Lock()
	s.reading = false
	s.mu.Unlock()
}

// stdinSource hands standard input on as it comes: one read is one item. Its goroutine reads one item ahead; it ends with the
// input, before its next read after the stream was ended or discarded, or with the command.
type stdinSource struct {
	in        *cliStdin
	chunk     int // bytes of an item at most
	start     sync.Once
	reads     chan stdinRead
	held      atomic.Bool   // a read has returned and was not taken yet
	left      chan struct{} // closed when the goroutine has ended
	discarded chan struct{}
	once      sync.Once // closes discarded
}

// stdinRead is what one read gave.
type stdinRead struct {
	b   []byte
	err error
}

func newStdinSource(in *cliStdin, chunk int) *stdinSource {
	return &stdinSource{in: in, chunk: chunk, reads: make(chan stdinRead), left: make(chan struct{}), discarded: make(chan struct{})}
}

func (s *stdinSource) next(ctx context.Context) (Item, error) {
	s.start.Do(func() { go s.read() })
	select {
	case r := <-s.reads:
		return s.took(r)
	case <-s.in.ended:
	case <-s.left:
	case <-ctx.Done():
		return Item{}, context.Cause(ctx)
	}
	if s.held.Load() { // it was read before the end
		select {
		case r := <-s.reads:
			return s.took(r)
		case <-s.left:
		case <-ctx.Done():
			return Item{}, context.Cause(ctx)
		}
	}
	return Item{}, io.EOF
}

func (s *stdinSource) took(r stdinRead) (Item, error) {
	switch {
	case r.err == nil:
		return plainItem(r.b), nil
	case errors.Is(r.err, io.EOF):
		return Item{}, io.EOF
	}
	return Item{}, fmt.Errorf("reading standard input: %w", r.err)
}

// read is the goroutine. A read that filled little of the buffer is copied, so that an item that is kept holds no more than it is.
func (s *stdinSource) read() {
	defer close(s.left)
	var buf []byte
	for s.goesOn() && s.in.begin() {
		if buf == nil {
			buf = make([]byte, s.chunk)
		}
		n, err := s.in.r.Read(buf)
		s.held.Store(true)
		s.in.done()
		if err != nil {
			s.in.over() // an interrupt has nothing left to end
		}
		if n > 0 {
			b := buf[:n]
			if n < len(buf)/2 {
				b = bytes.Clone(b)
			} else {
				buf = nil
			}
			if !s.give(stdinRead{b: b}) {
				return
			}
		}
		if err != nil {
			s.give(stdinRead{err: err})
			return
		}
		s.held.Store(false)
	}
}

func (s *stdinSource) goesOn() bool {
	select {
	case <-s.in.ended:
		return false
	case <-s.discarded:
		return false
	default:
		return true
	}
}

func (s *stdinSource) give(r stdinRead) bool {
	select {
	case s.reads <- r:
		return true
	case <-s.discarded:
		return false
	}
}

func (s *stdinSource) piece(ctx context.Context) (stages.Piece, error) {
	return plainPiece(s.next(ctx))
}

func (s *stdinSource) discard() {
	s.in.over()
	s.once.Do(func() { close(s.discarded) })
}
