package tones

import (
	"context"
	"iter"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

const (
	name  = "tones"
	piece = sampleRate / 10 // samples between two looks at ctx and at what was heard
)

// Engine hears Morse code and DTMF. The zero value works, holds nothing, and may serve any number of streams at once.
type Engine struct{}

var _ engine.Engine = Engine{}

// Name is "tones".
func (Engine) Name() string { return name }

// Transcribe reads audio and calls emit for each transmission within 1.6 s of audio after its last tone. It blocks
// only in audio and in emit, and looks at ctx before every block and every 0.1 s of audio within one; the cause of ctx
// is the error then. How the audio is cut into blocks makes no difference to the segments. An error ends it at once,
// without emitting what is open.
func (Engine) Transcribe(ctx context.Context, audio iter.Seq2[engine.Block, error], emit func(engine.Segment) error) error {
	l := newListener()
	tell := func() error {
		for _, segment := range l.heard {
			if err := emit(segment); err != nil {
				return err
			}
		}
		l.heard = l.heard[:0]
		return nil
	}
	for block, err := range audio {
		if err != nil {
			return err
		}
		if block.Gap > 0 {
			l.stop(block.Gap)
		}
		for rest := block.Samples; ; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			n := min(len(rest), piece)
			l.push(rest[:n])
			if err := tell(); err != nil {
				return err
			}
			if rest = rest[n:]; len(rest) == 0 {
				break
			}
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	l.stop(0)
	return tell()
}
