package tones

import "math"

// The bank looks at 20 ms of audio every 2 ms through filters 25 Hz apart. 20 ms is as long as can be without bridging
// the 29 ms spaces of hasty 35 words a minute, and narrow enough (±50 Hz) to lift a tone 26 dB out of white noise.
const (
	sampleRate = 16_000
	hop        = 32         // samples between frames, 2 ms
	hops       = 10         // hops in a window
	window     = hop * hops // samples, 20 ms

	stepHz    = 25 // between filters; hop*stepHz/sampleRate must be 1/rotations
	rotations = sampleRate / (hop * stepHz)
	edge      = sampleRate / window / stepHz // filters to each side that a Hann window mixes in
	firstHz   = 375
	bins      = 55 // 375 to 1725 Hz: Morse, and both DTMF groups
	rawBins   = bins + 2*edge
	rawFirst  = firstHz/stepHz - edge // multiple of stepHz of raw filter 0
)

// frame is the power spectrum of one window, bin i at firstHz + i·stepHz. A tone of amplitude a on a bin has power a²/2.
type frame [bins]float64

// bank turns samples into frames. Its state is ten hops and two counters that wrap, so it is exact for ever.
type bank struct {
	cos, sin [rawBins][hop]float64 // one hop of each filter's oscillator
	turn     [rotations]complex128 // phase of the first filter's oscillator at the start of hops
	lean     [hops]complex128      // phase of the Hann window's cosine at the start of hops

	partial [hops][rawBins]complex128 // what each of the last hops added, at slot hop number mod hops
	n       int                       // hops so far, mod rotations (a multiple of hops)
}

func newBank() *bank {
	b := &bank{}
	for k := range rawBins {
		for i := range hop {
			phase := 2 * math.Pi * float64((rawFirst+k)*stepHz) * float64(i) / sampleRate
			b.sin[k][i], b.cos[k][i] = math.Sincos(phase)
		}
	}
	for i := range b.turn {
		sin, cos := math.Sincos(-2 * math.Pi * float64(i) / rotations)
		b.turn[i] = complex(cos, sin)
	}
	for i := range b.lean {
		sin, cos := math.Sincos(2 * math.Pi * float64(i) / hops)
		b.lean[i] = complex(cos, sin)
	}
	return b
}

// reset forgets all samples; those before the next one count as zero.
func (b *bank) reset() {
	clear(b.partial[:])
	b.n = 0
}

// push takes one hop and fills f with the spectrum of the window that ends with it. The centre of that window lies
// window/2 before the hop's end.
func (b *bank) push(x *[hop]float64, f *frame) {
	sums := &b.partial[b.n%hops]
	for k := range rawBins {
		var re, im float64
		cos, sin := &b.cos[k], &b.sin[k]
		for i, v := range x {
			re += v * cos[i]
			im -= v * sin[i]
		}
		sums[k] = complex(re, im) * b.turn[(rawFirst+k)*b.n%rotations]
	}
	b.n = (b.n + 1) % rotations

	var raw [rawBins]complex128 // spectrum through a rectangular window
	for h := range b.partial {
		for k, v := range &b.partial[h] {
			raw[k] += v
		}
	}
	// A Hann window is half the rectangle less a quarter of its neighbours to both sides, turned to where the window starts.
	lean := b.lean[b.n%hops]
	back := complex(real(lean), -imag(lean))
	const scale = 8.0 / (window * window)
	for k := range f {
		v := 0.5*raw[k+edge] - 0.25*(lean*raw[k+2*edge]+back*raw[k])
		f[k] = scale * (real(v)*real(v) + imag(v)*imag(v))
	}
}
