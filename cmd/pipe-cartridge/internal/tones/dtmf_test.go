package tones

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

func TestDTMFHasNoErrorIn15DecibelsOfNoise(t *testing.T) {
	var s score
	for i := range uint64(dtmfRecordings) {
		seed := seedBase + 5000 + i
		keys := tonegen.RandomKeys(seed, 4+int(i%20))
		rate := wavRates()[i%uint64(len(wavRates()))]
		format := tonegen.Formats()[i/uint64(len(wavRates()))%uint64(len(tonegen.Formats()))]
		o := tonegen.DTMFOptions{
			Rate: rate, Amplitude: 0.02 + 0.001*float64(i), Twist: float64(i%13) - 6, Error: (float64(i%7) - 3) * 0.005,
			Tone: time.Duration(50+i%40) * time.Millisecond, Pause: time.Duration(50+i%30) * time.Millisecond,
		}
		signal := joined(t, tonegen.Silence(rate, 300*time.Millisecond), dialled(t, keys, o), tonegen.Silence(rate, 200*time.Millisecond))
		signal.AddNoise(15, seed)
		s.count(fmt.Sprintf("seed %d, %+v, %s", seed, o, format), keys, transcribeFile(t, signal, format))
	}
	t.Log(s.String())
	assert.Zero(t, s.errors, s.String())
}

func TestEveryKeyOfDTMFRepeatedAtItsShortest(t *testing.T) {
	for _, k := range "0123456789ABCD*#" {
		for _, twist := range []float64{-6, 0, 6} {
			keys := fmt.Sprintf("%c%c%c", k, k, k)
			s := dialled(t, keys, tonegen.DTMFOptions{Tone: 50 * time.Millisecond, Pause: 50 * time.Millisecond, Twist: twist})
			heard := hear(t, joined(t, silent(100*time.Millisecond), s, silent(100*time.Millisecond)).AddNoise(15, uint64(k)))
			assert.Equal(t, []string{keys}, texts(heard), "twist %v dB", twist)
		}
	}
}

func TestDTMFGroupsEndByAPauseOfASecondAndHaveNoSpaces(t *testing.T) {
	s := joined(t, dialled(t, "12", tonegen.DTMFOptions{}), silent(900*time.Millisecond), dialled(t, "34", tonegen.DTMFOptions{}),
		silent(1100*time.Millisecond), dialled(t, "56", tonegen.DTMFOptions{})).AddNoise(15, 1)
	heard := hear(t, s)
	require.Equal(t, []string{"1234", "56"}, texts(heard))
	assert.InDelta(t, s.Spans[0].Start, heard[0].Start, float64(exact))
	assert.InDelta(t, s.Spans[1].End, heard[0].End, float64(exact))
	assert.InDelta(t, s.Spans[2].Start, heard[1].Start, float64(exact))
}

func TestKeyHeldDownIsOneKey(t *testing.T) {
	for _, held := range []time.Duration{500 * time.Millisecond, 3 * time.Second} {
		s := dialled(t, "7", tonegen.DTMFOptions{Tone: held})
		heard := hear(t, joined(t, silent(time.Second), s, silent(time.Second)).AddNoise(15, 1))
		require.Equal(t, []string{"7"}, texts(heard), "held %v", held)
		assert.InDelta(t, held, heard[0].End-heard[0].Start, float64(2*exact))
	}
}

func TestKeyThatBouncesIsOneKey(t *testing.T) {
	a := dialled(t, "4", tonegen.DTMFOptions{Tone: 50 * time.Millisecond})
	s := joined(t, silent(100*time.Millisecond), a, silent(18*time.Millisecond), a, silent(100*time.Millisecond))
	assert.Equal(t, []string{"4"}, texts(hear(t, s)))
}

func TestPairsThatAreNoKeyAreNotHeard(t *testing.T) {
	pair := func(low, high, amplitude float64) tonegen.Signal {
		s := silent(time.Second)
		for i := 5000; i < 6600; i++ {
			x := 2 * math.Pi * float64(i) / sampleRate
			s.Samples[i] = 0.2*math.Sin(low*x) + amplitude*math.Sin(high*x)
		}
		return s
	}
	require.Equal(t, []string{"5"}, texts(hear(t, pair(770, 1336, 0.2))))
	for name, s := range map[string]tonegen.Signal{
		"low tone between two keys":  pair(733, 1336, 0.2),
		"high tone between two keys": pair(770, 1272, 0.2),
		"two low tones":              pair(697, 852, 0.2),
		"high tone 15 dB stronger":   pair(770, 1336, 1.1),
		"no low tone":                pair(100, 1336, 0.2),
	} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, hear(t, s)) })
	}
}
