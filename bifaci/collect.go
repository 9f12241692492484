package bifaci

import (
	"context"
	"fmt"
	"io"
	"sync"
	"unicode/utf8"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// CollectedItem is one item as [InputStream.CollectItems] gives it.
type CollectedItem struct {
	Bytes []byte
	Meta  frame.Meta
}

func (s *InputStream) bounded(method string) error {
	if s.unbounded {
		return fmt.Errorf("%w: %s cannot collect %s; read it item by item", ErrUnbounded, method, s.media)
	}
	return nil
}

// CollectBytes reads the stream to its end and returns the concatenated bytes of its items. It refuses an unbounded stream
// with [ErrUnbounded] before reading anything.
func (s *InputStream) CollectBytes(ctx context.Context) ([]byte, error) {
	if err := s.bounded("CollectBytes"); err != nil {
		return nil, err
	}
	var all []byte
	for it, err := range s.Items(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, it.Bytes...)
		it.Release()
	}
	return all, nil
}

// CollectItems reads the stream to its end and returns its items. It refuses an unbounded stream with [ErrUnbounded].
func (s *InputStream) CollectItems(ctx context.Context) ([]CollectedItem, error) {
	if err := s.bounded("CollectItems"); err != nil {
		return nil, err
	}
	var all []CollectedItem
	for it, err := range s.Items(ctx) {
		if err != nil {
			return nil, err
		}
		all = append(all, CollectedItem{it.Bytes, it.Meta})
	}
	return all, nil
}

// CollectValue returns the first item's value and discards the rest. An empty stream gives [ErrStreamEmpty], an unbounded one
// [ErrUnbounded].
func (s *InputStream) CollectValue(ctx context.Context) (any, error) {
	if err := s.bounded("CollectValue"); err != nil {
		return nil, err
	}
	it, err := s.Next(ctx)
	if err == io.EOF {
		return nil, fmt.Errorf("%w: %s", ErrStreamEmpty, s.media)
	}
	if err != nil {
		return nil, err
	}
	v, err := it.Value()
	if closeErr := s.Close(); err == nil {
		err = closeErr
	}
	return v, err
}

// Reader is the stream's bytes as they arrive, also of an unbounded stream. Closing it discards the rest of the stream. Not
// safe for concurrent use.
func (s *InputStream) Reader(ctx context.Context) io.ReadCloser { return &streamReader{ctx: ctx, s: s} }

type streamReader struct {
	ctx  context.Context
	s    *InputStream
	item Item
	rest []byte
}

