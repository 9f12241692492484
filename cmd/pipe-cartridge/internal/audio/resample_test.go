package audio

import (
	"fmt"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

const out16k = engine.SampleRate

// decibels is an amplitude ratio.
func decibels(ratio float64) float64 { return 20 * math.Log10(max(ratio, 1e-12)) }

// rms leaves out a margin at both ends, where the filter runs in and out.
func rms(s []float32, margin int) float64 {
	var sum float64
	s = s[margin : len(s)-margin]
	for _, x := range s {
		sum += float64(x) * float64(x)
	}
	return math.Sqrt(sum / float64(len(s)))
}

// tone resamples a sine of amplitude 0.5 at hz, long enough to measure it, and returns the result and the result
// minus the same sine at the new rate. What is left over holds every fault: ripple, images, noise, and any delay.
func tone(t *testing.T, from int, hz float64) (out, fault []float32) {
	t.Helper()
	n := max(from/10, 3_000)
	out = resampleAll(t, from, out16k, toFloat32(sine(n, hz/float64(from), 0.5)), 5_000)
	want := sine(len(out), hz/out16k, 0.5)
	fault = make([]float32, len(out))
	for i := range out {
		fault[i] = out[i] - float32(want[i])
	}
	return out, fault
}

// testRates are those that the costly tests go through.
func testRates() []int {
	if underRace {
		return []int{8_000, 16_001, 44_100}
	}
	return commonRates
}

// margin is how many outputs the filter takes to run in.
func margin(from int) int {
	f := newLowpass(from, out16k)
	return int(math.Ceil(float64(f.half)*out16k/float64(from))) + 1
}

var commonRates = []int{7_999, 8_000, 11_025, 12_000, 15_999, 16_001, 22_050, 24_000, 32_000, 44_100, 44_101, 48_000, 88_200, 96_000, 192_000, 767_999, 768_000}

func TestResamplerPassband(t *testing.T) {
	for _, from := range testRates() {
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			nyquist := float64(min(from, out16k)) / 2
			for _, part := range []float64{0.01, 0.1, 0.3, 0.5, 0.7, 0.8, 0.89} {
				_, fault := tone(t, from, part*nyquist)
				left := decibels(rms(fault, margin(from)) / (0.5 / math.Sqrt2))
				assert.Less(t, left, -68.0, "tone at %.0f Hz: what differs from the ideal, in dB", part*nyquist)
			}
		})
	}
}

func TestResamplerRejectsWhatWouldFoldBack(t *testing.T) {
	for _, from := range testRates() {
		if from <= out16k {
			continue
		}
		t.Run(fmt.Sprint(from), func(t *testing.T) {
			for _, hz := range []float64{8_000, 8_100, 8_500, 9_000, 10_000, 11_000, 13_000, 16_000, 17_500, 20_000, 23_456, 40_000, 95_000, 320_000} {
				if hz >= float64(from)/2 {
					break
				}
				out, _ := tone(t, from, hz)
				left := decibels(rms(out, margin(from)) / (0.5 / math.Sqrt2))
				assert.Less(t, left, -70.0, "what is left of %.0f Hz, in dB", hz)
			}
		})
	}
}

func TestResamplerKeepsAConstant(t *testing.T) {
	for _, from := range testRates() {
		in := make([]float32, max(from/8, 2_000))
		for i := range in {
			in[i] = 0.5
		}
		out := resampleAll(t, from, out16k, in, 1_000)
		m := margin(from)
		for i := m; i < len(out)-m; i++ {
			if math.Abs(float64(out[i])-0.5) > 2e-6 {
				require.InDelta(t, 0.5, out[i], 2e-6, "from %d: output %d", from, i)
			}
		}
	}
}

// TestResamplerHasNoDelay: a click comes out where it went in.
func TestResamplerHasNoDelay(t *testing.T) {
	for _, from := range testRates() {
		n := max(from/10, 3_000)
		for _, at := range []int{0, 1, n / 3, n/2 + 1, n - 1} {
			in := make([]float32, n)
			in[at] = 1
			out := resampleAll(t, from, out16k, in, 700)
			peak := 0
			for i := range out {
				if out[i] > out[peak] {
					peak = i
				}
			}
			inputTime := float64(at) / float64(from)
			assert.InDelta(t, inputTime, float64(peak)/out16k, 0.51/float64(min(from, out16k))+0.51/out16k, "from %d, click at %d", from, at)
		}
	}
}

