package tones

import "math"

// kind says what sort of signalling a mark belongs to.
type kind int

const (
	noise kind = iota // no signalling: noise, speech, music
	morse             // one tone
	dtmf              // two tones of the keypad
)

// tone is what a mark turned out to be.
type tone struct {
	start, end int64
	kind       kind
	hz         float64 // morse: the pitch
	key        byte    // dtmf: the key
	power      float64
	purity     float64 // 0 to 1: share of the power from 375 to 1725 Hz that lies in the tones
	wobble     float64
}

const (
	lobe = 3 // a tone fills the filters up to three to each side, 75 Hz

	shortestMorse = 18 * ms  // a dot at 35 words a minute is 34 ms; a hasty hand and soft edges take up to 15 off
	longestMorse  = 700 * ms // a dash at 5
	shortestDTMF  = 38 * ms

	leastPurity = 0.55 // of a mark; white noise rarely reaches it, tones 3 dB below the noise still do
	mostTwist   = 8.0  // ratio of power between the two tones, 9 dB; senders keep 6 dB
	mostError   = 0.025
	lonely      = 12.0 // a second tone weaker than that, 11 dB, does not make a pair
)

func keypadLow() [4]float64  { return [...]float64{697, 770, 852, 941} }
func keypadHigh() [4]float64 { return [...]float64{1209, 1336, 1477, 1633} }

// classify tells what a mark is.
func classify(m *mark) tone {
	const highBin = (1150 - firstHz) / stepHz // first filter of the keypad's high group
	t := tone{start: m.start, end: m.end, power: m.peak, wobble: m.wobble}
	s := &m.spectrum
	total := 0.0
	for _, v := range s {
		total += v
	}
	if total <= 0 {
		return t
	}
	low, high := strongest(s, 0, morseBins), strongest(s, highBin, bins)
	powerLow, powerHigh := around(s, low), around(s, high)

	row, column := nearest(keypadLow(), pitch(s, low)), nearest(keypadHigh(), pitch(s, high))
	purity := (powerLow + powerHigh) / total
	if row >= 0 && column >= 0 && m.length() >= shortestDTMF && purity >= leastPurity &&
		powerLow < mostTwist*powerHigh && powerHigh < mostTwist*powerLow {
		t.kind, t.purity, t.key = dtmf, purity, "123A456B789C*0#D"[4*row+column]
		return t
	}

	// Distortion gives a tone harmonics, which are as pure as it is; up to a quarter of its power counts for it.
	harmonics := 0.0
	for n := 2; n <= 4; n++ {
		if bin := n*(low+firstHz/stepHz) - firstHz/stepHz; bin > low+2*lobe && bin < bins {
			harmonics += around(s, bin)
		}
	}
	purity = (powerLow + min(harmonics, powerLow/4)) / total
	if m.length() >= shortestMorse && m.length() <= longestMorse && purity >= leastPurity {
		t.kind, t.purity, t.hz = morse, purity, pitch(s, low)
	}
	return t
}

// strongest is the filter with the most power in [from, to).
func strongest(s *frame, from, to int) int {
	best := from
	for k := from; k < to; k++ {
		if s[k] > s[best] {
			best = k
		}
	}
	return best
}

// around is the power within one lobe of a filter.
func around(s *frame, k int) float64 {
	sum := 0.0
	for _, v := range s[max(k-lobe, 0):min(k+lobe+1, bins)] {
		sum += v
	}
	return sum
}

// pitch finds the tone between the filters: the top of a parabola through the logarithms, exact to a few Hz.
func pitch(s *frame, k int) float64 {
	hz := float64(firstHz + k*stepHz)
	if k == 0 || k == bins-1 || s[k-1] <= 0 || s[k+1] <= 0 {
		return hz
	}
	a, b, c := math.Log(s[k-1]), math.Log(s[k]), math.Log(s[k+1])
	curve := a - 2*b + c
	if curve >= 0 {
		return hz
	}
	return hz + stepHz*max(-0.5, min(0.5, 0.5*(a-c)/curve))
}

// nearest is the index of the keypad pitch that hz is close enough to, or -1.
func nearest(pitches [4]float64, hz float64) int {
	for i, p := range pitches {
		if math.Abs(hz-p) <= mostError*p {
			return i
		}
	}
	return -1
}
