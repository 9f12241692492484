package tonegen

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// powerAt is the power of a tone at hz in samples, by one sum.
func powerAt(samples []float64, rate int, hz float64) float64 {
	var re, im float64
	for i, v := range samples {
		sin, cos := math.Sincos(2 * math.Pi * hz * float64(i) / float64(rate))
		re += v * cos
		im += v * sin
	}
	n := float64(len(samples))
	return 2 * (re*re + im*im) / (n * n)
}

func power(samples []float64) float64 {
	sum := 0.0
	for _, v := range samples {
		sum += v * v
	}
	return sum / float64(len(samples))
}

// stretches gives the lengths, in samples, of sound and silence in turn; zero crossings are no silence.
func stretches(samples []float64) []int {
	var lengths []int
	last := -1
	for i, v := range samples {
		if v == 0 {
			continue
		}
		if last < 0 || i-last > 40 {
			if last >= 0 {
				lengths = append(lengths, i-last-1)
			}
			lengths = append(lengths, 0)
			last = i - 1
		}
		lengths[len(lengths)-1] += i - last
		last = i
	}
	return lengths
}

func TestMorseKeysTheStandardWordInFiftyUnits(t *testing.T) {
	s, err := Morse("PARIS", MorseOptions{WPM: 12, Rise: -1}) // 100 ms a unit
	require.NoError(t, err)
	assert.Equal(t, 4300*time.Millisecond, s.Duration(), "50 units less the space behind the word")
	assert.Equal(t, []Span{{0, 4300 * time.Millisecond, "PARIS"}}, s.Spans)
	units := []int{1, 1, 3, 1, 3, 1, 1, 3, 1, 1, 3, 3, 1, 1, 3, 1, 1, 3, 1, 1, 1, 3, 1, 1, 1, 1, 1}
	got := stretches(s.Samples)
	require.Len(t, got, len(units))
	for i, u := range units {
		assert.InDelta(t, u*1600, got[i], 4, "stretch %d", i)
	}
}

func TestMorseSpacesWordsBySevenUnits(t *testing.T) {
	s, err := Morse("e t", MorseOptions{WPM: 24, Rise: -1})
	require.NoError(t, err)
	got := stretches(s.Samples)
	require.Len(t, got, 3)
	for i, u := range []int{1, 7, 3} {
		assert.InDelta(t, u*800, got[i], 4)
	}
	assert.Equal(t, "E T", s.Spans[0].Text)
}

func TestMorseHasTheAskedPitchLevelAndEdges(t *testing.T) {
	s, err := Morse("T", MorseOptions{WPM: 10, Hz: 440, Amplitude: 0.25, Rise: 10 * time.Millisecond, Rate: 48_000})
	require.NoError(t, err)
	middle := s.Samples[1000 : 1000+12_000]
	assert.InDelta(t, 0.25*0.25/2, powerAt(middle, 48_000, 440), 1e-6)
	assert.InDelta(t, s.Power, power(middle), 1e-4)
	assert.Less(t, power(s.Samples[:48])/s.Power, 0.01, "the first millisecond of a soft edge")
	assert.InDelta(t, 0.25, s.Peak(), 1e-3)
}

func TestMorseDriftsSmoothly(t *testing.T) {
	s, err := Morse("0", MorseOptions{WPM: 6, Hz: 500, Drift: 20, Rate: 8000, Rise: -1})
	require.NoError(t, err)
	at := len(s.Samples) - 2400 // inside the last dash
	hz := 500 + 20*float64(at+400)/8000
	assert.InDelta(t, s.Power, powerAt(s.Samples[at:at+800], 8000, hz), 0.02*s.Power)
}

func TestMorseJitterStaysWithinItsShareAndHangsOnTheSeed(t *testing.T) {
	key := func(seed uint64) Signal {
		s, err := Morse("HHHH", MorseOptions{WPM: 12, Jitter: 0.2, Rise: -1, Seed: seed})
		require.NoError(t, err)
		return s
	}
	assert.Equal(t, key(1), key(1))
	assert.NotEqual(t, key(1).Samples, key(2).Samples)
	widest := 0.0
	for i, n := range stretches(key(1).Samples) {
		unit := 1600.0
		if i%8 == 7 {
			unit *= 3
		}
		off := math.Abs(float64(n)/unit - 1)
		assert.LessOrEqual(t, off, 0.21)
		widest = max(widest, off)
	}
	assert.Greater(t, widest, 0.1)
}

func TestMorseRefusesWhatCannotBeKeyed(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		o    MorseOptions
		want string
	}{
		"nothing":         {"", MorseOptions{}, "not empty"},
		"a comma":         {"A,B", MorseOptions{}, `',' at byte 1`},
		"two spaces":      {"A  B", MorseOptions{}, "single spaces"},
		"leading space":   {" A", MorseOptions{}, "single spaces"},
		"trailing space":  {"A ", MorseOptions{}, "ends with a character"},
		"pitch too high":  {"A", MorseOptions{Hz: 4000, Rate: 8000}, "below half the rate"},
		"speed below nil": {"A", MorseOptions{WPM: -1}, "positive"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Morse(c.text, c.o)
			assert.ErrorContains(t, err, c.want)
		})
	}
}