func TestResamplerEqualRatesPassThrough(t *testing.T) {
	in := whiteNoise(1, 5_000, 0.3)
	assert.Equal(t, in, resampleAll(t, out16k, out16k, in, 77))
}

// TestRapidResampler: any rates; any cuts give the same samples to the last bit, ⌈n·to/from⌉ of them.
func TestRapidResampler(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.OneOf(rapid.SampledFrom(commonRates), rapid.IntRange(100, MaxRate)).Draw(t, "from")
		n := rapid.IntRange(0, min(8_000, from/2)).Draw(t, "samples") // not more than half a second
		in := whiteNoise(2, n, 0.2)
		want := resampleAll(t, from, out16k, in, n+1)
		require.Len(t, want, (n*out16k+from-1)/from)
		var got []float32
		emit := func(s []float32) error {
			require.LessOrEqual(t, len(s), outputFloats)
			got = append(got, s...)
			return nil
		}
		r := NewResampler(from, out16k)
		for len(in) > 0 {
			k := min(rapid.OneOf(rapid.IntRange(1, 10), rapid.IntRange(1, 9_000)).Draw(t, "piece"), len(in))
			require.NoError(t, r.Feed(in[:k], emit))
			in = in[k:]
		}
		require.NoError(t, r.Flush(emit))
		require.Equal(t, len(want), len(got))
		for i := range want {
			if want[i] != got[i] {
				require.Equal(t, want[i], got[i], "output %d", i)
			}
		}
	})
}

// TestResamplerLowestRate: one input a second makes 16 000 outputs, which must not come as one block.
func TestResamplerLowestRate(t *testing.T) {
	out := resampleAll(t, 1, out16k, []float32{0.5, 0.5, 0.5}, 3)
	assert.Len(t, out, 3*out16k)
}

func TestResamplerStartsAnewAfterFlush(t *testing.T) {
	in := whiteNoise(3, 9_999, 0.2)
	want := resampleAll(t, 44_100, out16k, in, 1_000)
	r := NewResampler(44_100, out16k)
	for range 3 {
		var got []float32
		emit := func(s []float32) error { got = append(got, s...); return nil }
		require.NoError(t, r.Feed(in, emit))
		require.NoError(t, r.Flush(emit))
		require.Equal(t, want, got)
	}
}

func TestResamplerReturnsTheErrorOfEmit(t *testing.T) {
	fail := func([]float32) error { return errTest }
	for _, from := range []int{8_000, out16k, 44_100} {
		require.ErrorIs(t, NewResampler(from, out16k).Feed(make([]float32, 10_000), fail), errTest)
	}
	r := NewResampler(44_100, out16k)
	require.NoError(t, r.Feed(make([]float32, 10), fail), "nothing is complete yet")
	require.ErrorIs(t, r.Flush(fail), errTest)
}

// TestResamplerPositionsAreExactAfterDays: the position is a whole number that comes back to the same phase, so the
// error after any time is the error after one period, which is none.
func TestResamplerPositionsAreExactAfterDays(t *testing.T) {
	for _, from := range testRates() {
		r := NewResampler(from, out16k)
		in := make([]float32, from)
		outputs := 0
		emit := func(s []float32) error { outputs += len(s); return nil }
		require.NoError(t, r.Feed(in, emit))
		phase, behind, first := r.phase, r.behind, outputs
		require.NoError(t, r.Feed(in, emit))
		assert.Equal(t, out16k, outputs-first, "from %d: a second of input is a second of output", from)
		assert.Equal(t, phase, r.phase, "from %d", from)
		assert.Equal(t, behind, r.behind, "from %d", from)
		assert.Less(t, cap(r.history), 3*historyFloats+8*r.half, "from %d: the history stays short", from)
	}
}
