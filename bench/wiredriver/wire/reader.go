package wire

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Reader reads frames from r through one large buffer. BeforeRead, when set,
// runs before every read of the underlying stream: the place to flush replies
// that were queued while the buffered frames were handled.
type Reader struct {
	r          io.Reader
	buf        []byte
	lo, hi     int
	BeforeRead func()
	Frames     uint64
	Bytes      uint64
}

// NewReader returns a Reader whose buffer starts at size bytes and grows to
// fit the largest frame.
func NewReader(r io.Reader, size int) *Reader {
	return &Reader{r: r, buf: make([]byte, size)}
}

func (r *Reader) fill(need int) error {
	if r.lo == r.hi {
		r.lo, r.hi = 0, 0
	}
	if r.lo+need > len(r.buf) {
		if need > len(r.buf) {
			nb := make([]byte, need+need/2)
			r.hi = copy(nb, r.buf[r.lo:r.hi])
			r.buf = nb
		} else {
			r.hi = copy(r.buf, r.buf[r.lo:r.hi])
		}
		r.lo = 0
	}
	for r.hi-r.lo < need {
		if r.BeforeRead != nil {
			r.BeforeRead()
		}
		n, err := r.r.Read(r.buf[r.hi:])
		r.hi += n
		if err != nil && r.hi-r.lo < need {
			if err == io.EOF && r.hi != r.lo {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// Buffered reports how many undecoded bytes are held.
func (r *Reader) Buffered() int { return r.hi - r.lo }

// Next decodes the next frame into f. Its byte fields are valid until the
// next call.
func (r *Reader) Next(f *Frame) error {
	if err := r.fill(4); err != nil {
		return err
	}
	n := int(binary.BigEndian.Uint32(r.buf[r.lo:]))
	if n > 16<<20 {
		return fmt.Errorf("wire: frame of %d bytes exceeds the hard limit", n)
	}
	if err := r.fill(4 + n); err != nil {
		return err
	}
	body := r.buf[r.lo+4 : r.lo+4+n]
	r.lo += 4 + n
	r.Frames++
	r.Bytes += uint64(4 + n)
	return Decode(body, f)
}