// Read returns what is there of the current item, and waits for the next one only when nothing is left.
func (r *streamReader) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	for len(r.rest) == 0 {
		if err := r.advance(); err != nil {
			return 0, err
		}
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

// WriteTo hands every item to w as a whole, without a copy of its own.
func (r *streamReader) WriteTo(w io.Writer) (total int64, err error) {
	for {
		if len(r.rest) > 0 {
			n, err := w.Write(r.rest)
			total += int64(n)
			r.rest = r.rest[n:]
			if err != nil {
				return total, err
			}
		}
		if err := r.advance(); err != nil {
			if err == io.EOF {
				return total, nil
			}
			return total, err
		}
	}
}

func (r *streamReader) advance() error {
	r.item.Release()
	r.rest = nil
	it, err := r.s.Next(r.ctx)
	if err != nil {
		return err
	}
	r.item, r.rest = it, it.Bytes
	return nil
}

// Close discards the rest of the stream.
func (r *streamReader) Close() error {
	r.item.Release()
	r.rest = nil
	return r.s.Close()
}

// Stream is one collected input stream.
type Stream struct {
	MediaURN string
	Bytes    []byte
	Meta     frame.Meta // of the stream
}

// Streams are the collected input streams of a request, in the order in which they started.
type Streams []Stream

// CollectStreams reads all input streams to their ends, at the same time, as their sender may interleave them. The
// first unbounded stream ends it with [ErrUnbounded], without being read.
func (p *InputPackage) CollectStreams(ctx context.Context) (Streams, error) {
	return p.collect(ctx, "CollectStreams")
}

// CollectAllBytes is the concatenation of the bytes of all input streams, in the order in which they started.
func (p *InputPackage) CollectAllBytes(ctx context.Context) ([]byte, error) {
	streams, err := p.collect(ctx, "CollectAllBytes")
	if err != nil {
		return nil, err
	}
	var all []byte
	for _, s := range streams {
		all = append(all, s.Bytes...)
	}
	return all, nil
}

func (p *InputPackage) collect(ctx context.Context, method string) (Streams, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var readers sync.WaitGroup
	defer readers.Wait()
	var collected []*Stream
	for s, err := range p.All(ctx) {
		if err == nil {
			err = s.bounded(method)
		}
		if err != nil {
			cancel(err)
			readers.Wait()
			return nil, firstError(ctx, err)
		}
		c := &Stream{MediaURN: s.media, Meta: s.meta}
		collected = append(collected, c)
		readers.Go(func() {
			b, err := s.CollectBytes(ctx)
			if err != nil {
				cancel(err)
			}
			c.Bytes = b
		})
	}
	readers.Wait()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	streams := make(Streams, len(collected))
	for i, c := range collected {
		streams[i] = *c
	}
	return streams, nil
}

// firstError is the error that ended ctx, or err.
func firstError(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

// find returns the first stream that match accepts; streams whose label does not parse are skipped.
func (ss Streams) find(mediaURN string, match func(have, want urn.Media) bool) *Stream {
	want, err := urn.ParseMedia(mediaURN)
	if err != nil {
		return nil
	}
	for i := range ss {
		if have, err := urn.ParseMedia(ss[i].MediaURN); err == nil && match(have, want) {
			return &ss[i]
		}
	}
	return nil
}

// Find returns the bytes of the stream whose media URN is equivalent to mediaURN. A malformed URN finds nothing.
func (ss Streams) Find(mediaURN string) ([]byte, bool) {
	if s := ss.find(mediaURN, urn.Media.Equivalent); s != nil {
		return s.Bytes, true
	}
	return nil, false
}

// FindString is [Streams.Find] for UTF-8 text; anything else counts as absent.
func (ss Streams) FindString(mediaURN string) (string, bool) {
	b, ok := ss.Find(mediaURN)
	if !ok || !utf8.Valid(b) {
		return "", false
	}
	return string(b), true
}

// FindMeta returns the stream meta of the stream whose media URN is equivalent to mediaURN.
func (ss Streams) FindMeta(mediaURN string) (frame.Meta, bool) {
	if s := ss.find(mediaURN, urn.Media.Equivalent); s != nil {
		return s.Meta, true
	}
	return nil, false
}

// Require is [Streams.Find] with an error that matches [ErrMissingArgument] and names the URN.
func (ss Streams) Require(mediaURN string) ([]byte, error) {
	b, ok := ss.Find(mediaURN)
	if !ok {
		return nil, fmt.Errorf("%w %s", ErrMissingArgument, mediaURN)
	}
	return b, nil
}

// RequireString is [Streams.Require] for UTF-8 text; invalid UTF-8 is an error.
func (ss Streams) RequireString(mediaURN string) (string, error) {
	b, err := ss.Require(mediaURN)
	if err != nil {
		return "", err
	}
	if !utf8.Valid(b) {
		return "", fmt.Errorf("argument %s is not valid UTF-8", mediaURN)
	}
	return string(b), nil
}

// FindConforming returns the bytes of the first stream whose media satisfies mediaURN (closed world, spec/urn.md section 5).
func (ss Streams) FindConforming(mediaURN string) ([]byte, bool) {
	if s := ss.find(mediaURN, urn.Media.Satisfies); s != nil {
		return s.Bytes, true
	}
	return nil, false
}

// FindStringConforming is [Streams.FindConforming] for UTF-8 text; anything else counts as absent.
func (ss Streams) FindStringConforming(mediaURN string) (string, bool) {
	b, ok := ss.FindConforming(mediaURN)
	if !ok || !utf8.Valid(b) {
		return "", false
	}
	return string(b), true
}
