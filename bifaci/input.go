package bifaci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"sync"
	"sync/atomic"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/stages"
)

// Values of InputPackage.taken.
const (
	inputFree  int32 = iota
	inputTaken       // by TakeInput
	inputNamed       // by Input
)

// InputPackage is all input streams of a request, in the order in which they started. Safe for concurrent use.
type InputPackage struct {
	src   packageSource
	taken atomic.Int32

	mu      sync.Mutex
	streams []*InputStream  // resolved so far, in order
	room    [1]*InputStream // of streams, for the usual request
	next    int             // the first that Next has not given out
	err     error           // sticky
}

// packageSource gives the streams of a request one after the other.
type packageSource interface {
	// stream gives stream n, waiting for it; io.EOF when there are only n. It is asked for n = 0, 1, 2, … once each.
	stream(ctx context.Context, n int) (*InputStream, error)
}

// Next returns the next input stream as soon as it has started, and io.EOF after the end of the body. An error of the package
// is returned by every later call as well.
func (p *InputPackage) Next(ctx context.Context) (*InputStream, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		n := p.next
		s, err := p.at(ctx, n)
		if err != nil {
			return nil, err
		}
		if n == p.next { // waited for before it is claimed, so that who gives up leaves no gap
			p.next++
			return s, nil
		}
	}
}

// at gives stream n; any number of goroutines may ask for the same one. p.mu is held, but not while it waits.
func (p *InputPackage) at(ctx context.Context, n int) (*InputStream, error) {
	for {
		if n < len(p.streams) {
			return p.streams[n], nil
		}
		if p.err != nil {
			return nil, p.err
		}
		k := len(p.streams)
		p.mu.Unlock()
		s, err := p.src.stream(ctx, k)
		p.mu.Lock()
		switch {
		case k < len(p.streams): // somebody else was quicker
		case err == nil:
			if p.streams == nil {
				p.streams = p.room[:0]
			}
			p.streams = append(p.streams, s)
		case ctx.Err() != nil && errors.Is(err, context.Cause(ctx)):
			return nil, err // the caller's own context says nothing about the package
		default:
			p.err = err
		}
	}
}

// All is Next as an iterator; it ends after the last stream, or with an error.
func (p *InputPackage) All(ctx context.Context) iter.Seq2[*InputStream, error] {
	return func(yield func(*InputStream, error) bool) {
		for {
			s, err := p.Next(ctx)
			if err == io.EOF {
				return
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
	}
}

// named finds the stream of an argument; streams before it stay for others.
func (p *InputPackage) named(ctx context.Context, mediaURN string) (*InputStream, error) {
	want, err := urn.ParseMedia(mediaURN)
	if err != nil {
		return nil, err
	}
	for n := 0; ; n++ {
		p.mu.Lock()
		s, err := p.at(ctx, n)
		p.mu.Unlock()
		if err == io.EOF {
			return nil, fmt.Errorf("%w %s", ErrMissingArgument, mediaURN)
		}
		if err != nil {
			return nil, err
		}
		if got, err := urn.ParseMedia(s.media); err == nil && got.Equivalent(want) {
			return s, nil
		}
	}
}

// InputStream is one input stream. One goroutine at a time may read it; different streams of a request may be read by
// different goroutines. Reading grants credit, so a stream that nobody reads holds its sender back after one window;
// Close discards it instead.
type InputStream struct {
	media     string
	meta      frame.Meta
	sequence  bool
	unbounded bool
	src       itemSource
	err       error // sticky, also io.EOF
}

// itemSource is where the items of a stream come from: a wire stream, or a file or pipe in CLI mode.
type itemSource interface {
	next(ctx context.Context) (Item, error)
	piece(ctx context.Context) (stages.Piece, error)
	discard()
}

// MediaURN is the stream's label as its sender wrote it.
func (s *InputStream) MediaURN() string { return s.media }

// Meta is the stream's meta, nil when it has none.
func (s *InputStream) Meta() frame.Meta { return s.meta }

// IsSequence reports whether the stream carries items, rather than a run of bytes in pieces whose borders mean nothing.
func (s *InputStream) IsSequence() bool { return s.sequence }

// IsUnbounded reports whether the sender made no promise of length.
func (s *InputStream) IsUnbounded() bool { return s.unbounded }

// Next returns the next item: one CHUNK's value on a scalar stream, one emitted item on a sequence stream. It returns
// io.EOF at the clean end and otherwise the stream's error, again on every later call. Before it waits, everything the request
// has consumed is granted.
func (s *InputStream) Next(ctx context.Context) (Item, error) {
	if s.err != nil {
		return Item{}, s.err
	}
	it, err := s.src.next(ctx)
	if err != nil && ctx.Err() == nil {
		s.err = err
	}
	return it, err
}

// Items is Next as an iterator; it ends at the clean end, or with an error. Breaking out of the loop discards nothing.
func (s *InputStream) Items(ctx context.Context) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		for {
			it, err := s.Next(ctx)
			if err == io.EOF {
				return
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// NextPiece returns the next CHUNK unopened, for [OutputStream.Forward]. It is what Next is otherwise.
func (s *InputStream) NextPiece(ctx context.Context) (Piece, error) {
	if s.err != nil {
		return Piece{}, s.err
	}
	p, err := s.src.piece(ctx)
	if err != nil && ctx.Err() == nil {
		s.err = err
	}
	return Piece{p}, err
}

// Pieces is NextPiece as an iterator; it ends at the clean end, or with an error.
func (s *InputStream) Pieces(ctx context.Context) iter.Seq2[Piece, error] {
	return func(yield func(Piece, error) bool) {
		for {
			p, err := s.NextPiece(ctx)
			if err == io.EOF {
				return
			}
			if !yield(p, err) || err != nil {
				return
			}
		}
	}
}

// Close discards: what was not read and what still arrives is checked, credited and dropped. It is idempotent and
// returns nil.
func (s *InputStream) Close() error {
	s.src.discard()
	if s.err == nil {
		s.err = ErrClosed
	}
	return nil
}

// wirePackage gives the streams of a request on a link.
type wirePackage struct{ w *wireRequest }

func (p wirePackage) stream(ctx context.Context, n int) (*InputStream, error) {
	in, err := p.w.recv.Stream(ctx, n)
	if err != nil {
		return nil, err
	}
	return p.w.resolve(ctx, n, in)
}

func newWireStream(in *stages.Inbox) (*InputStream, error) {
	s := &InputStream{media: in.MediaURN(), sequence: in.IsSequence(), unbounded: in.IsUnbounded(), src: wireSource{in}}
	if raw := in.Meta(); raw != nil {
		meta, err := frame.DecodeMeta(raw)
		if err != nil {
			return nil, err
		}
		s.meta = meta
	}
	return s, nil
}

// wireSource reads a stream of a link.
type wireSource struct{ in *stages.Inbox }

func (s wireSource) next(ctx context.Context) (Item, error) {
	it, err := s.in.Next(ctx)
	if err != nil {
		return Item{}, err
	}
	return newItem(it)
}

func (s wireSource) piece(ctx context.Context) (stages.Piece, error) { return s.in.NextPiece(ctx) }

func (s wireSource) discard() { s.in.Close() }
