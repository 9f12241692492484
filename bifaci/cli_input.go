package bifaci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stdio"
	"github.com/pipe-cartridge/pipe/stages"
)

// cliPackage gives the arguments of a command as input streams, in declaration order.
type cliPackage struct {
	run    *cliRun
	values []*cliValue

	mu   sync.Mutex
	open []itemSource
}

func (p *cliPackage) stream(_ context.Context, n int) (*InputStream, error) {
	if n >= len(p.values) {
		return nil, io.EOF
	}
	v := p.values[n]
	s := &InputStream{media: v.media, sequence: v.arg.IsSequence}
	limit := p.run.c.opts.maxItemSize
	switch v.kind {
	case fromStdin:
		s.unbounded = true
		s.src = p.run.stdin.stream(p.run.maxChunk)
	case fromFiles:
		s.src = &fileSource{paths: v.files, argURN: v.arg.MediaURN, whole: v.arg.IsSequence, chunk: p.run.maxChunk, limit: limit}
	default:
		s.src = &bytesSource{b: v.bytes}
	}
	p.mu.Lock()
	p.open = append(p.open, s.src)
	p.mu.Unlock()
	return s, nil
}

// close ends what the handler has left open.
func (p *cliPackage) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.open {
		s.discard()
	}
}

// plainItem is an item that never was on the wire.
func plainItem(b []byte) Item { return Item{Bytes: b} }

// plainPiece is [plainItem] for Forward.
func plainPiece(it Item, err error) (stages.Piece, error) {
	if err != nil {
		return stages.Piece{}, err
	}
	enc := append(frame.AppendBytesHead(nil, len(it.Bytes)), it.Bytes...)
	return stages.NewPiece(enc, false), nil
}

// bytesSource is one value.
type bytesSource struct {
	b    []byte
	done bool
}

func (s *bytesSource) next(context.Context) (Item, error) {
	if s.done {
		return Item{}, io.EOF
	}
	s.done = true
	return plainItem(s.b), nil
}

func (s *bytesSource) piece(ctx context.Context) (stages.Piece, error) {
	return plainPiece(s.next(ctx))
}
func (s *bytesSource) discard() { s.done = true }

// fileSource reads files when they are consumed: one item per file of a sequence, pieces of a scalar's one file.
type fileSource struct {
	paths  []string
	argURN string
	whole  bool
	chunk  int
	limit  int64 // bytes of an item; 0 for none
	f      *os.File
}

func (s *fileSource) next(context.Context) (Item, error) {
	for {
		if s.f == nil {
			if len(s.paths) == 0 {
				return Item{}, io.EOF
			}
			f, err := os.Open(s.paths[0])
			if err != nil {
				return Item{}, s.unreadable(s.paths[0], err)
			}
			s.f, s.paths = f, s.paths[1:]
			if s.whole {
				return s.readWhole()
			}
		}
		buf := make([]byte, s.chunk)
		n, err := s.f.Read(buf)
		if n > 0 {
			return plainItem(buf[:n]), nil
		}
		name := s.f.Name()
		closeErr := s.closeFile()
		if err != nil && !errors.Is(err, io.EOF) {
			return Item{}, s.unreadable(name, err)
		}
		if closeErr != nil {
			return Item{}, s.unreadable(name, closeErr)
		}
	}
}

func (s *fileSource) readWhole() (Item, error) {
	name := s.f.Name()
	var r io.Reader = s.f
	if s.limit > 0 {
		r = io.LimitReader(s.f, s.limit+1)
	}
	b, err := io.ReadAll(r)
	if err = errors.Join(err, s.closeFile()); err != nil {
		return Item{}, s.unreadable(name, err)
	}
	if s.limit > 0 && int64(len(b)) > s.limit {
		return Item{}, failure.Newf(failure.ItemTooLarge, failure.Resource, "%s: the file exceeds %d bytes", name, s.limit).ForArgument(s.argURN)
	}
	return plainItem(b), nil
}

