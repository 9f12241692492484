package bifaci

import (
	"context"
	"sync"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stages"
)

// DiscardOutput is an output that goes nowhere, for tests of code that writes to one. It keeps the rules of a stream (one start,
// one mode, nothing after Close) and refuses values that have no encoding; credit does not apply to it.
func DiscardOutput() *OutputStream {
	return &OutputStream{sink: new(discardSink), ctx: context.Background()}
}

// discardSink drops what it is given.
type discardSink struct {
	mu       sync.Mutex
	started  bool
	closed   bool
	sequence bool
}

// ready starts the stream implicitly and refuses what breaks its mode.
func (s *discardSink) ready(ctx context.Context, sequence bool) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case !s.started:
		s.started, s.sequence = true, sequence
	case s.sequence != sequence:
		return ErrStreamMode
	}
	return nil
}

func (s *discardSink) Start(_ context.Context, m stages.Mode) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.started:
		return ErrStarted
	}
	s.started, s.sequence = true, m.Sequence
	return nil
}

func (s *discardSink) Started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.started && !s.closed
}

func (s *discardSink) Fresh() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.started && !s.closed
}

func (s *discardSink) Write(ctx context.Context, _ []byte) error { return s.ready(ctx, false) }

func (s *discardSink) EmitValue(ctx context.Context, v any) error { return s.emit(ctx, v, false) }

func (s *discardSink) EmitItem(ctx context.Context, v any, _ []byte) error {
	return s.emit(ctx, v, true)
}

func (s *discardSink) emit(ctx context.Context, v any, sequence bool) error {
	if _, err := frame.AppendValue(nil, v); err != nil {
		return err
	}
	return s.ready(ctx, sequence)
}

func (s *discardSink) Forward(ctx context.Context, p stages.Piece) error {
	defer p.Release()
	s.mu.Lock()
	sequence := s.sequence // a piece does not tell its mode
	s.mu.Unlock()
	return s.ready(ctx, sequence)
}

func (s *discardSink) Flush(context.Context) error { return nil }

func (s *discardSink) Close(context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	return nil
}

func (s *discardSink) log(context.Context, frame.LogRecord) error { return nil }

func (s *discardSink) finish(float64, string) {}
