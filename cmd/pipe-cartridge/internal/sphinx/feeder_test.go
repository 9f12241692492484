package sphinx

import (
	"bytes"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// fed runs blocks through a feeder with the shortest limit.
func fed(t require.TestingT, list ...engine.Block) ([]byte, *clock) {
	var out bytes.Buffer
	c := newClock()
	f := newFeeder(&out, c, newEndpointer(minMaxUtterance))
	for _, b := range list {
		require.NoError(t, f.block(b))
	}
	assert.Equal(t, int64(out.Len()/2), c.fed, "the clock has counted what was written")
	return out.Bytes(), c
}

// babble is sound without a pause, a different level every 10 ms.
func babble(seconds float64) []float32 {
	samples := make([]float32, int(seconds*engine.SampleRate))
	for i := range samples {
		level := 0.1 + 0.05*float64((i/frameSamples*7919)%13)
		samples[i] = float32(level * math.Sin(float64(i)*0.3))
	}
	return samples
}

func TestFeederF15TheChildsInputDoesNotDependOnHowBlocksAreCut(t *testing.T) {
	audio := babble(5)
	whole, wholeClock := fed(t, engine.Block{Samples: audio})
	require.Greater(t, len(whole), 2*len(audio), "silence has been added")
	rapid.Check(t, func(t *rapid.T) {
		var list []engine.Block
		for rest := audio; len(rest) > 0; {
			n := min(len(rest), rapid.SampledFrom([]int{1, 3, 159, 160, 161, 333, 4095, 65537}).Draw(t, "n")*rapid.IntRange(1, 100).Draw(t, "times"))
			list = append(list, engine.Block{Samples: rest[:n]})
			rest = rest[n:]
		}
		got, gotClock := fed(t, list...)
		assert.True(t, bytes.Equal(whole, got), "other bytes")
		assert.Equal(t, wholeClock.points, gotClock.points)
	})
}

func TestFeederNeverLetsAnUtteranceBeWithoutEnd(t *testing.T) {
	raw, _ := fed(t, engine.Block{Samples: babble(21)})
	zeros := make([]byte, 2*cutSilence)
	pieces := 0
	for {
		at := bytes.Index(raw, zeros)
		if at < 0 {
			break
		}
		pieces++
		assert.LessOrEqual(t, at/2, int(minMaxUtterance/samplePeriod)+1, "audio between two ends")
		raw = bytes.TrimLeft(raw[at:], "\x00")
	}
	assert.LessOrEqual(t, len(raw)/2, int(minMaxUtterance/samplePeriod))
	assert.GreaterOrEqual(t, pieces, 10)
}

func TestFeederAddsSilenceUpToTheEndOfAReadSoThatTheChildActsAtOnce(t *testing.T) {
	for _, n := range []int{1, 1000, childRead, 12345} {
		raw, c := fed(t, engine.Block{Samples: babble(1)[:n]}, engine.Block{Gap: time.Second})
		assert.Zero(t, c.fed%childRead, "after %d samples", n)
		assert.GreaterOrEqual(t, len(raw)/2-n, cutSilence)
		assert.Less(t, len(raw)/2-n, cutSilence+childRead)
	}
}

func TestFeederGaps(t *testing.T) {
	audio := babble(0.5)
	t.Run("a gap in front of everything adds nothing and shifts", func(t *testing.T) {
		raw, c := fed(t, engine.Block{Gap: time.Minute, Samples: audio})
		assert.Len(t, raw, 2*len(audio))
		from, to := c.span(0, int64(len(audio)))
		assert.Equal(t, time.Minute, from)
		assert.Equal(t, time.Minute+500*time.Millisecond, to)
	})
	t.Run("gaps in a row end the utterance once and add up", func(t *testing.T) {
		raw, c := fed(t, engine.Block{Samples: audio}, engine.Block{Gap: time.Second}, engine.Block{Gap: time.Hour}, engine.Block{Samples: audio})
		assert.Less(t, len(raw)/2-2*len(audio), cutSilence+childRead)
		_, to := c.span(0, c.fed)
		assert.Equal(t, time.Second+time.Hour+time.Second, to)
		_, to = c.span(0, int64(len(audio))+100)
		assert.Equal(t, 500*time.Millisecond, to, "the utterance before the gap ends before the gap")
	})
	t.Run("a gap that is none", func(t *testing.T) {
		raw, _ := fed(t, engine.Block{Samples: audio}, engine.Block{Gap: -time.Second, Samples: audio}, engine.Block{Samples: audio})
		assert.Len(t, raw, 3*2*len(audio))
	})
}

func TestFeederPassesAWriteErrorOn(t *testing.T) {
	broken := errors.New("broken")
	f := newFeeder(failing{broken}, newClock(), newEndpointer(minMaxUtterance))
	assert.ErrorIs(t, f.block(engine.Block{Samples: babble(1)}), broken)
	f = newFeeder(failing{broken}, newClock(), newEndpointer(minMaxUtterance))
	require.NoError(t, f.block(engine.Block{}), "nothing to write")
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

func BenchmarkFeeder(b *testing.B) {
	audio := babble(10)
	f := newFeeder(discard{}, newClock(), newEndpointer(defaultMaxUtterance))
	b.ReportAllocs()
	b.SetBytes(int64(2 * len(audio)))
	for b.Loop() {
		if err := f.block(engine.Block{Samples: audio}); err != nil {
			b.Fatal(err)
		}
	}
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }
