package tonegen

import (
	"fmt"
	"math"
	"time"
)

// Span is the truth about one stretch of a signal: what was sent, from the first sample of its first tone to the last
// sample of its last.
type Span struct {
	Start, End time.Duration
	Text       string
}

// Signal is mono audio at Rate samples a second, full scale ±1, with the truth about what it holds.
type Signal struct {
	Rate    int
	Samples []float64
	Spans   []Span  // in order; empty for noise and silence
	Power   float64 // mean power of the tones while keyed; 0 without tones. AddNoise measures against it
}

// Duration is the length of the signal.
func (s Signal) Duration() time.Duration {
	if s.Rate <= 0 {
		return 0
	}
	return at(len(s.Samples), s.Rate)
}

// Silence is d of zeros.
func Silence(rate int, d time.Duration) Signal {
	return Signal{Rate: rate, Samples: make([]float64, count(d, rate))}
}

// Join puts signals of one rate behind each other; their spans move along. Power becomes that of the weakest signal
// with tones, so noise added afterwards keeps at least the asked distance everywhere. It fails when rates differ.
func Join(signals ...Signal) (Signal, error) {
	var all Signal
	for i, s := range signals {
		if i == 0 {
			all.Rate = s.Rate
		}
		if s.Rate != all.Rate {
			return Signal{}, fmt.Errorf("join signals: signal %d has %d samples a second, want %d as the first has", i, s.Rate, all.Rate)
		}
		offset := all.Duration()
		for _, span := range s.Spans {
			all.Spans = append(all.Spans, Span{Start: span.Start + offset, End: span.End + offset, Text: span.Text})
		}
		if s.Power > 0 && (all.Power == 0 || s.Power < all.Power) {
			all.Power = s.Power
		}
		all.Samples = append(all.Samples, s.Samples...)
	}
	return all, nil
}

// Offset adds a constant to every sample, in place, as a badly biased converter does.
func (s Signal) Offset(dc float64) Signal {
	for i := range s.Samples {
		s.Samples[i] += dc
	}
	return s
}

// Peak is the largest absolute sample, for scaling below full scale before encoding.
func (s Signal) Peak() float64 {
	var peak float64
	for _, v := range s.Samples {
		peak = math.Max(peak, math.Abs(v))
	}
	return peak
}

// Scale multiplies every sample by gain, in place.
func (s Signal) Scale(gain float64) Signal {
	for i := range s.Samples {
		s.Samples[i] *= gain
	}
	s.Power *= gain * gain
	return s
}

// at is the time of a sample; the division keeps whole seconds exact for any length.
func at(sample, rate int) time.Duration {
	seconds, rest := sample/rate, sample%rate
	return time.Duration(seconds)*time.Second + time.Duration(rest)*time.Second/time.Duration(rate)
}

// count is the number of samples in d, rounded.
func count(d time.Duration, rate int) int {
	if d <= 0 {
		return 0
	}
	return int(math.Round(d.Seconds() * float64(rate)))
}

// decibels turns a power ratio in dB into a factor.
func decibels(db float64) float64 { return math.Pow(10, db/10) }

// key adds one tone burst over all of dst, with raised-cosine edges of rise samples inside it. The oscillator runs
// through: its phase follows from first, the place of dst[0] in the whole signal, and drift in Hz a second.
func key(dst []float64, rate, rise int, amplitude, hz, drift float64, first int) {
	rise = min(rise, len(dst)/2)
	for i := range dst {
		gain := amplitude
		if edge := min(i, len(dst)-1-i); edge < rise {
			gain *= 0.5 - 0.5*math.Cos(math.Pi*(float64(edge)+0.5)/float64(rise))
		}
		t := float64(first+i) / float64(rate)
		dst[i] += gain * math.Sin(2*math.Pi*(hz*t+drift*t*t/2))
	}
}
