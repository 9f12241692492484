package main

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

// firstSeed is where all seeds of this file start. Any other number must do as well; failures print the seed.
const firstSeed = 31_000_000

// edits is the number of characters to insert, delete or replace to make got of want.
func edits(want, got string) int {
	row := make([]int, len(got)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(want) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(got) {
			best := diagonal
			if want[i] != got[j] {
				best = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], best
		}
	}
	return row[len(got)]
}

func TestEditsAreCounted(t *testing.T) {
	assert.Equal(t, 0, edits("CQ CQ", "CQ CQ"))
	assert.Equal(t, 2, edits("CQ CQ", "CCQ"))
	assert.Equal(t, 3, edits("", "ABC"))
	assert.Equal(t, 3, edits("KITTEN", "SITTING"))
}

// rates are those from 8 to 48 kHz that recordings come with.
var rates = []int{8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000}

// recorded gives the words of a recording that goes the way a user's does: a WAV stream, mono or stereo, into the command.
func recorded(t *testing.T, s tonegen.Signal, f tonegen.Format, channels int) []string {
	t.Helper()
	file := wavFile(t, s, tonegen.WAVOptions{Format: f, Channels: channels, Length: tonegen.UnknownLength})
	return texts(transcribed(t, reads(file, 8000)))
}

func TestMorseAt6DBHasAtMost3PercentErrors(t *testing.T) {
	characters, wrong := 0, 0
	var misses []string
	for i := range recordings {
		seed := uint64(firstSeed + i)
		random := rand.New(rand.NewPCG(seed, 7))
		rate := rates[i%len(rates)]
		format := tonegen.Formats()[(i/len(rates))%len(tonegen.Formats())]
		o := tonegen.MorseOptions{Rate: rate, WPM: 10 + 25*random.Float64(), Hz: 400 + 600*random.Float64(), Amplitude: 0.03 + 0.2*random.Float64()}
		text := tonegen.RandomText(seed, 1+random.IntN(mostGroups))
		s := morse(t, text, o).AddNoise(6, seed)
		got := strings.Join(recorded(t, s, format, 1+i%2), " ")
		characters += len(text)
		if n := edits(text, got); n > 0 {
			wrong += n
			misses = append(misses, fmt.Sprintf("seed %d, %d/s %s, %.1f wpm, %.0f Hz: want %q, got %q", seed, rate, format, o.WPM, o.Hz, text, got))
		}
	}
	t.Logf("%d wrong characters of %d in %d recordings", wrong, characters, recordings)
	assert.LessOrEqual(t, float64(wrong), 0.03*float64(characters), strings.Join(misses, "\n"))
}

func TestDTMFAt15DBHasNoErrors(t *testing.T) {
	for i := range dials {
		seed := uint64(firstSeed + i)
		random := rand.New(rand.NewPCG(seed, 8))
		keys := tonegen.RandomKeys(seed, 4+random.IntN(8))
		rate := rates[i%len(rates)]
		s, err := tonegen.DTMF(keys, tonegen.DTMFOptions{Rate: rate, Amplitude: 0.02 + 0.1*random.Float64(), Twist: 8*random.Float64() - 4,
			Tone: time.Duration(50+random.IntN(100)) * time.Millisecond, Pause: time.Duration(50+random.IntN(100)) * time.Millisecond})
		require.NoError(t, err)
		s = joined(t, tonegen.Silence(rate, 200*time.Millisecond), s, tonegen.Silence(rate, 200*time.Millisecond)).AddNoise(15, seed)
		format := tonegen.Formats()[i%len(tonegen.Formats())]
		assert.Equal(t, []string{keys}, recorded(t, s, format, 1+i%2), "seed %d, %d/s %s", seed, rate, format)
	}
}

func TestNoiseAndSilenceSayNothing(t *testing.T) {
	for name, s := range map[string]tonegen.Signal{
		"silence":     tonegen.Silence(44_100, quiet),
		"white noise": tonegen.Noise(22_050, quiet, -20, firstSeed),
		"pink noise":  tonegen.Pink(48_000, quiet, -20, firstSeed),
		"babble":      tonegen.Babble(16_000, quiet, -20, firstSeed),
		"loud noise":  tonegen.Noise(8_000, quiet, -6, firstSeed),
	} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, recorded(t, s, tonegen.S16, 1)) })
	}
}

// TestTimeAlmostThreeHoursIntoTheStream feeds the hours as fast as they go: silence, made while it is read, and then a message.
func TestTimeAlmostThreeHoursIntoTheStream(t *testing.T) {
	const rate = 44_100
	message := morse(t, "STILL ON TIME", tonegen.MorseOptions{Rate: rate, WPM: 25})
	before := int64(longStream/time.Second) * rate
	stream := io.MultiReader(&sameByte{128, before}, bytes.NewReader(samples(t, message, tonegen.U8)))
	out, err := command(t, stream, "listen", "--engine=tones", "--sample-rate=44100", "--sample-format=u8")
	require.NoError(t, err)
	got := segments(t, out)
	require.Equal(t, []string{"STILL ON TIME"}, texts(got))
	assert.InDelta(t, (longStream + message.Spans[0].Start).Milliseconds(), got[0].StartMS, exact)
	assert.InDelta(t, (longStream + message.Spans[0].End).Milliseconds(), got[0].EndMS, exact)
}

// sameByte gives one byte n times.
type sameByte struct {
	value byte
	n     int64
}

func (r *sameByte) Read(p []byte) (int, error) {
	if r.n == 0 {
		return 0, io.EOF
	}
	p = p[:min(int64(len(p)), r.n)]
	for i := range p {
		p[i] = r.value
	}
	r.n -= int64(len(p))
	return len(p), nil
}
