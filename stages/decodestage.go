package stages

import (
	"errors"
	"io"
)

// DecodeStage is the [Decoder] as a stage: bytes in, cut anywhere, frames out. An input that ends inside a frame is an
// error at its end; so is, at once, a frame that does not decode.
type DecodeStage struct {
	dec  *Decoder
	feed feed
}

// feed is a reader that is given its bytes piece by piece.
type feed struct {
	rest  []byte
	ended bool
}

func (f *feed) Read(p []byte) (int, error) {
	switch {
	case len(f.rest) > 0:
		n := copy(p, f.rest)
		f.rest = f.rest[n:]
		return n, nil
	case f.ended:
		return 0, io.EOF
	}
	return 0, errDry
}

// NewDecodeStage makes a stage for frame bodies of at most maxFrame bytes; large bodies come from pool.
func NewDecodeStage(pool *Pool, maxFrame uint64) *DecodeStage {
	s := new(DecodeStage)
	s.dec = NewDecoder(&s.feed, pool, maxFrame)
	return s
}

// Step takes some bytes, which the caller may use again afterwards, and emits the frames that are whole with them.
func (s *DecodeStage) Step(in []byte, emit func(Parcel) error) error {
	s.feed.rest = in
	for {
		var p Parcel
		block, err := s.dec.Next(&p.Frame)
		if errors.Is(err, errDry) {
			return nil
		}
		if err != nil {
			return err
		}
		s.dec.Keep(&p.Frame, block)
		p.Block = block
		if err := emit(p); err != nil {
			return err
		}
	}
}

// Flush is the end of the input.
func (s *DecodeStage) Flush(func(Parcel) error) error {
	s.feed.ended = true
	var p Parcel
	if _, err := s.dec.Next(&p.Frame); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	return nil
}

// End gives the memory of a frame that is not whole back.
func (s *DecodeStage) End(error) { s.dec.end(io.ErrClosedPipe) }