func TestDTMFSendsTheTwoTonesOfEachKey(t *testing.T) {
	for _, c := range []struct {
		key       string
		low, high float64
	}{{"1", 697, 1209}, {"6", 770, 1477}, {"8", 852, 1336}, {"*", 941, 1209}, {"0", 941, 1336}, {"#", 941, 1477}, {"D", 941, 1633}, {"A", 697, 1633}} {
		s, err := DTMF(c.key, DTMFOptions{Tone: time.Second, Twist: 6})
		require.NoError(t, err)
		low, high := powerAt(s.Samples, s.Rate, c.low), powerAt(s.Samples, s.Rate, c.high)
		assert.InDelta(t, 0.25*0.25/2, low, 0.001, "key %s", c.key)
		assert.InDelta(t, 6, 10*math.Log10(high/low), 0.05, "key %s", c.key)
		assert.InDelta(t, low+high, s.Power, 0.001, "key %s", c.key)
	}
}

func TestDTMFTimesKeysAndPauses(t *testing.T) {
	s, err := DTMF("12*", DTMFOptions{Tone: 50 * time.Millisecond, Pause: 60 * time.Millisecond, Rate: 8000})
	require.NoError(t, err)
	assert.Equal(t, 270*time.Millisecond, s.Duration())
	got := stretches(s.Samples)
	require.Len(t, got, 5)
	for i, want := range []int{400, 480, 400, 480, 400} {
		assert.InDelta(t, want, got[i], 3)
	}
	assert.Equal(t, []Span{{0, 270 * time.Millisecond, "12*"}}, s.Spans)
}

func TestDTMFRefusesWhatIsNoKey(t *testing.T) {
	for want, c := range map[string]struct {
		keys string
		rate int
	}{"key 'E' at byte 1": {"1E", 0}, "no keys": {"", 0}, "want at least 4000": {"1", 2000}} {
		_, err := DTMF(c.keys, DTMFOptions{Rate: c.rate})
		assert.ErrorContains(t, err, want)
	}
}

func TestJoinMovesSpansAndRefusesOtherRates(t *testing.T) {
	a, err := Morse("A", MorseOptions{Rate: 8000, Amplitude: 0.5})
	require.NoError(t, err)
	b, err := Morse("B", MorseOptions{Rate: 8000, Amplitude: 0.1})
	require.NoError(t, err)
	s, err := Join(Silence(8000, time.Second), a, b)
	require.NoError(t, err)
	assert.Equal(t, time.Second, s.Spans[0].Start)
	assert.Equal(t, time.Second+a.Duration(), s.Spans[1].Start)
	assert.Equal(t, s.Duration(), s.Spans[1].End)
	assert.Equal(t, b.Power, s.Power)
	_, err = Join(a, Silence(16_000, 1))
	assert.ErrorContains(t, err, "signal 1 has 16000 samples a second, want 8000")
}

func TestNoiseIsAsStrongAsAskedOverTheWholeBand(t *testing.T) {
	s, err := Morse("T", MorseOptions{WPM: 10, Rise: -1})
	require.NoError(t, err)
	long := Silence(s.Rate, 20*time.Second)
	long.Power = s.Power
	assert.InDelta(t, -6, 10*math.Log10(power(long.AddNoise(6, 1).Samples)/s.Power), 0.1)
	for level, noise := range map[float64]Signal{
		-20: Noise(16_000, 10*time.Second, -20, 1), -30: Pink(16_000, 10*time.Second, -30, 1), -10: Babble(16_000, 10*time.Second, -10, 1),
	} {
		assert.InDelta(t, level, 10*math.Log10(power(noise.Samples)), 0.1)
		assert.Empty(t, noise.Spans)
	}
	assert.Zero(t, power(Silence(16_000, time.Second).AddNoise(6, 1).Samples), "without tones there is nothing to measure against")
}

func TestPinkNoiseFallsThreeDecibelsAnOctave(t *testing.T) {
	s := Pink(16_000, 60*time.Second, 0, 3)
	band := func(hz float64) float64 { // mean of 200 sums around hz, over stretches of 0.3 s
		sum := 0.0
		for i := range 200 {
			sum += powerAt(s.Samples[i*4800:(i+1)*4800], s.Rate, hz)
		}
		return 10 * math.Log10(sum)
	}
	assert.InDelta(t, 9, band(200)-band(1600), 2.5, "three octaves")
}

func TestRandomTextCanBeKeyedAndHangsOnTheSeed(t *testing.T) {
	seen := map[rune]bool{}
	for seed := range uint64(200) {
		text := RandomText(seed, 5)
		assert.Equal(t, text, RandomText(seed, 5))
		_, err := keying(text)
		require.NoError(t, err, "%q", text)
		for _, r := range text {
			seen[r] = true
		}
	}
	assert.Len(t, seen, 40, "39 characters and the space")
	assert.NotEqual(t, RandomText(1, 5), RandomText(2, 5))
	assert.Len(t, RandomKeys(1, 12), 12)
	assert.NotEqual(t, RandomKeys(1, 12), RandomKeys(2, 12))
}
