package main

import (
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

const version = "0.1.0"

// The capabilities.
const (
	transcribeURN = `cap:in="media:audio;ext=wav";out="media:fmt=ndjson;segment";transcribe`
	listenURN     = `cap:in="media:audio-frames;pcm";listen;out="media:fmt=ndjson;segment"`
	wordsURN      = `cap:in="media:enc=utf-8";out="media:fmt=json;record";words`
	upperURN      = `cap:in="media:enc=utf-8";out="media:enc=utf-8";upper`
)

// The media of inputs, arguments and outputs.
const (
	mediaWAV          = "media:audio;ext=wav"
	mediaPCM          = "media:audio-frames;pcm"
	mediaText         = "media:enc=utf-8"
	mediaSegments     = "media:fmt=ndjson;segment"
	mediaWords        = "media:fmt=json;record"
	mediaWAVPath      = "media:enc=utf-8;file-path;wav-file"
	mediaFormat       = "media:enc=utf-8;transcript-format"
	mediaEngine       = "media:engine-name;enc=utf-8"
	mediaGrammar      = "media:enc=utf-8;jsgf-grammar"
	mediaTopRule      = "media:enc=utf-8;jsgf-rule"
	mediaRate         = "media:enc=utf-8;sample-rate"
	mediaChannels     = "media:channels;enc=utf-8"
	mediaSampleFormat = "media:enc=utf-8;sample-format"
)

// maxTranscriptions is how many requests may transcribe at a time; the speech engine takes 110 MB each.
const maxTranscriptions = 8

func newManifest() *manifest.Manifest {
	segments := manifest.NewOutput(mediaSegments, "one item per utterance, as soon as it has ended").Streaming(true).Sequence(true)
	// Side arguments stand in front of the audio, as a live input has no end to wait for them at.
	side := []manifest.Arg{
		manifest.NewArg(mediaFormat, false, manifest.CLIFlag("--format")).Default("ndjson").Describe("ndjson, text, srt or vtt"),
		manifest.NewArg(mediaEngine, false, manifest.CLIFlag("--engine")).Default("auto").Describe("auto, tones or pocketsphinx"),
		manifest.NewArg(mediaGrammar, false, manifest.CLIFlag("--grammar")).Describe("JSGF grammar, as text, for pocketsphinx"),
		manifest.NewArg(mediaTopRule, false, manifest.CLIFlag("--toprule")).Describe("the grammar's rule to start with"),
	}
	pcm := []manifest.Arg{
		manifest.NewArg(mediaRate, false, manifest.CLIFlag("--sample-rate")).Default(16000).
			Describe("samples a second; of all three counts what the capture itself says"),
		manifest.NewArg(mediaChannels, false, manifest.CLIFlag("--channels")).Default(1).Describe("1 to 8, interleaved"),
		manifest.NewArg(mediaSampleFormat, false, manifest.CLIFlag("--sample-format")).Default("s16le").
			Describe("u8, s16le, s16be, s24le, s32le, f32le or f64le"),
	}
	wav := manifest.NewArg(mediaWAVPath, true, manifest.Stdin(mediaWAV), manifest.Position(0)).Streaming(true).
		Describe("a WAV file or stream, also one that has no end yet")
	frames := manifest.NewArg(mediaPCM, true, manifest.Stdin(mediaPCM)).Streaming(true).Sequence(true).
		Describe("raw samples: a live capture, or a stream of bytes")
	text := manifest.NewArg(mediaText, true, manifest.Stdin(mediaText)).Streaming(true).Describe("any text")

	caps := manifest.DefaultGroup(
		manifest.IdentityCap(),
		manifest.NewCap(transcribeURN, "Transcribe", "transcribe").
			Describe("transcribes a WAV stream: speech, Morse code and DTMF").
			WithArgs(append(append([]manifest.Arg{}, side...), wav)...).WithOutput(segments),
		manifest.NewCap(listenURN, "Listen", "listen").
			Describe("transcribes raw PCM while it is being captured").
			WithArgs(append(append(append([]manifest.Arg{}, side...), pcm...), frames)...).WithOutput(segments),
		manifest.NewCap(wordsURN, "Count words", "words").
			Describe("counts the lines, words and bytes of a text").
			WithArgs(text).WithOutput(manifest.NewOutput(mediaWords, "lines, words and bytes as a JSON object")),
		manifest.NewCap(upperURN, "Upper case", "upper").
			Describe("turns a text into upper case as it comes").
			WithArgs(text).WithOutput(manifest.NewOutput(mediaText, "the text in upper case").Streaming(true)),
	)
	return manifest.New("pipe-cartridge", version, "transcribes speech and tone signals while they arrive", caps).
		WithPageURL("https://github.com/pipe-cartridge/pipe").
		WithPools(pools.Declarations{
			Pools:      map[string][]string{"transcription": {transcribeURN, listenURN}},
			Capacities: map[string]uint64{"transcription": maxTranscriptions},
		})
}
