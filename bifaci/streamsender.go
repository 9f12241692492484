package bifaci

import (
	"context"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// StreamSender writes into an output from a goroutine of the handler's: it shares numbering, credit and the coalescing buffer
// with its [OutputStream], so a Close there sends what was written here. It can neither start nor end the stream: before
// the start its calls return [ErrNotStarted], after the end, and after the request's terminal, [ErrClosed]. The handler must
// join the goroutines that use it before it returns; [Request.Go] does that by itself. Safe for concurrent use.
type StreamSender struct{ out *OutputStream }

// Sender returns a handle to the output for other goroutines.
func (o *OutputStream) Sender() *StreamSender { return &StreamSender{o} }

// started refuses what would start the stream implicitly.
func (s *StreamSender) started() error {
	if s.out.sink.Fresh() {
		return ErrNotStarted
	}
	return nil
}

// Write is [OutputStream.Write].
func (s *StreamSender) Write(p []byte) (int, error) { return s.WriteContext(s.out.ctx, p) }

// WriteContext is [OutputStream.WriteContext].
func (s *StreamSender) WriteContext(ctx context.Context, p []byte) (int, error) {
	if err := s.started(); err != nil {
		return 0, err
	}
	return s.out.WriteContext(ctx, p)
}

// EmitCBOR is [OutputStream.EmitCBOR].
func (s *StreamSender) EmitCBOR(ctx context.Context, v any) error {
	if err := s.started(); err != nil {
		return err
	}
	return s.out.EmitCBOR(ctx, v)
}

// EmitItem is [OutputStream.EmitItem].
func (s *StreamSender) EmitItem(ctx context.Context, v any, meta frame.Meta) error {
	if err := s.started(); err != nil {
		return err
	}
	return s.out.EmitItem(ctx, v, meta)
}

// Flush is [OutputStream.Flush].
func (s *StreamSender) Flush(ctx context.Context) error { return s.out.Flush(ctx) }
