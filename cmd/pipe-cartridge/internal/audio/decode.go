package audio

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// samplePeriod is the time of one sample at the engines' rate, a whole number of nanoseconds.
const samplePeriod = time.Second / engine.SampleRate

// maxGaps is how much lost audio is believed in, all gaps of a stream together.
const maxGaps = 100 * 365 * 24 * time.Hour

// Pull gives the next piece of the input. gap is the length of audio that was lost in front of it, 0 for none; the
// piece behind a gap starts with a whole frame. At the end it returns io.EOF, with or without a last piece. p must
// stay as it is until the next call. Pull should give up when ctx ends.
type Pull func(ctx context.Context) (p []byte, gap time.Duration, err error)

// DecodeWAV makes blocks of the WAV stream that pull gives, as soon as the bytes for them are there. See [WAV].
//
// Gaps of the input become gaps of the blocks, told before anything behind them is read; a gap may also be followed by
// the end. Block times stay exact however many gaps there are: each is a whole number of samples, the rest counts in
// the next. A failure of class input says what is wrong with the audio; an error of pull comes as it is; when ctx
// ends, so does the sequence, with the cause. Blocks that were complete before an error come before it.
// The sequence may be used once.
func DecodeWAV(ctx context.Context, pull Pull, limits Limits) iter.Seq2[engine.Block, error] {
	return decodeWith(ctx, pull, NewWAV(limits))
}

// DecodeRaw makes blocks of raw samples in a format that is known from elsewhere. For the rest see [DecodeWAV].
func DecodeRaw(ctx context.Context, pull Pull, f Format) iter.Seq2[engine.Block, error] {
	if err := f.Validate(); err != nil {
		return func(yield func(engine.Block, error) bool) { yield(engine.Block{}, err) }
	}
	return decodeWith(ctx, pull, raw{f})
}

// demuxer is what finds the samples in a stream: a WAV or nothing at all.
type demuxer interface {
	Format() (Format, bool)
	Feed(p []byte, emit func(raw []byte) error) error
	Discontinuity(emit func(raw []byte) error) error
	Close(emit func(raw []byte) error) error
}

// raw is the demuxer of input that is all samples.
type raw struct{ format Format }

func (r raw) Format() (Format, bool)                           { return r.format, true }
func (r raw) Feed(p []byte, emit func(raw []byte) error) error { return emit(p) }
func (r raw) Discontinuity(func(raw []byte) error) error       { return nil }
func (r raw) Close(func(raw []byte) error) error               { return nil }

// errStopped ends the stages when nobody wants more blocks.
var errStopped = errors.New("audio: the reader has left")

func decodeWith(ctx context.Context, pull Pull, demux demuxer) iter.Seq2[engine.Block, error] {
	return func(yield func(engine.Block, error) bool) {
		d := &decoder{demux: demux, yield: yield}
		if err := d.run(ctx, pull); err != nil && !errors.Is(err, errStopped) {
			yield(engine.Block{}, err)
		}
	}
}

// decoder joins the stages of one stream.
type decoder struct {
	demux     demuxer
	converter *Converter // nil until the format is known
	resampler *Resampler
	yield     func(engine.Block, error) bool

	rate    int           // frames a second of the input
	frames  int64         // of the input so far
	gaps    time.Duration // of the input so far, together
	samples int64         // given out so far
	given   time.Duration // gaps given out so far
}

func (d *decoder) run(ctx context.Context, pull Pull) error {
	for {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		p, gap, pullErr := pull(ctx)
		if gap > 0 {
			if err := d.gap(gap); err != nil {
				return err
			}
		}
		if len(p) > 0 {
			if err := d.demux.Feed(p, d.bytes); err != nil {
				return err
			}
		}
		switch {
		case pullErr == io.EOF: // exactly: a failure that wraps it is no clean end
			return d.finish()
		case pullErr != nil:
			return pullErr
		}
	}
}

// bytes takes samples from the demuxer.
func (d *decoder) bytes(p []byte) error {
	if d.converter == nil {
		f, _ := d.demux.Format()
		d.converter, d.resampler, d.rate = NewConverter(f), NewResampler(f.Rate, engine.SampleRate), f.Rate
	}
	return d.converter.Feed(p, d.mono)
}

// mono takes samples from the converter.
func (d *decoder) mono(in []float32) error {
	d.frames += int64(len(in))
	return d.resampler.Feed(in, d.block)
}

// block takes samples from the resampler.
func (d *decoder) block(out []float32) error {
	d.samples += int64(len(out))
	return d.give(engine.Block{Samples: out})
}

func (d *decoder) give(b engine.Block) error {
	if !d.yield(b, nil) {
		return errStopped
	}
	return nil
}

// finish gives out what still waits.
func (d *decoder) finish() error {
	if err := d.demux.Close(d.bytes); err != nil {
		return err
	}
	return d.flush()
}

// flush lets the resampler end.
func (d *decoder) flush() error {
	if d.converter == nil {
		return nil
	}
	d.converter.Reset()
	return d.resampler.Flush(d.block)
}

// gap takes a gap of the input. The gap that is given out leads to the right time to the nearest sample: the input
// before it may have ended inside a sample of the output. It is never nothing, as it ends an utterance.
func (d *decoder) gap(lost time.Duration) error {
	if lost > maxGaps-d.gaps {
		return failure.Newf(CodeBad, failure.Input, "gaps of %v and %v in the audio: together at most %v are right", d.gaps, lost, maxGaps)
	}
	d.gaps += lost
	if err := d.demux.Discontinuity(d.bytes); err != nil {
		return err
	}
	if err := d.flush(); err != nil {
		return err
	}
	want := d.gaps
	if d.rate > 0 {
		rate := int64(d.rate)
		want += time.Duration(d.frames/rate)*time.Second + time.Duration(d.frames%rate*int64(time.Second)/rate)
	}
	have := d.given + time.Duration(d.samples)*samplePeriod
	b := engine.Block{Gap: max((want - have).Round(samplePeriod), samplePeriod)}
	d.given += b.Gap
	return d.give(b)
}
