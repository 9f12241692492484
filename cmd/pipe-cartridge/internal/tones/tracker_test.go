package tones

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// burst is a tone over part of some silence, hard keyed.
type burst struct {
	from, to      int // samples
	hz, amplitude float64
}

// track finds the marks in bursts.
func track(length int, bursts ...burst) []mark {
	x := make([]float64, length/hop*hop)
	for _, b := range bursts {
		for i := b.from; i < b.to; i++ {
			x[i] += b.amplitude * math.Sin(2*math.Pi*b.hz*float64(i)/sampleRate)
		}
	}
	bank, tracker := newBank(), tracker{}
	var marks []mark
	var f frame
	for i := 0; i+hop <= len(x); i += hop {
		bank.push((*[hop]float64)(x[i:]), &f)
		var m mark
		if tracker.push(&f, int64(i+hop-window/2), &m) {
			marks = append(marks, m)
		}
	}
	return marks
}

func TestTrackerFindsEdgesToAMillisecondAtAnyLevelAndLength(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		from := rapid.IntRange(400, 3000).Draw(t, "from")
		to := from + rapid.IntRange(22*ms, 700*ms).Draw(t, "length")
		hz := rapid.Float64Range(400, 1000).Draw(t, "hz")
		amplitude := math.Pow(10, rapid.Float64Range(-2, 0).Draw(t, "log amplitude"))
		marks := track(to+3000, burst{from, to, hz, amplitude})
		require.Len(t, marks, 1)
		assert.InDelta(t, from, marks[0].start, ms)
		assert.InDelta(t, to, marks[0].end, ms)
		assert.InDelta(t, amplitude*amplitude/2, marks[0].peak, 0.15*amplitude*amplitude/2)
		if t.Failed() {
			t.FailNow()
		}
	})
}

func TestTrackerSplitsMarksAtShortSpaces(t *testing.T) {
	marks := track(16_000, burst{1000, 1500, 700, 0.3}, burst{1960, 2460, 700, 0.3}, burst{2920, 4400, 700, 0.3})
	require.Len(t, marks, 3)
	for i, want := range []int{500, 500, 1480} {
		assert.InDelta(t, want, marks[i].length(), ms)
	}
}

func TestTrackerHearsAWeakMarkAfterAStrongOne(t *testing.T) {
	marks := track(16_000, burst{1000, 3000, 700, 1}, burst{4500, 6500, 500, 0.01})
	require.Len(t, marks, 2)
	assert.InDelta(t, 4500, marks[1].start, ms)
}

func TestTrackerBeginsAMarkWhereItIsHalfAsLoudAsItsPeak(t *testing.T) {
	marks := track(16_000, burst{1000, 4000, 700, 0.02}, burst{3000, 5000, 700, 0.5})
	require.Len(t, marks, 1, "the faint beginning is not part of the mark")
	assert.InDelta(t, 3000, marks[0].start, 2*ms)
	assert.InDelta(t, 5000, marks[0].end, 2*ms)
}

func TestTrackerIgnoresWhatIsTooFaint(t *testing.T) {
	assert.Empty(t, track(16_000, burst{4000, 8000, 700, 0.0005}))
	assert.Len(t, track(16_000, burst{4000, 8000, 700, 0.002}), 1)
}

func TestWobbleTellsAKeyedToneFromAFlutteringOne(t *testing.T) {
	keyed := track(16_000, burst{2000, 6000, 700, 0.3})
	beating := track(16_000, burst{2000, 6000, 700, 0.3}, burst{2000, 6000, 712, 0.1})
	require.Len(t, keyed, 1)
	require.Len(t, beating, 1)
	assert.Less(t, keyed[0].wobble, 0.01)
	assert.Greater(t, beating[0].wobble, 0.1)
}

func TestBackgroundNeedsFourSecondsAndTakesOnlyWhatIsSteady(t *testing.T) {
	var b background
	var steady, both frame
	steady[3] = 0.5
	both = steady
	both[10] = 0.2
	for i := range backgroundFrames * backgroundParts {
		assert.InDelta(t, 0.5, b.strongest(&steady), 1e-12, "frame %d", i)
	}
	for range backgroundFrames { // until the stretch in which the tone began is forgotten
		b.strongest(&steady)
	}
	assert.Zero(t, b.strongest(&steady))
	for i := range 4 * backgroundFrames * backgroundParts { // keyed at 10 words a minute: 60 frames on, 60 off
		f, want := &steady, 0.0
		if i/60%2 == 0 {
			f, want = &both, 0.2
		}
		if got := b.strongest(f); math.Abs(got-want) > 0.03 {
			t.Fatalf("frame %d: %v left, want %v", i, got, want)
		}
	}
	s := both
	b.remove(&s)
	assert.Zero(t, s[3])
	assert.InDelta(t, 0.2, s[10], 0.03)
}
