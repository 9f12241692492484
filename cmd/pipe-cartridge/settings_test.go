package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/audio"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/segment"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/sphinx"
	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

func TestSideArgumentsThatMakeNoSense(t *testing.T) {
	for name, row := range map[string]struct {
		words []string
		code  string
		word  string // of the message
	}{
		"format":             {[]string{"listen", "--format", "docx"}, segment.CodeUnknownFormat, "ndjson, text, srt, vtt"},
		"format, upper case": {[]string{"listen", "--format", "SRT"}, segment.CodeUnknownFormat, `"SRT"`},
		"engine":             {[]string{"listen", "--engine", "ears"}, codeArgument, "auto, tones or pocketsphinx"},
		"engine of a WAV":    {[]string{"transcribe", "--engine="}, codeArgument, `engine ""`},
		"rate, a word":       {[]string{"listen", "--engine=tones", "--sample-rate", "fast"}, codeArgument, "whole number above zero"},
		"rate, zero":         {[]string{"listen", "--engine=tones", "--sample-rate=0"}, codeArgument, `"0"`},
		"rate, negative":     {[]string{"listen", "--engine=tones", "--sample-rate=-1"}, codeArgument, `"-1"`},
		"rate, too high":     {[]string{"listen", "--engine=tones", "--sample-rate=1000000000"}, audio.CodeUnsupported, "sample rate"},
		"channels, none":     {[]string{"listen", "--engine=tones", "--channels=0"}, codeArgument, "channels"},
		"channels, too many": {[]string{"listen", "--engine=tones", "--channels=9"}, audio.CodeUnsupported, "9 channels"},
		"sample format":      {[]string{"listen", "--engine=tones", "--sample-format=mp3"}, codeArgument, "s16le"},
		"rule, no grammar":   {[]string{"listen", "--engine=pocketsphinx", "--toprule=x"}, sphinx.CodeGrammar, "grammar"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "rule, no grammar" && sphinx.New(sphinx.Config{}).Available() != nil {
				row.code, row.word = sphinx.CodeUnavailable, "pocketsphinx"
			}
			out, err := command(t, strings.NewReader("RIFF"), row.words...)
			class := failure.Input
			if row.code == sphinx.CodeUnavailable {
				class = failure.Environment
			}
			wantFailure(t, err, row.code, class, row.word)
			assert.Empty(t, out)
		})
	}
}

func TestSideArgumentsAreHeeded(t *testing.T) {
	s := morse(t, "CQ 73", tonegen.MorseOptions{Rate: 22_050, WPM: 30})
	raw, err := tonegen.Encode(s.Samples, tonegen.F32, 2)
	require.NoError(t, err)
	out, err := command(t, reads(raw, 4096), "listen", "--engine", "tones", "--sample-rate", " 22050\n", "--channels=2", "--sample-format", "f32le", "--format", "text")
	require.NoError(t, err)
	assert.Equal(t, "CQ 73\n", out)
}

func TestEnginesByName(t *testing.T) {
	s := defaultSettings()
	t.Run("auto takes speech when it is installed", func(t *testing.T) {
		e, err := s.newEngine()
		require.NoError(t, err)
		want := "tones"
		if sphinx.New(sphinx.Config{}).Available() == nil {
			want = "pocketsphinx"
		}
		assert.Equal(t, want, e.Name())
	})
	t.Run("auto takes tones without the package", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		e, err := s.newEngine()
		require.NoError(t, err)
		assert.Equal(t, "tones", e.Name())
		out, err := command(t, reads(wavFile(t, morse(t, "QTH", tonegen.MorseOptions{}), tonegen.WAVOptions{Format: tonegen.S16}), 4096),
			"transcribe", "--format=text")
		require.NoError(t, err)
		assert.Equal(t, "QTH\n", out)
	})
	t.Run("pocketsphinx without the package says what to install", func(t *testing.T) {
		t.Setenv("PATH", t.TempDir())
		out, err := command(t, reads(wavFile(t, tonegen.Silence(16_000, 0), tonegen.WAVOptions{Format: tonegen.S16}), 4096),
			"transcribe", "--engine=pocketsphinx")
		wantFailure(t, err, sphinx.CodeUnavailable, failure.Environment, "install the Debian packages pocketsphinx and pocketsphinx-en-us")
		assert.Empty(t, out)
	})
}

func TestArgumentsOnALink(t *testing.T) {
	raw := string(samples(t, morse(t, "CQ", tonegen.MorseOptions{WPM: 30}), tonegen.S16))
	start := func(t *testing.T) *cartridgetest.Request {
		return cartridgetest.Start(t, newCartridge()).Request(listenURN)
	}
	side := func(r *cartridgetest.Request, id, media, value string) { r.Stream(id, media).Chunk(value).End() }
	t.Run("side arguments come before the audio, in any order and spelling", func(t *testing.T) {
		r := start(t)
		side(r, "1", "media:transcript-format;enc=utf-8", "text")
		side(r, "2", mediaEngine, "tones")
		r.Stream("3", mediaPCM, cartridgetest.Sequence, cartridgetest.Unbounded).Item([]byte(raw), nil).End()
		r.End()
		r.WantItems("CQ\n")
		r.WantEnd()
	})
	t.Run("one that comes behind the audio is refused", func(t *testing.T) {
		r := start(t)
		side(r, "1", mediaEngine, "tones")
		r.Stream("2", mediaPCM, cartridgetest.Sequence, cartridgetest.Unbounded).Item([]byte(raw), nil).End()
		side(r, "3", mediaFormat, "text")
		r.End()
		f := r.WantErr(codeArgument, failure.Input)
		assert.Equal(t, mediaFormat, f.ArgURN)
		assert.Contains(t, f.Message, "send it first")
	})
	t.Run("one that the cap does not have is refused", func(t *testing.T) {
		r := start(t)
		side(r, "1", "media:colour", "blue")
		f := r.WantErr(codeArgument, failure.Input)
		assert.Equal(t, "media:colour", f.ArgURN)
	})
	t.Run("a request without audio", func(t *testing.T) {
		r := start(t)
		side(r, "1", mediaEngine, "tones")
		r.End()
		f := r.WantErr("MISSING_ARGUMENT", failure.Input)
		assert.Equal(t, mediaPCM, f.ArgURN)
	})
	t.Run("a bad side argument fails before the audio comes", func(t *testing.T) {
		r := start(t)
		side(r, "1", mediaRate, "fast")
		f := r.WantErr(codeArgument, failure.Input)
		assert.Equal(t, mediaRate, f.ArgURN)
	})
}