func (s *fileSource) unreadable(path string, err error) error {
	return failure.Newf(failure.FilePath, failure.Input, "%s: unreadable: %w", path, err).ForArgument(s.argURN)
}

func (s *fileSource) closeFile() error {
	f := s.f
	s.f = nil
	return f.Close()
}

func (s *fileSource) piece(ctx context.Context) (stages.Piece, error) { return plainPiece(s.next(ctx)) }

func (s *fileSource) discard() {
	s.paths = nil
	if s.f != nil {
		err := s.closeFile()
		_ = err // nothing more was wanted of it
	}
}

// cliStdin is standard input, read whole at most once, or as a stream by one argument.
type cliStdin struct {
	r    io.Reader
	once sync.Once
	all  []byte
	err  error

	mu     sync.Mutex
	source *stdinSource
}

// available reports whether standard input can hold a value: a terminal cannot (spec/manifest-cli.md 10.4).
func (s *cliStdin) available() bool {
	if s.r == nil {
		return false
	}
	f, ok := s.r.(*os.File)
	return !ok || !stdio.IsTerminal(f)
}

func (s *cliStdin) readAll() ([]byte, error) {
	s.once.Do(func() { s.all, s.err = io.ReadAll(s.r) })
	return s.all, s.err
}

// stream makes the one live stream of standard input.
func (s *cliStdin) stream(chunk int) itemSource {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.source = &stdinSource{r: s.r, chunk: chunk, reads: make(chan stdinRead), done: make(chan struct{})}
	return s.source
}

// close ends the live stream as if the input had ended; it reports whether there was one.
func (s *cliStdin) close() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.source != nil && s.source.end()
}

// stop ends the live stream when the command is over, and releases its reader where that can be done.
func (s *cliStdin) stop() {
	if !s.close() {
		return
	}
	if f, ok := s.r.(*os.File); ok && f == os.Stdin {
		return // the process is about to end
	}
	if c, ok := s.r.(io.Closer); ok {
		err := c.Close()
		_ = err // it was closed to release its reader
	}
}

// stdinRead is what one read gave.
type stdinRead struct {
	b   []byte
	err error
}

// stdinSource hands standard input on as it comes: one read is one item. A goroutine reads, one item ahead, because a read of
// standard input cannot be interrupted everywhere; it ends with the input, or at its next read after the stream was ended.
type stdinSource struct {
	r     io.Reader
	chunk int
	start sync.Once
	reads chan stdinRead
	done  chan struct{}
	ended sync.Once
}

func (s *stdinSource) next(ctx context.Context) (Item, error) {
	s.start.Do(func() { go s.read() })
	select {
	case <-s.done:
		return Item{}, io.EOF
	default:
	}
	select {
	case r := <-s.reads:
		if r.err != nil {
			if errors.Is(r.err, io.EOF) {
				s.end()
				return Item{}, io.EOF
			}
			return Item{}, fmt.Errorf("reading standard input: %w", r.err)
		}
		return plainItem(r.b), nil
	case <-s.done:
		return Item{}, io.EOF
	case <-ctx.Done():
		return Item{}, context.Cause(ctx)
	}
}

func (s *stdinSource) read() {
	for {
		buf := make([]byte, s.chunk)
		n, err := s.r.Read(buf)
		if n > 0 && !s.give(stdinRead{b: buf[:n]}) {
			return
		}
		if err != nil {
			s.give(stdinRead{err: err})
			return
		}
	}
}

func (s *stdinSource) give(r stdinRead) bool {
	select {
	case s.reads <- r:
		return true
	case <-s.done:
		return false
	}
}

func (s *stdinSource) piece(ctx context.Context) (stages.Piece, error) {
	return plainPiece(s.next(ctx))
}

func (s *stdinSource) discard() { s.end() }

// end ends the stream; it reports whether that was new.
func (s *stdinSource) end() (first bool) {
	s.ended.Do(func() { close(s.done); first = true })
	return first
}
