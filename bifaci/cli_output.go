package bifaci

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stages"
)

// cliSink writes a request's output raw to standard output, and its logs to standard error (spec/manifest-cli.md section 11). Small
// writes coalesce like on a link; items go out at once.
type cliSink struct {
	logMu sync.Mutex // not mu: a log goes out while data waits
	err   io.Writer
	over  bool // the handler has ended; guarded by logMu

	mu       sync.Mutex
	out      *bufio.Writer
	started  bool
	sequence bool
	closed   bool
	broken   error
}

// cliBuffer is how many bytes small writes coalesce to.
const cliBuffer = 4096

func newCLISink(stdout, stderr io.Writer) *cliSink {
	return &cliSink{err: stderr, out: bufio.NewWriterSize(stdout, cliBuffer)}
}

func (s *cliSink) Start(_ context.Context, m stages.Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.started:
		return ErrStarted
	}
	s.started, s.sequence = true, m.Sequence
	return nil
}

func (s *cliSink) Started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started && !s.closed
}

func (s *cliSink) Fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.started && !s.closed
}

// ready starts the stream implicitly and refuses what breaks its mode; the lock is held.
func (s *cliSink) ready(sequence bool) error {
	switch {
	case s.broken != nil:
		return s.broken
	case s.closed:
		return ErrClosed
	case !s.started:
		s.started, s.sequence = true, sequence
	case s.sequence != sequence:
		return ErrStreamMode
	}
	return nil
}

func (s *cliSink) Write(ctx context.Context, p []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.ready(false); err != nil {
		return err
	}
	return s.put(ctx, p)
}

// put writes bytes; the lock is held. An error breaks the output for good.
func (s *cliSink) put(ctx context.Context, p []byte) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	if _, err := s.out.Write(p); err != nil {
		s.broken = fmt.Errorf("writing standard output: %w", err)
	}
	return s.broken
}

func (s *cliSink) EmitValue(ctx context.Context, v any) error { return s.emit(ctx, v, false) }

func (s *cliSink) EmitItem(ctx context.Context, v any, _ []byte) error { return s.emit(ctx, v, true) }

func (s *cliSink) emit(ctx context.Context, v any, sequence bool) error {
	enc, err := frame.AppendValue(nil, v)
	if err != nil {
		return err
	}
	return s.emitEncoded(ctx, enc, sequence, sequence)
}

// emitEncoded writes the content of a value, and flushes it if it must not wait.
func (s *cliSink) emitEncoded(ctx context.Context, enc []byte, sequence, atOnce bool) error {
	content, err := rawContent(enc)
	s.mu.Lock()
	defer s.mu.Unlock()
	if readyErr := s.ready(sequence); readyErr != nil {
		return readyErr
	}
	if err != nil {
		s.broken = err
		return err
	}
	for _, c := range content {
		if err := s.put(ctx, c); err != nil {
			return err
		}
	}
	if atOnce {
		return s.flush()
	}
	return nil
}

// Forward writes a piece at once: on a link it is a CHUNK, which does not wait for more either.
func (s *cliSink) Forward(ctx context.Context, p stages.Piece) error {
	s.mu.Lock()
	sequence := s.started && s.sequence // a piece from the command line has no mode of its own
	s.mu.Unlock()
	return s.emitEncoded(ctx, p.Encoding(), sequence, true)
}

// rawContent is what of a value goes to standard output: a byte string or text itself, the elements of an array, the entry
// "value" of a map; anything else is an error.
func rawContent(enc []byte) ([][]byte, error) {
	shape, content, elements := frame.Split(enc)
	switch shape {
	case frame.ShapeBytes, frame.ShapeText:
		return [][]byte{content}, nil
	case frame.ShapeArray:
		var all [][]byte
		for _, e := range elements {
			shape, content, _ := frame.Split(e)
			if shape != frame.ShapeBytes && shape != frame.ShapeText {
				return nil, notRaw("an array with an element that is neither bytes nor text")
			}
			all = append(all, content)
		}
		return all, nil
	case frame.ShapeMap:
		for _, e := range elements {
			_, _, entry := frame.Split(e)
			keyShape, key, _ := frame.Split(entry[0])
			shape, content, _ := frame.Split(entry[1])
			if keyShape == frame.ShapeText && string(key) == "value" && (shape == frame.ShapeBytes || shape == frame.ShapeText) {
				return [][]byte{content}, nil
			}
		}
		return nil, notRaw("a map without an entry value of bytes or text")
	}
	return nil, notRaw("a value that is neither bytes nor text")
}

func notRaw(what string) error {
	return failure.New(failure.HandlerError, failure.Internal, "the output has "+what+", which cannot be written to standard output")
}

func (s *cliSink) Flush(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.flush()
}

// flush writes out what is buffered; the lock is held.
func (s *cliSink) flush() error {
	if s.broken == nil {
		if err := s.out.Flush(); err != nil {
			s.broken = fmt.Errorf("writing standard output: %w", err)
		}
	}
	return s.broken
}

// flushAll is Flush at the end of a handler that failed: what it has written stays written.
func (s *cliSink) flushAll() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if s.broken != nil {
		return nil // the handler has seen it
	}
	return s.flush()
}

// end says that the handler has ended: what a goroutine that outlives it logs is not written.
func (s *cliSink) end() {
	s.logMu.Lock()
	s.over = true
	s.logMu.Unlock()
}

func (s *cliSink) Close(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	return s.flush()
}

// log writes one line to standard error; a broken standard error is ignored.
func (s *cliSink) log(_ context.Context, rec frame.LogRecord) error {
	s.logMu.Lock()
	defer s.logMu.Unlock()
	if s.over {
		return nil
	}
	_, err := fmt.Fprintf(s.err, "[%s] %s\n", rec.Level, rec.Message)
	_ = err
	return nil
}

func (s *cliSink) finish(float64, string) {}
