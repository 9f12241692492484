package stages

import (
	"errors"
	"io"
	"sync/atomic"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Sizes of the read buffer.
const (
	readBufferSize = 64 << 10 // bytes
	readAhead      = 4 << 10  // how far to read on after a large body, bytes: its successor is likely to be large too
)

// Decoder turns a byte stream into frames. A body of up to 16 KiB aliases the read buffer and is valid until the next
// call of Next; a larger one is read straight into a block of its own, which then belongs to the frame. Used by one
// goroutine.
type Decoder struct {
	r        io.Reader
	pool     *Pool
	maxFrame uint64
	buf      []byte
	from, to int  // unread bytes
	large    bool // the previous body was large
	err      error
	slab     slab
	frames   atomic.Uint64
	bytes    atomic.Uint64 // with the length prefixes
}

// NewDecoder reads from r, with frame bodies of at most maxFrame bytes; large bodies come from pool.
func NewDecoder(r io.Reader, pool *Pool, maxFrame uint64) *Decoder {
	return &Decoder{r: r, pool: pool, maxFrame: maxFrame, buf: make([]byte, readBufferSize)}
}

// SetMaxFrame sets the largest frame body that is accepted, bytes.
func (d *Decoder) SetMaxFrame(n uint64) { d.maxFrame = n }

// Buffered reports whether bytes of a next frame are already in memory, so that Next may not have to wait.
func (d *Decoder) Buffered() bool { return d.to > d.from }

// Next reads one frame into f. It waits for input. block, when not nil, holds the body and belongs to the caller. The
// error is io.EOF at a frame boundary only; inside a prefix or a body it wraps io.ErrUnexpectedEOF, and a frame that
// does not decode gives a *frame.SyntaxError. After an error every later call returns it.
func (d *Decoder) Next(f *frame.Frame) (block *Block, err error) {
	if d.err != nil {
		return nil, d.err
	}
	block, err = d.next(f)
	if err != nil {
		block.Release()
		d.err = err
		return nil, err
	}
	d.frames.Store(d.frames.Load() + 1) // one goroutine writes
	return block, nil
}

// Counts are the frames decoded so far and their bytes, with the length prefixes. Safe for concurrent use.
func (d *Decoder) Counts() (frames, bytes uint64) { return d.frames.Load(), d.bytes.Load() }

func (d *Decoder) next(f *frame.Frame) (*Block, error) {
	if err := d.fill(frame.PrefixSize); err != nil {
		if errors.Is(err, io.EOF) && d.to > d.from {
			return nil, frame.TruncatedPrefix(d.to - d.from)
		}
		return nil, err
	}
	n, err := frame.PrefixLen([4]byte(d.buf[d.from:d.from+4]), d.maxFrame)
	if err != nil {
		return nil, err
	}
	d.from += frame.PrefixSize
	d.bytes.Store(d.bytes.Load() + uint64(frame.PrefixSize+n))
	if n > maxAliasedBody {
		return d.nextLarge(f, n)
	}
	d.large = false
	if err := d.fill(n); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, frame.TruncatedBody(d.to-d.from, n)
		}
		return nil, err
	}
	body := d.buf[d.from : d.from+n]
	d.from += n
	return nil, frame.Decode(body, f)
}

// nextLarge reads a body that gets a block of its own. The block grows with what arrives: a prefix alone never makes us
// allocate more than a pooled class, as promises are cheap (field case F13).
func (d *Decoder) nextLarge(f *frame.Frame, n int) (*Block, error) {
	d.large = true
	block := d.pool.Get(min(n, blockSmallest<<4+blockSlack))
	got := copy(block.Buf, d.buf[d.from:d.to])
	d.from += got
	for {
		m, err := io.ReadFull(d.r, block.Buf[got:])
		got += m
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
				err = frame.TruncatedBody(got, n)
			}
			return block, err
		}
		if got == n {
			return block, frame.Decode(block.Buf, f)
		}
		larger := d.pool.Get(min(n, 4*got))
		copy(larger.Buf, block.Buf)
		block.Release()
		block = larger
	}
}

// fill makes n bytes available at d.from. At the end of the input it returns io.EOF, with what there is left in place.
func (d *Decoder) fill(n int) error {
	if d.to-d.from >= n {
		return nil
	}
	if d.from > 0 {
		d.to = copy(d.buf, d.buf[d.from:d.to])
		d.from = 0
	}
	for d.to < n {
		end := len(d.buf)
		if d.large {
			end = min(end, max(n, d.to)+readAhead)
		}
		m, err := d.r.Read(d.buf[d.to:end])
		d.to += m
		if d.to >= n {
			return nil // data that came with an error is used first; the error comes again
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Keep makes the payload and meta of a decoded CHUNK last beyond the next call of Next, without copying what a block
// holds.
func (d *Decoder) Keep(f *frame.Frame, block *Block) {
	if block != nil {
		return
	}
	if f.Has.Has(frame.KeyPayload) {
		f.Payload = d.slab.keep(f.Payload)
	}
	if f.Has.Has(frame.KeyMeta) {
		f.Meta = d.slab.keep(f.Meta)
	}
}
