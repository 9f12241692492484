package tones

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

func TestEveryCharacterOfMorse(t *testing.T) {
	for _, c := range "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789?/=" {
		text := fmt.Sprintf("V%cV %c", c, c)
		t.Run(string(c), func(t *testing.T) {
			s := joined(t, silent(300*time.Millisecond), keyed(t, text, tonegen.MorseOptions{WPM: 30, Hz: 700})).AddNoise(6, uint64(c))
			assert.Equal(t, []string{text}, texts(hear(t, s)))
		})
	}
}

func TestEverySpeedAndPitchWithinRange(t *testing.T) {
	for wpm := 10.0; wpm <= 35; wpm += 5 {
		for hz := 400.0; hz <= 1000; hz += pitchStep {
			s := joined(t, silent(250*time.Millisecond), keyed(t, "RX 5Q/", tonegen.MorseOptions{WPM: wpm, Hz: hz})).AddNoise(6, uint64(wpm*hz))
			assert.Equal(t, []string{"RX 5Q/"}, texts(hear(t, s)), "%v wpm, %v Hz", wpm, hz)
		}
	}
}

func TestMorseSurvivesWhatSendersAndLinesDo(t *testing.T) {
	const text = "DE X1Y9 = QRZ?"
	key := func(o tonegen.MorseOptions) tonegen.Signal {
		return joined(t, silent(300*time.Millisecond), keyed(t, text, o), silent(300*time.Millisecond))
	}
	clip := func(s tonegen.Signal, limit float64) tonegen.Signal {
		for i, v := range s.Samples {
			s.Samples[i] = max(-limit, min(limit, v))
		}
		return s
	}
	add := func(s tonegen.Signal, amplitude, hz float64) tonegen.Signal {
		for i := range s.Samples {
			s.Samples[i] += amplitude * math.Sin(2*math.Pi*hz*float64(i)/sampleRate)
		}
		return s
	}
	fade := func(s tonegen.Signal) tonegen.Signal { // 10 dB up and down in 4 s
		for i := range s.Samples {
			s.Samples[i] *= math.Pow(10, -0.25+0.25*math.Sin(2*math.Pi*float64(i)/(4*sampleRate)))
		}
		return s
	}
	for name, s := range map[string]tonegen.Signal{
		"-40 dB of full scale, clean":     key(tonegen.MorseOptions{Amplitude: 0.01}),
		"-40 dB of full scale, noisy":     key(tonegen.MorseOptions{Amplitude: 0.01}).AddNoise(6, 1),
		"full scale, clean":               key(tonegen.MorseOptions{Amplitude: 1}),
		"full scale, noisy":               key(tonegen.MorseOptions{Amplitude: 1}).AddNoise(6, 2),
		"overdriven to a square wave":     clip(key(tonegen.MorseOptions{Amplitude: 5, Hz: 425}), 0.9),
		"constant offset, weak tone":      key(tonegen.MorseOptions{Amplitude: 0.03, Hz: 400}).AddNoise(10, 3).Offset(0.3),
		"hard keying":                     key(tonegen.MorseOptions{Rise: -1}).AddNoise(6, 4),
		"soft keying":                     key(tonegen.MorseOptions{Rise: 12 * time.Millisecond, WPM: 30}).AddNoise(6, 5),
		"pitch rises 10 Hz a second":      key(tonegen.MorseOptions{Hz: 600, Drift: 10}).AddNoise(6, 6),
		"pitch falls 10 Hz a second":      key(tonegen.MorseOptions{Hz: 800, Drift: -10}).AddNoise(6, 7),
		"a hand 15 % off, 12 wpm":         key(tonegen.MorseOptions{WPM: 12, Jitter: 0.15, Seed: 1}).AddNoise(6, 8),
		"a hand 15 % off, 35 wpm":         key(tonegen.MorseOptions{WPM: 35, Jitter: 0.15, Seed: 2}).AddNoise(6, 9),
		"mains hum 10 dB above the tone":  add(key(tonegen.MorseOptions{Amplitude: 0.1}), 0.3, 50),
		"a whistle above the band":        add(key(tonegen.MorseOptions{Amplitude: 0.1}), 0.1, 3000),
		"fading by 10 dB":                 fade(key(tonegen.MorseOptions{WPM: 18})),
		"rounded to 256 steps at -34 dB":  quantised(key(tonegen.MorseOptions{Amplitude: 0.02})),
		"noise as strong as the tone":     key(tonegen.MorseOptions{WPM: 15}).AddNoise(0, 10),
		"noise twice as strong as a tone": key(tonegen.MorseOptions{WPM: 15}).AddNoise(-2, 11),
	} {
		t.Run(name, func(t *testing.T) {
			assert.Equal(t, []string{text}, texts(hear(t, s)))
		})
	}
}

