package main

import (
	"context"
	"iter"
	"math"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/audio"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/segment"
)

// transcribe is the handler of the WAV capability.
func transcribe(ctx context.Context, r *bifaci.Request) error {
	return run(ctx, r, mediaWAV, func(_ *settings, main *bifaci.InputStream) iter.Seq2[engine.Block, error] {
		// A WAV stream is a run of bytes, not items of a capture, so it has no gaps.
		return audio.DecodeWAV(ctx, (&itemSource{stream: main}).pull, audio.Limits{})
	})
}

// listen is the handler of the raw PCM capability.
func listen(ctx context.Context, r *bifaci.Request) error {
	return run(ctx, r, mediaPCM, func(s *settings, main *bifaci.InputStream) iter.Seq2[engine.Block, error] {
		f, err := captured(main.Meta(), audio.Format{Rate: s.rate, Channels: s.channels, Encoding: s.encoding})
		if err != nil {
			return func(yield func(engine.Block, error) bool) { yield(engine.Block{}, err) }
		}
		return audio.DecodeRaw(ctx, (&captureSource{itemSource: itemSource{stream: main}, format: f}).pull, f)
	})
}

// run is the pipeline of both: input items, audio blocks, segments, output items. It holds one input item and what the
// engine needs of the open utterance; when the requester stops reading, everything up to the input waits.
func run(ctx context.Context, r *bifaci.Request, mainURN string, decode func(*settings, *bifaci.InputStream) iter.Seq2[engine.Block, error]) error {
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	s := defaultSettings()
	main, err := s.take(ctx, input, mainURN)
	if err != nil {
		return err
	}
	format, err := segment.NewFormatter(s.format)
	if err != nil {
		return err
	}
	eng, err := s.newEngine()
	if err != nil {
		return err
	}
	out, err := r.StartUnbounded(bifaci.Sequence)
	if err != nil {
		return err
	}
	err = eng.Transcribe(ctx, decode(&s, main), func(seg engine.Segment) error {
		if item := format.Item(seg); item != nil {
			return out.EmitItem(ctx, item, nil)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := rejectLate(ctx, input); err != nil {
		return err
	}
	if last := format.Close(); last != nil {
		return out.EmitItem(ctx, last, nil)
	}
	return nil
}

// captured is the format that a capture says it has; what it does not say is as the arguments say.
func captured(meta frame.Meta, f audio.Format) (audio.Format, error) {
	for key, to := range map[string]*int{"sample_rate": &f.Rate, "channels": &f.Channels} {
		switch n := meta[key].(type) {
		case nil:
		case int64:
			*to = int(min(max(n, 0), math.MaxInt32)) // the front end judges it
		default:
			return f, failure.Newf(codeArgument, failure.Input, "the stream's %s is %v, want a whole number", key, n).ForArgument(mediaPCM)
		}
	}
	switch name := meta["sample_format"].(type) {
	case nil:
	case string:
		encoding, err := audio.ParseEncoding(name)
		if err != nil {
			return f, failure.Newf(codeArgument, failure.Input, "the stream's sample_format: %w", err).ForArgument(mediaPCM)
		}
		f.Encoding = encoding
	default:
		return f, failure.Newf(codeArgument, failure.Input, "the stream's sample_format is %v, want text", name).ForArgument(mediaPCM)
	}
	return f, nil
}

// itemSource pulls the audio out of an input stream, item by item.
type itemSource struct {
	stream *bifaci.InputStream
	item   bifaci.Item // given out last; its bytes are used until the next pull
}

func (s *itemSource) pull(ctx context.Context) (p []byte, gap time.Duration, err error) {
	s.item.Release()
	s.item, err = s.stream.Next(ctx)
	if err != nil {
		return nil, 0, err
	}
	return s.item.Bytes, 0, nil
}

// captureSource is an itemSource of samples as they were captured: an item behind a loss tells about it in its meta.
type captureSource struct {
	itemSource
	format audio.Format
}

func (s *captureSource) pull(ctx context.Context) (p []byte, gap time.Duration, err error) {
	before := len(s.item.Bytes)
	p, _, err = s.itemSource.pull(ctx)
	if err != nil {
		return nil, 0, err
	}
	if since, lost := gapOf(s.item.Meta); lost {
		// The span counts from the start of the item before, which was heard. There was a loss, however little of it is left.
		gap = max(since-s.playing(before), 1)
	}
	return p, gap, nil
}

// playing is how long that many bytes last. The front end has checked the format before it pulls.
func (s *captureSource) playing(bytes int) time.Duration {
	perSecond := time.Duration(s.format.Rate) * time.Duration(s.format.FrameBytes())
	n := time.Duration(bytes)
	return n/perSecond*time.Second + n%perSecond*time.Second/perSecond
}

// maxGapMicroseconds keeps what a meta claims within a time.Duration; the audio front end refuses far less.
const maxGapMicroseconds = 1 << 53

// gapOf reports whether items were lost in front of an item, and the time from the start of the item before the loss to the start
// of this one.
func gapOf(meta frame.Meta) (since time.Duration, lost bool) {
	gap, lost := meta["gap"].(map[string]any)
	switch us := gap["duration_us"].(type) {
	case int64:
		return time.Duration(min(max(us, 0), maxGapMicroseconds)) * time.Microsecond, lost
	case uint64:
		return time.Duration(min(us, maxGapMicroseconds)) * time.Microsecond, lost
	}
	return 0, lost
}

var _ audio.Pull = (&captureSource{}).pull
