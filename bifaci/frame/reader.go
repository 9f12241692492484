package frame

import (
	"errors"
	"fmt"
	"io"
)

// firstRead bounds what Reader allocates on the strength of a length prefix alone, in bytes. From there the buffer
// doubles, so memory follows the bytes that came.
const firstRead = 64 << 10

// Reader reads whole frames from a pipe; for handshakes and tools. It never reads beyond the end of a frame, so
// another reader can take over the pipe between two frames. Not safe for concurrent use.
type Reader struct {
	r        io.Reader
	maxFrame uint64
	buf      []byte
	frame    Frame
	err      error // sticky: a broken stream cannot be resynchronised
}

// NewReader is a reader with the default limits.
func NewReader(r io.Reader) *Reader { return &Reader{r: r, maxFrame: DefaultLimits().MaxFrame} }

// SetLimits makes the negotiated limits hold for the frames that follow.
func (r *Reader) SetLimits(l Limits) { r.maxFrame = l.MaxFrame }

// Read returns the next frame, which is valid until the next Read. It blocks in the underlying Read. io.EOF means that
// the input ended between two frames; an end anywhere else is a [*SyntaxError] that wraps io.ErrUnexpectedEOF, and what
// is no frame is a [*SyntaxError] as well. After an error every Read returns it again.
func (r *Reader) Read() (*Frame, error) {
	if r.err == nil {
		r.err = r.read()
	}
	if r.err != nil {
		return nil, r.err
	}
	return &r.frame, nil
}

func (r *Reader) read() error {
	var prefix [PrefixSize]byte
	n, err := io.ReadFull(r.r, prefix[:])
	switch {
	case err == io.EOF:
		return io.EOF
	case errors.Is(err, io.ErrUnexpectedEOF):
		return TruncatedPrefix(n)
	case err != nil:
		return fmt.Errorf("read frame prefix: %w", err)
	}
	size, err := PrefixLen(prefix, r.maxFrame)
	if err != nil {
		return err
	}
	if err := r.fill(size); err != nil {
		return err
	}
	return Decode(r.buf, &r.frame)
}

// fill makes r.buf the next size bytes of the input.
func (r *Reader) fill(size int) error {
	if cap(r.buf) == 0 {
		r.buf = make([]byte, 0, min(size, firstRead))
	}
	r.buf = r.buf[:0]
	for len(r.buf) < size {
		if len(r.buf) == cap(r.buf) {
			grown := make([]byte, len(r.buf), min(size, 2*cap(r.buf)))
			copy(grown, r.buf)
			r.buf = grown
		}
		have := len(r.buf)
		n, err := io.ReadFull(r.r, r.buf[have:min(size, cap(r.buf))])
		r.buf = r.buf[:have+n]
		switch {
		case err == io.EOF || errors.Is(err, io.ErrUnexpectedEOF):
			return TruncatedBody(have+n, size)
		case err != nil:
			return fmt.Errorf("read frame body: %w", err)
		}
	}
	return nil
}
