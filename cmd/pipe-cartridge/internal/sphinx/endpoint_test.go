package sphinx

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

const limit = 20 * time.Second

// power of the sounds that the tests are made of, full scale 1.
const (
	speech     = 0.01  // −20 dB
	background = 1e-5  // −50 dB
	stop       = 0.001 // −30 dB: quieter than speech, no pause
)

// ends runs frames through a fresh endpointer and gives the frames behind which it found an end.
func ends(frames []float64) []int {
	e := newEndpointer(limit)
	var at []int
	for i, power := range frames {
		if e.frame(power) {
			at = append(at, i+1)
		}
	}
	return at
}

// sound makes frames of 10 ms: pairs of power and number of frames.
func sound(pairs ...float64) []float64 {
	var frames []float64
	for i := 0; i < len(pairs); i += 2 {
		for range int(pairs[i+1]) {
			frames = append(frames, pairs[i])
		}
	}
	return frames
}

func TestEndpointerEndsAnUtteranceAfterAClearPauseOnce(t *testing.T) {
	at := ends(sound(background, 100, speech, 300, background, 1000, speech, 200, background, 400))
	require.Len(t, at, 2, "one end for each pause, however long it is: %v", at)
	assert.InDelta(t, 100+300+pauseFrames, at[0], windowFrames)
	assert.InDelta(t, 100+300+1000+200+pauseFrames, at[1], windowFrames)
}

func TestEndpointerLeavesShortPausesAlone(t *testing.T) {
	assert.Empty(t, ends(sound(speech, 300, background, pauseFrames-windowFrames, speech, 300, background, 50, speech, 300)))
}

func TestEndpointerIsNotFooledByAClick(t *testing.T) {
	assert.Empty(t, ends(sound(speech/1000, 100, 1, 5, speech/1000, 800)), "a click does not make what follows a pause")
}

func TestEndpointerSilenceHasNothingToEnd(t *testing.T) {
	at := ends(sound(0, 2000))
	assert.LessOrEqual(t, len(at), 2, "digital silence is only ended for the limit: %v", at)
}

func TestEndpointerCutsAtAQuietPointBeforeTheLimit(t *testing.T) {
	// Words of 300 ms with 150 ms of less between them: no pause, but better and worse places.
	var frames []float64
	for len(frames) < 6000 {
		frames = append(frames, sound(speech, 30, stop, 15)...)
	}
	at := ends(frames)
	require.GreaterOrEqual(t, len(at), 3)
	last := 0
	for _, end := range at {
		assert.GreaterOrEqual(t, end-last, 1500, "not before three quarters of the limit")
		assert.Less(t, end-last, 1600, "the first quiet point is good enough")
		assert.Equal(t, stop, frames[end-1], "the cut is between words, at frame %d", end)
		last = end
	}
}

func TestEndpointerLawNoUtteranceIsLongerThanTheLimit(t *testing.T) {
	t.Run("steady tone", func(t *testing.T) {
		last := 0
		for _, end := range append(ends(sound(speech, 10_000)), 10_000) {
			assert.LessOrEqual(t, end-last, 2000)
			last = end
		}
	})
	t.Run("getting louder and louder, so that no point is ever quiet", func(t *testing.T) {
		frames := make([]float64, 4000)
		for i := range frames {
			frames[i] = speech * float64(i+1) / 4000
		}
		assert.Equal(t, []int{2000, 4000}, ends(frames))
	})
	rapid.Check(t, func(t *rapid.T) {
		random := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		scale := rapid.SampledFrom([]float64{1e-9, 1e-5, 0.01, 1}).Draw(t, "scale")
		frames := make([]float64, 5000)
		for i := range frames {
			frames[i] = scale * random.ExpFloat64()
		}
		last := 0
		for _, end := range append(ends(frames), len(frames)) {
			assert.LessOrEqual(t, end-last, 2000)
			last = end
		}
	})
}
