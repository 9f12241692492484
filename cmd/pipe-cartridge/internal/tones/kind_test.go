package tones

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClassifyFindsThePitchToTwoHertz(t *testing.T) {
	for hz := 400.0; hz <= 1000; hz += 7 {
		marks := track(6000, burst{1000, 4000, hz, 0.2})
		require.Len(t, marks, 1)
		got := classify(&marks[0])
		require.Equal(t, morse, got.kind, "%v Hz", hz)
		assert.InDelta(t, hz, got.hz, 2)
		assert.Greater(t, got.purity, 0.98)
	}
}

func TestClassifyTellsKeysMorseAndTheRestApart(t *testing.T) {
	low, high := burst{1000, 2600, 852, 0.2}, burst{1000, 2600, 1477, 0.2}
	with := func(b burst, change func(*burst)) burst { change(&b); return b }
	for name, c := range map[string]struct {
		bursts []burst
		kind   kind
		key    byte
	}{
		"a key":                       {[]burst{low, high}, dtmf, '9'},
		"one tone of it":              {[]burst{low}, morse, 0},
		"high tone 8 dB weaker":       {[]burst{low, with(high, func(b *burst) { b.amplitude = 0.08 })}, dtmf, '9'},
		"high tone 14 dB weaker":      {[]burst{low, with(high, func(b *burst) { b.amplitude = 0.04 })}, morse, 0},
		"key pitched 1.5 % high":      {[]burst{with(low, func(b *burst) { b.hz *= 1.015 }), with(high, func(b *burst) { b.hz *= 1.015 })}, dtmf, '9'},
		"key pitched 4 % high":        {[]burst{with(low, func(b *burst) { b.hz *= 1.04 }), with(high, func(b *burst) { b.hz *= 1.04 })}, noise, 0},
		"key of 30 ms":                {[]burst{with(low, func(b *burst) { b.to = 1480 }), with(high, func(b *burst) { b.to = 1480 })}, noise, 0},
		"chord of four":               {[]burst{low, high, with(low, func(b *burst) { b.hz = 600 }), with(high, func(b *burst) { b.hz = 1250 })}, noise, 0},
		"one tone of a second":        {[]burst{with(low, func(b *burst) { b.to = 17_000 })}, noise, 0},
		"a tone with third harmonics": {[]burst{with(low, func(b *burst) { b.hz = 420 }), with(high, func(b *burst) { b.hz, b.amplitude = 1260, 0.07 })}, morse, 0},
	} {
		t.Run(name, func(t *testing.T) {
			marks := track(20_000, c.bursts...)
			require.Len(t, marks, 1)
			got := classify(&marks[0])
			assert.Equal(t, c.kind, got.kind)
			assert.Equal(t, c.key, got.key)
		})
	}
}

func TestClassifyTakesAnEmptySpectrumForNoise(t *testing.T) {
	assert.Equal(t, noise, classify(&mark{end: 1000}).kind)
}