// quantised has the samples of an 8-bit converter.
func quantised(s tonegen.Signal) tonegen.Signal {
	for i, v := range s.Samples {
		s.Samples[i] = math.Round(v*128) / 128
	}
	return s
}

func TestSteadyCarrierIsForgottenAfterFourSeconds(t *testing.T) {
	carrier := silent(12 * time.Second)
	for i := range carrier.Samples {
		carrier.Samples[i] = 0.2 * math.Sin(2*math.Pi*450*float64(i)/sampleRate)
	}
	assert.Empty(t, hear(t, joined(t, carrier)), "a carrier alone")
	message := joined(t, silent(5*time.Second), keyed(t, "UNDER IT", tonegen.MorseOptions{Hz: 800, Amplitude: 0.2})).AddNoise(20, 1)
	for i, v := range message.Samples {
		carrier.Samples[i] += v
	}
	assert.Equal(t, []string{"UNDER IT"}, texts(hear(t, carrier)))
}

func TestStationsOfDifferentPitchLevelAndSpeedStayApart(t *testing.T) {
	s := joined(t,
		keyed(t, "LOUD 1", tonegen.MorseOptions{WPM: 12, Hz: 500, Amplitude: 0.8}), silent(900*time.Millisecond),
		keyed(t, "FAINT 2", tonegen.MorseOptions{WPM: 35, Hz: 900, Amplitude: 0.05}), silent(900*time.Millisecond),
		keyed(t, "LOUD 3", tonegen.MorseOptions{WPM: 20, Hz: 450, Amplitude: 0.8}), silent(400*time.Millisecond),
		dialled(t, "999", tonegen.DTMFOptions{Amplitude: 0.03})).AddNoise(12, 4)
	assert.Equal(t, []string{"LOUD 1", "FAINT 2", "LOUD 3", "999"}, texts(hear(t, s)))
}

func TestLoneMarkIsReadAtTheUsualSpeedOrTheLastOne(t *testing.T) {
	for name, c := range map[string]struct {
		before string
		wpm    float64
		text   string
		want   []string
	}{
		"E at 20 wpm":            {"", 20, "E", []string{"E"}},
		"T at 20 wpm":            {"", 20, "T", []string{"T"}},
		"E at 35 wpm":            {"", 35, "E", []string{"E"}},
		"T at 12 wpm":            {"", 12, "T", []string{"T"}},
		"E at 10 wpm after CQ":   {"CQ", 10, "E", []string{"CQ", "E"}},
		"T at 35 wpm after CQ":   {"CQ", 35, "T", []string{"CQ", "T"}},
		"equal marks are dots":   {"", 20, "S", []string{"S"}},
		"equal marks are dashes": {"", 20, "TTT", []string{"TTT"}},
		"S at 10 wpm alone":      {"", 10, "S", []string{"TTT"}}, // the same sound as TTT at 30, which is closer to 20
		"TTT at 30 wpm after Q":  {"QQ", 30, "TTT", []string{"QQ", "TTT"}},
		"S at 10 wpm after Q":    {"QQ", 10, "S", []string{"QQ", "S"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := tonegen.MorseOptions{WPM: c.wpm}
			s := silent(time.Second)
			if c.before != "" {
				s = joined(t, s, keyed(t, c.before, o), silent(1700*time.Millisecond))
			}
			s = joined(t, s, keyed(t, c.text, o), silent(time.Second)).AddNoise(8, 3)
			heard := hear(t, s)
			assert.Equal(t, c.want, texts(heard))
		})
	}
}

func TestConfidenceFallsWithNoiseAndWithAnUnsteadyHand(t *testing.T) {
	confidence := func(snr, jitter float64) float64 {
		s := keyed(t, "PARIS 73", tonegen.MorseOptions{Jitter: jitter, Seed: 4})
		heard := hear(t, joined(t, silent(200*time.Millisecond), s).AddNoise(snr, 5))
		if !assert.Equal(t, []string{"PARIS 73"}, texts(heard)) {
			return 0
		}
		return heard[0].Confidence
	}
	clean := confidence(40, 0)
	assert.Greater(t, clean, 0.97)
	assert.Greater(t, clean, confidence(0, 0)+0.05)
	assert.Greater(t, clean, confidence(40, 0.15)+0.05)
}
