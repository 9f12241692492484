package frame

import (
	"fmt"
	"io"
)

// writeAt is the number of buffered bytes at which Writer writes without being asked to.
const writeAt = 64 << 10

// Writer writes whole frames to a pipe; for handshakes and tools. Frames are buffered until Flush, or until 64 KiB have
// come together. Not safe for concurrent use.
type Writer struct {
	w        io.Writer
	maxFrame uint64
	buf      []byte
	err      error // sticky: nobody knows how much of the last frame arrived
}

// NewWriter is a writer with the default limits.
func NewWriter(w io.Writer) *Writer { return &Writer{w: w, maxFrame: DefaultLimits().MaxFrame} }

// SetLimits makes the negotiated limits hold for the frames that follow.
func (w *Writer) SetLimits(l Limits) { w.maxFrame = l.MaxFrame }

// Write appends f to what goes out next. A frame above the limits is refused with a [*SyntaxError] and nothing of it is
// written; the writer goes on. A failed write of the pipe is returned by this and every later call.
func (w *Writer) Write(f *Frame) error {
	if w.err != nil {
		return w.err
	}
	if err := CheckSize(f, len(f.Payload), w.maxFrame); err != nil {
		return err
	}
	w.buf = Append(w.buf, f)
	if len(w.buf) >= writeAt {
		return w.Flush()
	}
	return nil
}

// Flush hands everything buffered to the pipe and blocks until it has taken it.
func (w *Writer) Flush() error {
	if w.err == nil && len(w.buf) > 0 {
		if _, err := w.w.Write(w.buf); err != nil {
			w.err = fmt.Errorf("write frames: %w", err)
		}
		w.buf = w.buf[:0]
		if cap(w.buf) > 4*writeAt {
			w.buf = nil
		}
	}
	return w.err
}

// CheckSize refuses a frame whose body, with payloadLen bytes of payload, is larger than maxFrame or [MaxBody]. The
// error is a [*SyntaxError] with the token frame-too-large that names size and limit (spec/wire.md section 1).
func CheckSize(f *Frame, payloadLen int, maxFrame uint64) error {
	if n, limit := BodySize(f, payloadLen), min(maxFrame, MaxBody); uint64(n) > limit {
		return syntaxf(TokenFrameTooLarge, Nowhere, "%s frame of %d bytes, at most %d", f.Type, n, limit)
	}
	return nil
}
