package audio

import "math"

// What the low-pass of a [Resampler] does, in terms of the lower of the two Nyquist frequencies.
const (
	stopbandDB   = 80.0 // design; tests want 70
	passbandEdge = 0.9  // up to here nothing is lost; from 1.0 on everything is: nothing folds back
)

// lowpass is a windowed sinc, seen as a function of continuous time in samples of the input.
type lowpass struct {
	half   int     // it is zero outside ±half
	cutoff float64 // cycles a sample of the input; the middle of the transition
	beta   float64 // of the Kaiser window
	scale  float64 // 1 / I0(beta)
}

// newLowpass designs the filter for a change of rate.
func newLowpass(from, to int) lowpass {
	nyquist := 0.5 * min(1, float64(to)/float64(from))
	width := nyquist * (1 - passbandEdge)
	taps := (stopbandDB - 7.95) / (14.36 * width) // Kaiser's rule
	beta := 0.1102 * (stopbandDB - 8.7)
	return lowpass{
		half:   int(math.Ceil(taps/8)) * 4, // so that 2·half is a multiple of 8, which dot likes
		cutoff: nyquist * (1 + passbandEdge) / 2,
		beta:   beta,
		scale:  1 / besselI0(beta),
	}
}

// at is the impulse response t samples away from its centre.
func (l lowpass) at(t float64) float64 {
	x := t / float64(l.half)
	if x <= -1 || x >= 1 {
		return 0
	}
	window := besselI0(l.beta*math.Sqrt(1-x*x)) * l.scale
	if t == 0 {
		return 2 * l.cutoff
	}
	return window * math.Sin(2*math.Pi*l.cutoff*t) / (math.Pi * t)
}

// taps fills c with the weights of 2·half samples around an output that lies fraction (0 to 1) behind sample
// half-1 of them. They add up to 1, so that a constant stays what it is.
func (l lowpass) taps(c []float32, fraction float64) {
	var sum float64
	weights := make([]float64, len(c))
	for j := range c {
		weights[j] = l.at(float64(l.half-1-j) + fraction)
		sum += weights[j]
	}
	for j := range c {
		c[j] = float32(weights[j] / sum)
	}
}

// besselI0 is the modified Bessel function of the first kind and order 0.
func besselI0(x float64) float64 {
	sum, term := 1.0, 1.0
	q := x * x / 4
	for k := 1.0; term > sum*1e-12; k++ {
		term *= q / (k * k)
		sum += term
	}
	return sum
}
