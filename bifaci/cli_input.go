package bifaci

import (
	"context"
	"errors"
	"io"
	"os"
	"sync"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/feed"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stages"
)

// cliPackage gives the arguments of a command as input streams, in declaration order.
type cliPackage struct {
	run    *cliRun
	values []*cliValue
	life   context.Context // of the request, which its feeds end with

	turn chan struct{}        // capacity 1: one goroutine opens a feed at a time
	live map[int]*InputStream // the feeds that are open; guarded by turn

	mu    sync.Mutex
	open  []itemSource
	feeds []*feed.Feed
}

func (p *cliPackage) stream(ctx context.Context, n int) (*InputStream, error) {
	if n >= len(p.values) {
		return nil, io.EOF
	}
	v := p.values[n]
	s := &InputStream{media: v.media, sequence: v.arg.IsSequence}
	limit := p.run.c.opts.maxItemSize
	switch v.kind {
	case fromFeed:
		return p.feed(ctx, n, v)
	case fromStdin:
		s.unbounded = true
		s.src = newStdinSource(p.run.stdin, p.run.maxChunk)
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

// close ends what the handler has left open, and waits until devices are released.
func (p *cliPackage) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range p.open {
		s.discard()
	}
	for _, f := range p.feeds {
		f.Cancel(ErrClosed)
	}
	for _, f := range p.feeds {
		<-f.Done()
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

// fileSource reads files when they are consumed: one item per file of a sequence, pieces of a scalar's one file. An empty
// file is one empty piece, as an empty input is.
type fileSource struct {
	paths  []string
	argURN string
	whole  bool
	chunk  int   // bytes of a piece at most
	limit  int64 // bytes of an item; 0 for none
	f      *os.File
	read   bool // something of f was given out
}

func (s *fileSource) next(ctx context.Context) (Item, error) {
	for {
		if ctx.Err() != nil {
			return Item{}, context.Cause(ctx) // a disk does not block, so nobody else would look
		}
		if s.f == nil {
			if len(s.paths) == 0 {
				return Item{}, io.EOF
			}
			f, err := os.Open(s.paths[0])
			if err != nil {
				return Item{}, s.unreadable(s.paths[0], err)
			}
			s.f, s.paths, s.read = f, s.paths[1:], false
			if s.whole {
				return s.readWhole()
			}
		}
		buf := make([]byte, s.chunk)
		n, err := s.f.Read(buf)
		if n > 0 {
			s.read = true
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
		if !s.read {
			return plainItem(nil), nil
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
