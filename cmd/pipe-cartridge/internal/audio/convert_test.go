package audio

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// convertAll runs p through a new converter in pieces of size bytes.
func convertAll(t testing.TB, f Format, p []byte, size int) []float32 {
	t.Helper()
	var out []float32
	c := NewConverter(f)
	for len(p) > 0 {
		n := min(size, len(p))
		require.NoError(t, c.Feed(p[:n], func(mono []float32) error {
			out = append(out, mono...)
			return nil
		}))
		p = p[n:]
	}
	return out
}

func TestConverterKnownSamples(t *testing.T) {
	cases := []struct {
		encoding Encoding
		bytes    []byte
		want     []float32
	}{
		{U8, []byte{0, 64, 128, 192, 255}, []float32{-1, -0.5, 0, 0.5, 127.0 / 128}},
		{S16LE, []byte{0, 0x80, 0, 0, 0, 0x40, 0xff, 0x7f, 0xff, 0xff}, []float32{-1, 0, 0.5, 32767.0 / 32768, -1.0 / 32768}},
		{S16BE, []byte{0x80, 0, 0, 0, 0x40, 0, 0x7f, 0xff, 0xff, 0xff}, []float32{-1, 0, 0.5, 32767.0 / 32768, -1.0 / 32768}},
		{S24LE, []byte{0, 0, 0x80, 1, 0, 0, 0, 0, 0x40, 0xff, 0xff, 0xff}, []float32{-1, 1.0 / (1 << 23), 0.5, -1.0 / (1 << 23)}},
		{S32LE, []byte{0, 0, 0, 0x80, 0, 0, 0, 0x40, 0, 1, 0, 0}, []float32{-1, 0.5, 1.0 / (1 << 23)}},
		{F32LE, []byte{0, 0, 0x80, 0xbf, 0, 0, 0, 0x3f}, []float32{-1, 0.5}},
		{F64LE, []byte{0, 0, 0, 0, 0, 0, 0xe0, 0x3f, 0, 0, 0, 0, 0, 0, 0xf0, 0xbf}, []float32{0.5, -1}},
	}
	for _, c := range cases {
		t.Run(c.encoding.String(), func(t *testing.T) {
			assert.Equal(t, c.want, convertAll(t, Format{8_000, 1, c.encoding}, c.bytes, 100))
		})
	}
}

func TestConverterMixesChannelsWithEqualWeight(t *testing.T) {
	for channels := 1; channels <= MaxChannels; channels++ {
		frame := make([]float64, channels)
		frame[channels-1] = 0.5
		got := convertAll(t, Format{8_000, channels, F32LE}, encode(append(frame, frame...), F32LE), 1)
		require.Len(t, got, 2)
		for _, s := range got {
			assert.InDelta(t, 0.5/float64(channels), s, 1e-7, "%d channels", channels)
		}
	}
}

// TestConverterBadFloatsDoNotSpoilTheirNeighbours also covers what is too loud to be true.
func TestConverterBadFloatsDoNotSpoilTheirNeighbours(t *testing.T) {
	in := []float64{0.25, math.NaN(), 0.25, math.Inf(1), math.Inf(-1), 0.25, 1e300, -1e30, 0.25, 3.5}
	want := []float32{0.25, 0, 0.25, 0, 0, 0.25, loudest, -loudest, 0.25, 3.5}
	assert.Equal(t, want, convertAll(t, Format{8_000, 1, F64LE}, encode(in, F64LE), 3))
	in[6] = 1e38
	assert.Equal(t, want, convertAll(t, Format{8_000, 1, F32LE}, encode(in, F32LE), 3))
}

func TestConverterResetForgetsHalfAFrame(t *testing.T) {
	c := NewConverter(Format{8_000, 1, S16LE})
	var got []float32
	emit := func(m []float32) error { got = append(got, m...); return nil }
	require.NoError(t, c.Feed([]byte{0, 0x40, 0x77}, emit))
	c.Reset()
	require.NoError(t, c.Feed([]byte{0, 0x40}, emit))
	assert.Equal(t, []float32{0.5, 0.5}, got)
}

func TestConverterReturnsTheErrorOfEmit(t *testing.T) {
	c := NewConverter(Format{8_000, 1, S16LE})
	fail := func([]float32) error { return errTest }
	require.ErrorIs(t, c.Feed(make([]byte, 10), fail), errTest)
	require.NoError(t, c.Feed([]byte{0}, fail))
	require.ErrorIs(t, c.Feed([]byte{0}, fail), errTest)
}

// TestRapidConverterCuts: the same floats whatever the cuts, one for each whole frame.
func TestRapidConverterCuts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		f := Format{8_000, rapid.IntRange(1, MaxChannels).Draw(t, "channels"), Encoding(rapid.IntRange(int(U8), int(F64LE)).Draw(t, "encoding"))}
		p := rapid.SliceOfN(rapid.Byte(), 0, 400).Draw(t, "bytes")
		whole := len(p) / f.FrameBytes()
		c := NewConverter(f)
		var got, want []float32
		require.NoError(t, NewConverter(f).Feed(p, func(m []float32) error { want = append(want, m...); return nil }))
		require.Len(t, want, whole)
		for len(p) > 0 {
			n := rapid.IntRange(1, len(p)).Draw(t, "piece")
			require.NoError(t, c.Feed(p[:n], func(m []float32) error { got = append(got, m...); return nil }))
			p = p[n:]
		}
		require.Equal(t, want, got)
	})
}

// FuzzConverter: any bytes in any format give one sane float for each whole frame.
func FuzzConverter(f *testing.F) {
	f.Add([]byte{0, 0, 0xc0, 0x7f, 0, 0, 0x80, 0x7f, 1}, uint8(F32LE), uint8(1), uint8(2))
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7}, uint8(S24LE), uint8(2), uint8(1))
	f.Fuzz(func(t *testing.T, p []byte, encoding, channels, size uint8) {
		format := Format{8_000, int(channels%MaxChannels) + 1, Encoding(encoding%uint8(F64LE)) + 1}
		want := convertAll(t, format, p, len(p)+1)
		got := convertAll(t, format, p, int(size)+1)
		if len(got) != len(p)/format.FrameBytes() || len(got) != len(want) {
			t.Fatalf("%+v: %d bytes gave %d and %d floats", format, len(p), len(got), len(want))
		}
		for i := range got {
			if got[i] != want[i] || !(got[i] >= -loudest && got[i] <= loudest) {
				t.Fatalf("%+v: float %d is %v or %v", format, i, got[i], want[i])
			}
		}
	})
}
