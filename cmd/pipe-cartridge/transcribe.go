package main

import (
	"context"
	"iter"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/audio"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/segment"
)

// transcribe is the handler of the WAV capability.
func transcribe(ctx context.Context, r *bifaci.Request) error {
	return run(ctx, r, mediaWAV, func(_ *settings, pull audio.Pull) iter.Seq2[engine.Block, error] {
		return audio.DecodeWAV(ctx, pull, audio.Limits{})
	})
}

// listen is the handler of the raw PCM capability.
func listen(ctx context.Context, r *bifaci.Request) error {
	return run(ctx, r, mediaPCM, func(s *settings, pull audio.Pull) iter.Seq2[engine.Block, error] {
		return audio.DecodeRaw(ctx, pull, audio.Format{Rate: s.rate, Channels: s.channels, Encoding: s.encoding})
	})
}

// run is the pipeline of both: input items, audio blocks, segments, output items. It holds one input item and what the
// engine needs of the open utterance; when the requester stops reading, everything up to the input waits.
func run(ctx context.Context, r *bifaci.Request, mainURN string, decode func(*settings, audio.Pull) iter.Seq2[engine.Block, error]) error {
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
	source := itemSource{stream: main}
	err = eng.Transcribe(ctx, decode(&s, source.pull), func(seg engine.Segment) error {
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
	return s.item.Bytes, gapOf(s.item.Meta), nil
}

// gapOf is how much audio was lost in front of an item (spec/wire.md 8.5).
func gapOf(meta frame.Meta) time.Duration {
	gap, ok := meta["gap"].(map[string]any)
	if !ok {
		return 0
	}
	switch us := gap["duration_us"].(type) {
	case int64:
		return time.Duration(max(us, 0)) * time.Microsecond
	case uint64:
		return time.Duration(min(us, 1<<53)) * time.Microsecond
	}
	return 0
}

var _ audio.Pull = (&itemSource{}).pull
