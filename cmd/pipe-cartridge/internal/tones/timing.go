package tones

import "math"

const (
	slowestDot = 0.170 // seconds, 7 words a minute
	fastestDot = 0.024 // seconds, 50 words a minute
	usualDot   = 0.060 // seconds, 20 words a minute

	speeds     = 140  // dot lengths that are tried, 1.4 % apart
	worstMark  = 0.30 // a length that fits nothing costs this and no more, so that one click spoils nothing
	worstSpace = 0.16 // likewise; also the price of a pause far longer than a word's

	pullUsual = 0.02 // cost per squared logarithm of speed away from the usual one: decides only what is ambiguous
	pullKnown = 0.5  // the same for a speed that was just heard
)

// timing finds the length of a dot in marks and spaces as they come. Lengths are compared by their logarithms, because
// the errors of a hand grow with what it keys: cost[i] is the sum of squared distances to the nearest right length for
// the i-th speed.
type timing struct {
	known float64 // dot of the last transmission on the same pitch, 0 for none
	cost  [speeds]float64
}

// scale gives the logarithm of the shortest dot and the step from one to the next.
func scale() (first, step float64) {
	return math.Log(fastestDot), math.Log(slowestDot/fastestDot) / (speeds - 1)
}

func (t *timing) mark(seconds float64)  { t.add(seconds, worstMark, nearestMark) }
func (t *timing) space(seconds float64) { t.add(seconds, worstSpace, nearestSpace) }

func (t *timing) add(seconds, worst float64, nearestTo func(logUnits float64) float64) {
	first, step := scale()
	length := math.Log(seconds)
	for i := range t.cost {
		units := length - first - step*float64(i)
		off := units - nearestTo(units)
		t.cost[i] += min(off*off, worst)
	}
}

// dot is the best length of a dot so far, in seconds.
func (t *timing) dot() float64 {
	first, step := scale()
	usual, known := math.Log(usualDot), math.Log(max(t.known, fastestDot))
	best, lowest := 0.0, math.Inf(1)
	for i, cost := range t.cost {
		dot := first + step*float64(i)
		cost += pullUsual * (dot - usual) * (dot - usual)
		if t.known > 0 {
			cost += pullKnown * min((dot-known)*(dot-known), 1)
		}
		if cost < lowest {
			best, lowest = dot, cost
		}
	}
	return math.Exp(best)
}

// Logarithms of the right lengths in dots, and of the limits between them, half way.
const (
	log3 = 1.0986122886681098
	log7 = 1.9459101490553132

	longMark  = log3 / 2          // from here on a mark is a dash
	longSpace = log3 / 2          // from here on a space is between characters
	wordSpace = (log3 + log7) / 2 // from here on a space is between words
)

func nearestMark(logUnits float64) float64 {
	if logUnits < longMark {
		return 0
	}
	return log3
}

func nearestSpace(logUnits float64) float64 {
	switch {
	case logUnits < longSpace:
		return 0
	case logUnits < wordSpace:
		return log3
	}
	return log7
}
