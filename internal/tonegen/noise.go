package tonegen

import (
	"math"
	"math/rand/v2"
	"time"
)

// AddNoise adds white Gaussian noise over the whole band, 0 to half the rate, whose power is snr dB below the power of
// the keyed tones; to a signal without tones it adds none. The samples are changed in place and may leave ±1.
func (s Signal) AddNoise(snr float64, seed uint64) Signal {
	if s.Power <= 0 {
		return s
	}
	deviation := math.Sqrt(s.Power / decibels(snr))
	random := rand.New(rand.NewPCG(seed, 0x776869746531))
	for i := range s.Samples {
		s.Samples[i] += deviation * random.NormFloat64()
	}
	return s
}

// Noise is d of white Gaussian noise with its power level dB relative to a full-scale square wave (power 1).
func Noise(rate int, d time.Duration, level float64, seed uint64) Signal {
	s := Silence(rate, d)
	deviation := math.Sqrt(decibels(level))
	random := rand.New(rand.NewPCG(seed, 0x776869746532))
	for i := range s.Samples {
		s.Samples[i] = deviation * random.NormFloat64()
	}
	return s
}

// Pink is d of noise that falls by about 3 dB an octave, with its power level dB relative to power 1. It is white noise
// through leaky integrators whose corners stand an octave and a half apart.
func Pink(rate int, d time.Duration, level float64, seed uint64) Signal {
	s := Noise(rate, d, 0, seed)
	const corners = 6
	var state, keep [corners]float64
	for c := range keep {
		corner := 20 * math.Pow(2, 1.5*float64(c)) // Hz
		keep[c] = math.Exp(-2 * math.Pi * corner / float64(rate))
	}
	for i, white := range s.Samples {
		sum := 0.0
		for c := range state {
			state[c] = keep[c]*state[c] + math.Sqrt(1-keep[c])*white
			sum += state[c]
		}
		s.Samples[i] = sum
	}
	return s.normalise(level)
}

// Babble is d of noise shaped like speech without being any: three resonances wander where vowels have them, and the
// loudness comes and goes in syllables, about four a second, with pauses. Its power is level dB relative to power 1.
func Babble(rate int, d time.Duration, level float64, seed uint64) Signal {
	s := Noise(rate, d, 0, seed)
	random := rand.New(rand.NewPCG(seed, 0x626162626c65))
	type resonance struct{ hz, width, y1, y2 float64 }
	formants := [...]resonance{{hz: 500, width: 90}, {hz: 1400, width: 120}, {hz: 2500, width: 180}}
	loudness, wanted, left := 0.0, 0.0, 0
	for i, white := range s.Samples {
		if left == 0 { // a new syllable or a pause
			left = int(float64(rate) * (0.08 + 0.25*random.Float64()))
			wanted = 0
			if random.Float64() < 0.7 {
				wanted = 0.3 + 0.7*random.Float64()
			}
			formants[0].hz = 280 + 600*random.Float64()
			formants[1].hz = 900 + 1400*random.Float64()
		}
		left--
		loudness += (wanted - loudness) / (0.015 * float64(rate))
		sum := 0.0
		for f := range formants {
			r := &formants[f]
			radius := math.Exp(-math.Pi * r.width / float64(rate))
			y := (1-radius)*white + 2*radius*math.Cos(2*math.Pi*r.hz/float64(rate))*r.y1 - radius*radius*r.y2
			r.y1, r.y2 = y, r.y1
			sum += y / float64(f+1)
		}
		s.Samples[i] = loudness * sum
	}
	return s.normalise(level)
}

// normalise scales to a mean power of level dB relative to power 1.
func (s Signal) normalise(level float64) Signal {
	power := 0.0
	for _, v := range s.Samples {
		power += v * v
	}
	if power == 0 {
		return s
	}
	return s.Scale(math.Sqrt(decibels(level) * float64(len(s.Samples)) / power))
}
