package stages

import (
	"context"
	"errors"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// ErrPieceOrder says that a piece of a sequence was forwarded out of order, or that its item was left unfinished.
var ErrPieceOrder = errors.New("a forwarded sequence item is out of order or unfinished")

// ErrStopped says that a close came too late: the request had been stopped meanwhile, and nothing was written.
var ErrStopped = errors.New("the request was stopped")

// Terminal fills in the frame that ends a flow. It is called under the lanes' lock, when nothing can come between the decision
// and the frame, and reports whether the frame may go; false writes nothing.
type Terminal func(f *frame.Frame) bool

// Close flushes and sends STREAM_END, with chunk_count unless the stream is unbounded. Of a stream that was never
// started it sends nothing. Closing again does nothing.
func (s *Sender) Close(ctx context.Context) error { return s.CloseWith(ctx, nil) }

// CloseStarted is Close of a stream that must exist: an argument that was never written is started and ended empty.
func (s *Sender) CloseStarted(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if s.broken != nil {
		return s.broken
	}
	if s.state == senderEnded {
		return nil
	}
	if s.state == senderNew {
		s.to(senderPending)
	}
	return s.breakOff(s.closeWith(ctx, nil))
}

// CloseWith is Close with an END behind it, in the same run: a unary answer is one append, one wake-up, one write. When end
// says no, nothing of the run is written and the error is ErrStopped.
func (s *Sender) CloseWith(ctx context.Context, end Terminal) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if s.broken != nil {
		return s.broken
	}
	if s.state == senderEnded && end == nil {
		return nil
	}
	return s.breakOff(s.closeWith(ctx, end))
}

func (s *Sender) closeWith(ctx context.Context, end Terminal) error {
	open := s.state == senderPending || s.state == senderStarted
	if !open && end == nil {
		s.to(senderEnded)
		return nil
	}
	if s.inItem {
		return ErrPieceOrder // STREAM_END is forbidden here
	}
	tail, err := s.tail(ctx)
	if err != nil {
		return err
	}
	var sum uint64
	if tail != nil {
		sum = frame.Checksum(tail)
	}
	b, err := s.link.Lanes.Begin(ctx, s.hook)
	if err != nil {
		return err
	}
	defer b.End()
	if s.state == senderPending { // what does not fit must be known before end decides
		if err := b.Fits(s.flow, s.startFrame(b)); err != nil {
			return err
		}
	}
	if end != nil && !end(b.Last(frame.TypeEnd)) {
		return ErrStopped
	}
	if s.state == senderPending {
		if err := s.putStart(b); err != nil {
			return err
		}
	}
	if tail != nil {
		if err := s.putChunk(b, tail, nil, sum, nil); err != nil {
			return err
		}
	}
	if open {
		if err := s.putEnd(b); err != nil {
			return err
		}
	}
	s.buf = nil
	s.to(senderEnded)
	if end != nil {
		return b.Put(s.flow, &b.l.terminal, nil)
	}
	return nil
}

// tail is the payload of the coalesced bytes, with a credit taken for it, or nil; what does not fit one CHUNK is sent.
func (s *Sender) tail(ctx context.Context) ([]byte, error) {
	if len(s.buf) <= bufHead || s.state == senderEnded {
		return nil, nil
	}
	if len(s.buf)-bufHead > s.cut(0) {
		return nil, s.sendBytes(ctx, nil)
	}
	if _, err := s.acquire(ctx, 1); err != nil {
		return nil, err
	}
	return headInFront(s.buf), nil
}

func (s *Sender) putEnd(b Batch) error {
	f := b.Frame(frame.TypeStreamEnd)
	f.StreamID = s.id
	f.Has = f.Has.With(frame.KeyStreamID)
	if !s.unbound {
		f.ChunkCount = s.index.Load()
		f.Has = f.Has.With(frame.KeyChunkCount)
	}
	if err := b.Put(s.flow, f, nil); err != nil {
		return err
	}
	s.note(seenEnd)
	return nil
}

// Abort ends a stream that failed: unsent bytes are dropped and an ERR that fill makes is written. With streamEnd a started
// stream gets STREAM_END with what was really sent in front, unless it stopped inside a sequence item. It waits for
// room in the lane only, and for a data call that is still under way, whose gate the caller has closed.
func (s *Sender) Abort(ctx context.Context, streamEnd bool, fill Terminal) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	b, err := s.link.Lanes.Begin(ctx, nil)
	if err != nil {
		return err
	}
	defer b.End()
	last := b.Last(frame.TypeErr)
	if !fill(last) {
		return ErrStopped
	}
	if streamEnd && s.state == senderStarted && !s.inItem {
		if err := s.putEnd(b); err != nil {
			return err
		}
	}
	s.buf = nil
	s.to(senderEnded)
	s.broken = ErrClosed // whatever broke it before, the stream is over now
	return b.Put(s.flow, last, nil)
}
