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
	emptyReads     = 100      // reads in a row without bytes and without an error, before io.ErrNoProgress
)

// Decoder turns a byte stream into frames. A body of up to 16 KiB aliases the read buffer and is valid until the next
// call of Next; a larger one is read straight into a block of its own, which then belongs to the frame. Used by one
// goroutine.
type Decoder struct {
	r        io.Reader
	ahead    func() // called before a read, which may wait; or nil
	pool     *Pool
	maxFrame uint64
	buf      []byte
	from, to int    // unread bytes
	inBody   bool   // the prefix of a frame was read, its body not wholly
	size     int    // of that body, or of the one before, bytes
	large    bool   // and whether it gets a block
	block    *Block // of a large body that is not whole
	got      int    // how much of it is, bytes
	err      error
	slab     slab
	frames   atomic.Uint64
	bytes    atomic.Uint64 // with the length prefixes
}

// NewDecoder reads from r, with frame bodies of at most maxFrame bytes; large bodies come from pool.
func NewDecoder(r io.Reader, pool *Pool, maxFrame uint64) *Decoder {
	return &Decoder{r: r, pool: pool, maxFrame: maxFrame, buf: make([]byte, readBufferSize)}
}

// BeforeRead makes f be called before every read of the input, which may wait.
func (d *Decoder) BeforeRead(f func()) { d.ahead = f }

// SetMaxFrame sets the largest frame body that is accepted, bytes.
func (d *Decoder) SetMaxFrame(n uint64) { d.maxFrame = n }

// Next reads one frame into f. It waits for input. block, when not nil, holds the body and belongs to the caller. The
// error is io.EOF at a frame boundary only; inside a prefix or a body it wraps io.ErrUnexpectedEOF, and a frame that
// does not decode gives a *frame.SyntaxError. After an error every later call returns it.
func (d *Decoder) Next(f *frame.Frame) (block *Block, err error) {
	if d.err != nil {
		return nil, d.err
	}
	block, err = d.next(f)
	if err != nil {
		if err != errDry {
			block.Release()
			d.end(err)
		}
		return nil, err
	}
	d.frames.Store(d.frames.Load() + 1) // one goroutine writes
	return block, nil
}

// end makes every later Next return err, and gives the memory of a body that is not whole back.
func (d *Decoder) end(err error) {
	d.err = err
	d.block.Release()
	d.block = nil
}

// Counts are the frames decoded so far and their bytes, with the length prefixes. Safe for concurrent use.
func (d *Decoder) Counts() (frames, bytes uint64) { return d.frames.Load(), d.bytes.Load() }

// next goes on where an earlier call has run dry.
func (d *Decoder) next(f *frame.Frame) (*Block, error) {
	if !d.inBody {
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
		d.inBody, d.size, d.large = true, n, n > maxAliasedBody
	}
	if d.large {
		return d.nextLarge(f)
	}
	if err := d.fill(d.size); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, frame.TruncatedBody(d.to-d.from, d.size)
		}
		return nil, err
	}
	body := d.buf[d.from : d.from+d.size]
	d.from += d.size
	d.inBody = false
	return nil, frame.Decode(body, f)
}

// nextLarge reads a body that gets a block of its own. The block grows with what arrives: a prefix alone never makes us
// allocate more than a pooled class, as promises are cheap (field case F13).
func (d *Decoder) nextLarge(f *frame.Frame) (*Block, error) {
	if d.block == nil {
		d.block = d.pool.Get(min(d.size, blockSmallest<<4+blockSlack))
		d.got = copy(d.block.Buf, d.buf[d.from:d.to])
		d.from += d.got
	}
	for d.got < d.size {
		if d.got == len(d.block.Buf) {
			larger := d.pool.Get(min(d.size, 4*d.got))
			copy(larger.Buf, d.block.Buf)
			d.block.Release()
			d.block = larger
		}
		m, err := d.read(d.block.Buf[d.got:])
		d.got += m
		if err != nil && d.got < d.size {
			if errors.Is(err, io.EOF) {
				err = frame.TruncatedBody(d.got, d.size)
			}
			return nil, err
		}
	}
	block := d.block
	d.block, d.inBody = nil, false
	return block, frame.Decode(block.Buf, f)
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
		m, err := d.read(d.buf[d.to:end])
		d.to += m
		if err != nil && d.to < n { // data that came with an error is used first; the error comes again
			return err
		}
	}
	return nil
}

// read reads something, or gives a reason why not.
func (d *Decoder) read(p []byte) (int, error) {
	if d.ahead != nil {
		d.ahead()
	}
	for range emptyReads {
		if m, err := d.r.Read(p); m > 0 || err != nil {
			return m, err
		}
	}
	return 0, io.ErrNoProgress
}

// Keep makes everything of a decoded frame last beyond the next call of Next, without copying what a block holds.
func (d *Decoder) Keep(f *frame.Frame, block *Block) {
	if block != nil {
		return
	}
	for _, field := range []struct {
		key   frame.Key
		bytes *[]byte
	}{
		{frame.KeyPayload, &f.Payload}, {frame.KeyMeta, &f.Meta}, {frame.KeyStreamID, &f.StreamID},
		{frame.KeyMediaURN, &f.MediaURN}, {frame.KeyCap, &f.Cap}, {frame.KeyContentType, &f.ContentType},
	} {
		if f.Has.Has(field.key) {
			*field.bytes = d.slab.keep(*field.bytes)
		}
	}
}
