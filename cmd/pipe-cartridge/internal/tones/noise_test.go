package tones

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

func TestAMinuteOfNoiseSaysNothing(t *testing.T) {
	makers := map[string]func(rate int, d time.Duration, level float64, seed uint64) tonegen.Signal{
		"white": tonegen.Noise, "pink": tonegen.Pink, "babble": tonegen.Babble,
	}
	for kind, noise := range makers {
		for _, level := range []float64{-70, -40, -20, -6} {
			t.Run(fmt.Sprintf("%s/%v dB", kind, level), func(t *testing.T) {
				for seed := range uint64(noiseSeeds) {
					assert.Empty(t, hear(t, noise(sampleRate, noiseLength, level, seedBase+seed)), "seed %d", seedBase+seed)
				}
			})
		}
	}
}

func TestAMinuteWithoutKeyingSaysNothing(t *testing.T) {
	minute := func(f func(seconds float64, i int) float64) tonegen.Signal {
		s := silent(noiseLength)
		for i := range s.Samples {
			s.Samples[i] = f(float64(i)/sampleRate, i)
		}
		return s
	}
	for name, s := range map[string]tonegen.Signal{
		"silence":     silent(noiseLength),
		"offset":      silent(noiseLength).Offset(0.25),
		"one step":    minute(func(_ float64, i int) float64 { return float64(i%2) / 32768 }),
		"steady tone": minute(func(t float64, _ int) float64 { return 0.3 * math.Sin(2*math.Pi*700*t) }),
		"dial tone":   minute(func(t float64, _ int) float64 { return 0.2*math.Sin(2*math.Pi*350*t) + 0.2*math.Sin(2*math.Pi*440*t) }),
		"siren":       minute(func(t float64, _ int) float64 { return 0.3 * math.Sin(2*math.Pi*(700*t-60*math.Cos(2*math.Pi*t))) }),
		"clicks":      minute(func(_ float64, i int) float64 { return float64(max(0, 1-i%4000)) }),
		"square wave": minute(func(t float64, _ int) float64 { return math.Copysign(0.5, math.Sin(2*math.Pi*31*t)) }),
		"ringing phone": minute(func(t float64, _ int) float64 {
			return ring(t) * (math.Sin(2*math.Pi*440*t) + math.Sin(2*math.Pi*480*t))
		}),
	} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, hear(t, s)) })
	}
}

// ring is on for 2 s and off for 4 s.
func ring(seconds float64) float64 {
	if math.Mod(seconds, 6) < 2 {
		return 0.2
	}
	return 0
}

func TestNoiseAroundAMessageAddsNothing(t *testing.T) {
	s := joined(t, silent(20*time.Second), keyed(t, "W1AW 599", tonegen.MorseOptions{WPM: 28}), silent(20*time.Second)).AddNoise(6, 8)
	assert.Equal(t, []string{"W1AW 599"}, texts(hear(t, s)))
}
