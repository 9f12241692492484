package main

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

// What is drawn.
const (
	sampleRate  = 22_050 // samples a second; not the engines' own, so that the resampler works
	noiseBelow  = 10     // dB
	silence     = 1800 * time.Millisecond
	shortest    = 10 * time.Second
	longest     = 20 * time.Second
	minWPM      = 18
	maxWPM      = 32
	minHz       = 450
	maxHz       = 950
	maxAttempts = 1000
)

// recording is what was drawn: the sound as a WAV stream without a known length, and the truth about it.
type recording struct {
	wav      []byte
	text     string // of all parts, one space between them
	duration time.Duration
	bytesPS  int // bytes a second of sound
}

// draw makes a recording of 10 to 20 seconds. Everything in it hangs on the seed.
func draw(seed uint64) (recording, error) {
	random := rand.New(rand.NewPCG(seed, 0x64656d6f))
	for range maxAttempts {
		s, text, err := compose(random)
		if err != nil {
			return recording{}, err
		}
		if d := s.Duration(); d < shortest || d > longest {
			continue
		}
		s = s.AddNoise(noiseBelow, random.Uint64())
		s = s.Scale(0.9 / s.Peak())
		wav, err := tonegen.WAV(s, tonegen.WAVOptions{Format: tonegen.S16, Rate: sampleRate, Length: tonegen.UnknownLength})
		return recording{wav, text, s.Duration(), sampleRate * 2}, err
	}
	return recording{}, errNoFit
}

// compose keys three parts with silence around them: Morse, DTMF, Morse at another speed and pitch.
func compose(random *rand.Rand) (tonegen.Signal, string, error) {
	parts := []tonegen.Signal{tonegen.Silence(sampleRate, silence/2)}
	var texts []string
	for i := range 3 {
		var part tonegen.Signal
		var err error
		if i == 1 {
			keys := tonegen.RandomKeys(random.Uint64(), 5+random.IntN(5))
			texts = append(texts, keys)
			part, err = tonegen.DTMF(keys, tonegen.DTMFOptions{Rate: sampleRate})
		} else {
			text := tonegen.RandomText(random.Uint64(), 1+random.IntN(2))
			texts = append(texts, text)
			part, err = tonegen.Morse(text, tonegen.MorseOptions{Rate: sampleRate,
				WPM: minWPM + random.Float64()*(maxWPM-minWPM), Hz: minHz + random.Float64()*(maxHz-minHz)})
		}
		if err != nil {
			return tonegen.Signal{}, "", err
		}
		parts = append(parts, part, tonegen.Silence(sampleRate, silence))
	}
	s, err := tonegen.Join(parts...)
	return s, strings.Join(texts, " "), err
}
