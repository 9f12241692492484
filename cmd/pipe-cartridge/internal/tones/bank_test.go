package tones

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

// spectrum is what the bank computes, by its definition: a Hann window of 20 ms and one sum per filter.
func spectrum(x []float64) frame {
	var f frame
	for k := range f {
		var re, im float64
		step := 2 * math.Pi * (375 + 25*float64(k)) / 16_000
		for n, v := range x {
			hann := 0.5 - 0.5*math.Cos(2*math.Pi*float64(n)/320)
			re += v * hann * math.Cos(step*float64(n))
			im += v * hann * math.Sin(step*float64(n))
		}
		f[k] = 8 * (re*re + im*im) / (320 * 320)
	}
	return f
}

// pushAll feeds whole hops and gives the last frame.
func pushAll(b *bank, x []float64) frame {
	var f frame
	for len(x) >= hop {
		b.push((*[hop]float64)(x), &f)
		x = x[hop:]
	}
	return f
}

func TestBankIsTheWindowedSpectrumAfterAnyNumberOfHops(t *testing.T) {
	b := newBank()
	rapid.Check(t, func(t *rapid.T) {
		b.reset()
		n := hops + rapid.IntRange(0, 45).Draw(t, "hops more")
		x := make([]float64, n*hop)
		for i := range x {
			x[i] = rapid.Float64Range(-1, 1).Draw(t, "x")
			if i%16 != 0 { // one drawn value for sixteen samples, bent, keeps the draw short
				x[i] = x[i-i%16] * math.Cos(float64(i*i))
			}
		}
		got, want := pushAll(b, x), spectrum(x[len(x)-window:])
		for k := range want {
			if math.Abs(got[k]-want[k]) > 1e-12 {
				t.Fatalf("filter %d after %d hops: %v, want %v", k, n, got[k], want[k])
			}
		}
	})
}

func TestBankGivesTheSameForEverOnceTheWindowIsFull(t *testing.T) {
	b := newBank()
	x := make([]float64, window*2) // 40 ms, in which every multiple of 25 Hz has whole periods
	for i := range x {
		x[i] = 0.5*math.Sin(2*math.Pi*600*float64(i)/sampleRate) + 0.25*math.Cos(2*math.Pi*1225*float64(i)/sampleRate)
	}
	first := pushAll(b, x)
	for range 1000 {
		pushAll(b, x)
	}
	assert.Equal(t, first, pushAll(b, x))
	assert.InDelta(t, 0.5*0.5/2, first[(600-firstHz)/stepHz], 1e-4, "power of the tone at 600 Hz")
	assert.InDelta(t, 0.25*0.25/2, first[(1225-firstHz)/stepHz], 1e-4, "power of the tone at 1225 Hz")
	assert.Less(t, first[(900-firstHz)/stepHz], 1e-6, "power where no tone is")
}

func TestBankResetForgets(t *testing.T) {
	used, fresh := newBank(), newBank()
	x := make([]float64, 7*hop)
	for i := range x {
		x[i] = math.Sin(float64(i))
	}
	pushAll(used, x)
	used.reset()
	assert.Equal(t, pushAll(fresh, x), pushAll(used, x))
}
