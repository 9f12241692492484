// Package engine says what a transcription engine is: a stage that takes blocks of audio in one fixed format and
// gives segments of text as soon as each utterance has ended. A reader meets [Block], [Segment] and [Engine].
package engine

import (
	"context"
	"iter"
	"time"
)

// SampleRate is the one rate engines are fed with, in samples a second; mono.
const SampleRate = 16_000

// Block is a run of audio. The receiver may use Samples until it asks for the next block.
type Block struct {
	Gap     time.Duration // audio lost in front of Samples; 0 for none. It ends an open utterance and counts in all times
	Samples []float32     // mono, 16 kHz, full scale ±1; may be empty when only a gap is told
}

// Segment is one utterance that was understood. Times count from the first sample of the audio, gaps included.
type Segment struct {
	Start, End time.Duration
	Text       string
	Engine     string  // the name of the engine that heard it
	Confidence float64 // 0 to 1; negative when the engine cannot tell
}

// Engine turns audio into segments. Transcribe pulls blocks until the sequence ends, fails, or ctx ends, and calls
// emit once per utterance, in order, as soon as the utterance has ended; an utterance still open when the audio ends
// is emitted as well. An error of audio or of emit ends it and is returned as it came. Transcribe returns only when
// everything it started has ended. One call serves one stream; calls do not share state.
type Engine interface {
	Name() string
	Transcribe(ctx context.Context, audio iter.Seq2[Block, error], emit func(Segment) error) error
}
