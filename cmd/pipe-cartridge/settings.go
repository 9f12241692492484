package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/audio"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/segment"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/sphinx"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/tones"
)

// codeArgument is the code of a side argument that makes no sense; its class is input.
const codeArgument = "BAD_ARGUMENT"

// settings are the side arguments of a transcription; what was not given has its default.
type settings struct {
	format, engine, grammar, topRule string
	rate, channels                   int
	encoding                         audio.Encoding
}

func defaultSettings() settings {
	return settings{format: segment.NDJSON, engine: "auto", rate: engine.SampleRate, channels: 1, encoding: audio.S16LE}
}

// take reads the side arguments in front of the main input and returns that. A live input has no end, so nothing can be
// waited for behind its start: see rejectLate.
func (s *settings) take(ctx context.Context, input *bifaci.InputPackage, mainURN string) (*bifaci.InputStream, error) {
	for {
		stream, err := input.Next(ctx)
		if errors.Is(err, io.EOF) {
			return nil, failure.Newf("MISSING_ARGUMENT", failure.Input, "the request has no %s", mainURN).ForArgument(mainURN)
		}
		if err != nil {
			return nil, err
		}
		if sameMedia(stream.MediaURN(), mainURN) {
			return stream, nil
		}
		value, err := stream.CollectBytes(ctx)
		if err != nil {
			return nil, err
		}
		if err := s.set(stream.MediaURN(), string(value)); err != nil {
			return nil, err
		}
	}
}

// rejectLate makes sure that no side argument came behind the main input, where it had no effect.
func rejectLate(ctx context.Context, input *bifaci.InputPackage) error {
	stream, err := input.Next(ctx)
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	return failure.Newf(codeArgument, failure.Input, "the argument %s came behind the audio, which was being transcribed already: send it first",
		stream.MediaURN()).ForArgument(stream.MediaURN())
}

func sameMedia(have, want string) bool {
	h, err := urn.ParseMedia(have)
	if err != nil {
		return false
	}
	w, err := urn.ParseMedia(want)
	return err == nil && h.Equivalent(w)
}

// set takes the value of one argument; one that the cap does not know is refused.
func (s *settings) set(mediaURN, value string) (err error) {
	switch {
	case sameMedia(mediaURN, mediaFormat):
		s.format = value
	case sameMedia(mediaURN, mediaEngine):
		s.engine = value
	case sameMedia(mediaURN, mediaGrammar):
		s.grammar = value
	case sameMedia(mediaURN, mediaTopRule):
		s.topRule = value
	case sameMedia(mediaURN, mediaRate):
		s.rate, err = number(value)
	case sameMedia(mediaURN, mediaChannels):
		s.channels, err = number(value)
	case sameMedia(mediaURN, mediaSampleFormat):
		s.encoding, err = audio.ParseEncoding(value)
	default:
		err = errors.New("this capability has no such argument")
	}
	if err != nil {
		return failure.Newf(codeArgument, failure.Input, "argument %s: %w", mediaURN, err).ForArgument(mediaURN)
	}
	return nil
}

func number(value string) (int, error) {
	n, err := strconv.Atoi(strings.TrimSpace(value))
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("want a whole number above zero, got %q", value)
	}
	return n, nil
}

// newEngine picks the engine: auto takes speech when it is installed, else tones.
func (s *settings) newEngine() (engine.Engine, error) {
	speech := sphinx.New(sphinx.Config{Grammar: s.grammar, TopRule: s.topRule})
	switch s.engine {
	case "auto":
		if speech.Available() == nil {
			return speech, nil
		}
		return tones.Engine{}, nil
	case "pocketsphinx":
		return speech, nil
	case "tones":
		return tones.Engine{}, nil
	}
	return nil, failure.Newf(codeArgument, failure.Input, "engine %q is not known: use auto, tones or pocketsphinx", s.engine).ForArgument(mediaEngine)
}
