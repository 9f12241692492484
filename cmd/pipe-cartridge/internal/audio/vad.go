package audio

import (
	"iter"
	"time"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// frameSamples is how much audio a [VAD] looks at at once: 10 ms.
const (
	frameSamples = engine.SampleRate / 100
	frameTime    = 10 * time.Millisecond
)

// Defaults of [VADConfig].
const (
	defaultPreRoll      = 300 * time.Millisecond
	defaultHangOver     = 500 * time.Millisecond
	defaultMinVoice     = 80 * time.Millisecond
	defaultMaxUtterance = 30 * time.Second
)

// What a [VAD] takes for voice; levels are mean powers of the emphasised signal over 30 ms, in dB of full scale.
const (
	onsetMarginDB = 8.0 // over the noise floor: a voice may begin
	holdMarginDB  = 5.0 // over the noise floor: the voice goes on
	liveSpreadDB  = 5.0 // between the loudest and the softest part: noise and tones are steadier, voices never are

	dropAfter   = 10  // frames without voice that end a beginning that came to nothing
	steadyAfter = 100 // frames of steady sound that are noise from then on
	rampFrames  = 4   // at the start of a sound whose level still grows
)

// VADConfig says when an utterance begins and ends. A zero field takes its default; all are rounded down to 10 ms.
type VADConfig struct {
	PreRoll      time.Duration // audio given from before the voice; default 300 ms
	HangOver     time.Duration // silence that ends an utterance; it is given too; default 500 ms
	MinVoice     time.Duration // less is a click; default 80 ms
	MaxUtterance time.Duration // where an utterance is cut, at least 1 s; default 30 s
}

// MarkKind says what a [Mark] is.
type MarkKind uint8

// The marks of one utterance: one Begin, Audio at least once, one End.
const (
	Begin MarkKind = iota + 1
	Audio
	End
)

// Mark is what a [VAD] gives. Times count from the first sample of the audio, gaps included.
type Mark struct {
	Kind    MarkKind
	At      time.Duration // Begin, Audio: of the first sample; End: behind the last one
	Voice   time.Duration // Begin: where the voice begins, behind the pre-roll; End: where it ended, before the hang-over
	Samples []float32     // Audio: the next samples without a gap, as they came; valid until emit returns
	Cut     bool          // End: the utterance reached MaxUtterance, and may go on in the next one
}

// VAD is the stage that finds utterances by their energy. The noise floor follows the softest 30 ms of the last three
// seconds. Sound above it is an utterance when there is enough of it and when its level moves as that of a voice does;
// what stays level for a second is the new noise floor. So neither silence nor steady noise nor a steady tone is an
// utterance, at whatever level they start. Hang-over is cut to a quarter in the last third of the longest
// utterance, so that most of those that are too long end at a pause.
//
// Noise that comes in bursts is an utterance like a voice: whoever listens must cope. Sums are taken over whole frames
// of 10 ms, so how the blocks are cut makes no difference to the marks.
type VAD struct {
	preRoll, hangOver, minVoice, longest int // frames

	base    time.Duration // gaps so far
	samples int64         // samples so far, without those in frame
	frame   []float32     // the frame that is not yet complete
	level   leveller
	floor   noiseFloor

	state  vadState
	kept   []float32 // idle: the pre-roll; beginning: and what came since. Ends where frame begins
	onset  int64     // sample where the voice began
	voice  int64     // sample where the voice last ended
	length int       // frames of the utterance or its beginning, without pre-roll
	loud   int       // of them with voice
	quiet  int       // frames since the last one with voice
	spread spread
}

type vadState uint8

const (
	idle vadState = iota
	beginning
	speaking
)

// NewVAD makes the stage for one stream.
func NewVAD(c VADConfig) *VAD {
	frames := func(d, otherwise time.Duration) int {
		if d <= 0 {
			d = otherwise
		}
		return max(int(d/frameTime), 1)
	}
	return &VAD{
		preRoll:  frames(c.PreRoll, defaultPreRoll),
		hangOver: frames(c.HangOver, defaultHangOver),
		minVoice: frames(c.MinVoice, defaultMinVoice),
		longest:  max(frames(c.MaxUtterance, defaultMaxUtterance), int(time.Second/frameTime)),
		frame:    make([]float32, 0, frameSamples),
	}
}

// Marks joins the stage to audio: the marks of its blocks, as soon as they are certain. An error of audio is passed
// on behind the marks before it; the utterance that is then open has no end. The sequence may be used once.
func (v *VAD) Marks(audio iter.Seq2[engine.Block, error]) iter.Seq2[Mark, error] {
	return func(yield func(Mark, error) bool) {
		emit := func(m Mark) error {
			if !yield(m, nil) {
				return errStopped
			}
			return nil
		}
		for b, err := range audio {
			if err != nil {
				yield(Mark{}, err)
				return
			}
			if v.Feed(b, emit) != nil {
				return
			}
		}
		_ = v.Close(emit) // can only be errStopped
	}
}

// Feed takes the next block. An error of emit is returned at once, and the stage is of no use afterwards.
func (v *VAD) Feed(b engine.Block, emit func(Mark) error) error {
	if b.Gap > 0 {
		if err := v.Close(emit); err != nil {
			return err
		}
		v.base += b.Gap
	}
	for in := b.Samples; len(in) > 0; {
		n := min(frameSamples-len(v.frame), len(in))
		v.frame = append(v.frame, in[:n]...)
		in = in[n:]
		if len(v.frame) == frameSamples {
			if err := v.step(emit); err != nil {
				return err
			}
		}
	}
	return nil
}

// Close says that the audio ends here, or breaks off: an open utterance ends. The stage may go on behind it.
func (v *VAD) Close(emit func(Mark) error) error {
	if v.state == speaking {
		if len(v.frame) > 0 {
			if err := emit(Mark{Kind: Audio, At: v.at(v.samples), Samples: v.frame}); err != nil {
				return err
			}
		}
		v.samples += int64(len(v.frame))
		v.frame = v.frame[:0]
		if err := v.end(false, emit); err != nil {
			return err
		}
	}
	v.samples += int64(len(v.frame))
	v.frame, v.kept, v.state = v.frame[:0], v.kept[:0], idle
	v.level.reset()
	return nil
}

// at is the time of a sample behind the last gap.
func (v *VAD) at(sample int64) time.Duration { return v.base + time.Duration(sample)*samplePeriod }

// step takes the frame that is complete.
func (v *VAD) step(emit func(Mark) error) error {
	level := v.level.next(v.frame)
	v.floor.add(level)
	floor := v.floor.value()

	at := v.samples
	v.samples += frameSamples
	defer func() { v.frame = v.frame[:0] }()

	switch v.state {
	case idle:
		if level < floor+onsetMarginDB {
			v.keep(v.preRoll)
			return nil
		}
		v.state, v.onset, v.length, v.loud, v.quiet = beginning, at, 0, 0, 0
		v.spread = spread{}
		fallthrough
	case beginning:
		v.keep(v.preRoll + v.length + 1)
		v.hear(level, floor+holdMarginDB)
		switch {
		case v.loud >= v.minVoice && v.spread.over(liveSpreadDB):
			return v.begin(emit)
		case v.quiet >= dropAfter:
			v.state = idle
		case v.length >= steadyAfter:
			v.floor.set(v.spread.low)
			v.state = idle
		}
		return nil
	}
	v.hear(level, floor+holdMarginDB)
	if err := emit(Mark{Kind: Audio, At: v.at(at), Samples: v.frame}); err != nil {
		return err
	}
	patience := v.hangOver
	if v.length > v.longest*2/3 {
		patience = max(patience/4, 1)
	}
	switch {
	case v.quiet >= patience:
		return v.end(false, emit)
	case v.length >= v.longest:
		return v.end(true, emit)
	}
	return nil
}

// hear counts a frame.
func (v *VAD) hear(level, threshold float64) {
	v.length++
	if level < threshold {
		v.quiet++
		return
	}
	v.loud++
	v.quiet = 0
	v.voice = v.samples
	if v.length > rampFrames {
		v.spread.add(level)
	}
}

// keep adds the frame to what is kept, and lets go of all but so many frames.
func (v *VAD) keep(frames int) {
	v.kept = append(v.kept, v.frame...)
	if over := len(v.kept) - frames*frameSamples; over > 0 {
		v.kept = v.kept[:copy(v.kept, v.kept[over:])]
	}
}

// begin gives the beginning that has turned out to be one. A pre-roll is part of it, the frame too.
func (v *VAD) begin(emit func(Mark) error) error {
	v.state = speaking
	from := v.at(v.samples - int64(len(v.kept)))
	if err := emit(Mark{Kind: Begin, At: from, Voice: v.at(v.onset)}); err != nil {
		return err
	}
	kept := v.kept
	v.kept = v.kept[:0]
	return emit(Mark{Kind: Audio, At: from, Samples: kept})
}

// end gives the end; the next utterance begins with nothing kept.
func (v *VAD) end(cut bool, emit func(Mark) error) error {
	v.state = idle
	return emit(Mark{Kind: End, At: v.at(v.samples), Voice: v.at(v.voice), Cut: cut})
}
