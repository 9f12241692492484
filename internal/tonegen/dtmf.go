package tonegen

import (
	"fmt"
	"strings"
	"time"
)

// DTMFOptions says how keys are sent. Zero fields take the default in brackets.
type DTMFOptions struct {
	Rate      int           // samples a second [16000]
	Amplitude float64       // of each of the two tones before twist, full scale 1 [0.25]
	Tone      time.Duration // how long a key sounds [70 ms]
	Pause     time.Duration // silence between two keys [70 ms]
	Rise      time.Duration // length of each raised-cosine edge, inside the tone [2 ms]; negative for hard keying
	Twist     float64       // dB by which the high tone is stronger than the low one; negative for weaker [0]
	Error     float64       // share by which both pitches are off, 0.01 for 1 % high [0]
}

// DTMF sends keys, each one of "0123456789ABCD*#". The signal starts with the first tone and ends with the last, and
// has one span over all of it. It fails on other keys, on none, and on a rate below 4000.
func DTMF(keys string, o DTMFOptions) (Signal, error) {
	o.Rate = orDefault(o.Rate, 16_000)
	o.Amplitude = orDefault(o.Amplitude, 0.25)
	o.Tone = orDefault(o.Tone, 70*time.Millisecond)
	o.Pause = orDefault(o.Pause, 70*time.Millisecond)
	o.Rise = orDefault(o.Rise, 2*time.Millisecond)
	if keys == "" {
		return Signal{}, fmt.Errorf("send dtmf: no keys, want at least one")
	}
	if o.Rate < 4000 {
		return Signal{}, fmt.Errorf("send dtmf: %d samples a second, want at least 4000", o.Rate)
	}
	const layout = "123A456B789C*0#D" // by rows of the keypad
	rows := [...]float64{697, 770, 852, 941}
	columns := [...]float64{1209, 1336, 1477, 1633}
	low, high := o.Amplitude, o.Amplitude*decibels(o.Twist/2) // an amplitude ratio is half the dB of its power ratio
	s := Signal{Rate: o.Rate, Power: low*low/2 + high*high/2}
	for i, r := range keys {
		k := strings.IndexRune(layout, r)
		if k < 0 {
			return Signal{}, fmt.Errorf("send dtmf: key %q at byte %d: want one of 0-9, A-D, * and #", r, i)
		}
		if i > 0 {
			s.Samples = append(s.Samples, make([]float64, count(o.Pause, o.Rate))...)
		}
		start := len(s.Samples)
		s.Samples = append(s.Samples, make([]float64, count(o.Tone, o.Rate))...)
		burst, rise := s.Samples[start:], count(o.Rise, o.Rate)
		key(burst, o.Rate, rise, low, rows[k/4]*(1+o.Error), 0, start)
		key(burst, o.Rate, rise, high, columns[k%4]*(1+o.Error), 0, start)
	}
	s.Spans = []Span{{Start: 0, End: s.Duration(), Text: keys}}
	return s, nil
}
