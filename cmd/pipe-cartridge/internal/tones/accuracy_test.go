package tones

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/audio"
	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

// seedBase is where all seeds of this file start. Any other number must do as well; failures print the seed.
const seedBase = 20_260_000

func TestDistanceCountsEditsOfCharacters(t *testing.T) {
	assert.Equal(t, 0, distance("CQ CQ", "CQ CQ"))
	assert.Equal(t, 1, distance("CQ CQ", "CQCQ"))
	assert.Equal(t, 5, distance("CQ CQ", ""))
	assert.Equal(t, 3, distance("", "ABC"))
	assert.Equal(t, 2, distance("KITTEN", "SITTER"))
	assert.Equal(t, 1, distance("E", "\uFFFD"))
}

// wavRates are the rates from 8 to 48 kHz that recordings come with.
func wavRates() []int {
	return []int{8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000}
}

// transcribeFile takes a recording the way a user's goes: as bytes of a WAV through the front end.
func transcribeFile(t *testing.T, s tonegen.Signal, f tonegen.Format) []engine.Segment {
	t.Helper()
	file, err := tonegen.WAV(s, tonegen.WAVOptions{Format: f, Channels: 1 + s.Rate%2})
	require.NoError(t, err)
	pull := func(context.Context) ([]byte, time.Duration, error) {
		if len(file) == 0 {
			return nil, 0, io.EOF
		}
		piece := file[:min(len(file), 4000)]
		file = file[len(piece):]
		return piece, 0, nil
	}
	return transcribe(t, audio.DecodeWAV(t.Context(), pull, audio.Limits{}))
}

func TestMorseInNoisyRecordingsHasAtMost3PercentErrors(t *testing.T) {
	var s score
	for i := range uint64(recordings) {
		seed := seedBase + i
		random := rand.New(rand.NewPCG(seed, 1))
		text := tonegen.RandomText(seed, 2+random.IntN(mostGroups-1))
		rate := wavRates()[i%uint64(len(wavRates()))]
		format := tonegen.Formats()[i/uint64(len(wavRates()))%uint64(len(tonegen.Formats()))]
		o := tonegen.MorseOptions{WPM: 10 + 25*random.Float64(), Hz: 400 + 600*random.Float64(), Rate: rate, Amplitude: 0.02 + 0.2*random.Float64()}
		signal := joined(t, tonegen.Silence(rate, 400*time.Millisecond), keyed(t, text, o), tonegen.Silence(rate, 300*time.Millisecond))
		signal.AddNoise(6, seed)
		what := fmt.Sprintf("seed %d, %.1f wpm, %.0f Hz, %d/s, %s", seed, o.WPM, o.Hz, rate, format)
		s.count(what, text, transcribeFile(t, signal, format))
	}
	t.Log(s.String())
	assert.Equal(t, recordings, s.recordings)
	assert.LessOrEqual(t, s.share(), 0.03, s.String())
}
