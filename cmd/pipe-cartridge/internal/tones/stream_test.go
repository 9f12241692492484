package tones

import (
	"context"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

// exact is how far times may be off.
const exact = 5 * time.Millisecond

// mixture is Morse, DTMF and Morse again on another pitch, in noise.
func mixture(t testing.TB) tonegen.Signal {
	s := joined(t,
		silent(200*time.Millisecond), keyed(t, "73 DE R2D2", tonegen.MorseOptions{WPM: 22, Hz: 555}),
		silent(700*time.Millisecond), dialled(t, "0041#*D", tonegen.DTMFOptions{}),
		silent(600*time.Millisecond), keyed(t, "OK?", tonegen.MorseOptions{WPM: 31, Hz: 920}), silent(100*time.Millisecond))
	return s.AddNoise(8, 77)
}

func TestMixedSignallingComesOutInOrderWithExactTimes(t *testing.T) {
	s := mixture(t)
	heard := hear(t, s)
	require.Equal(t, []string{"73 DE R2D2", "0041#*D", "OK?"}, texts(heard))
	for i, span := range s.Spans {
		assert.InDelta(t, span.Start, heard[i].Start, float64(exact), "start of %q", span.Text)
		assert.InDelta(t, span.End, heard[i].End, float64(exact), "end of %q", span.Text)
	}
}

func TestBlockSizesMakeNoDifference(t *testing.T) {
	samples := floats(joined(t, keyed(t, "K1?", tonegen.MorseOptions{WPM: 33}), silent(900*time.Millisecond),
		dialled(t, "0#", tonegen.DTMFOptions{}), silent(400*time.Millisecond)).AddNoise(8, 5))
	want := transcribe(t, cut(samples, len(samples)))
	require.Equal(t, []string{"K1?", "0#"}, texts(want))
	assert.Equal(t, want, transcribe(t, cut(samples, 1)))
	for seed := range uint64(cuts) {
		random := rand.New(rand.NewPCG(seedBase, seed))
		sizes := []int{1 + random.IntN(5000)} // never zeros alone
		for range random.IntN(8) {
			sizes = append(sizes, random.IntN(1<<(1+random.IntN(13))))
		}
		assert.Equal(t, want, transcribe(t, cut(samples, sizes...)), "blocks of %v", sizes)
	}
}

func TestSegmentIsEmittedSoonAfterItsEndWhileAudioGoesOn(t *testing.T) {
	for name, c := range map[string]struct {
		signal tonegen.Signal
		within time.Duration
	}{
		"10 wpm": {keyed(t, "AB CD", tonegen.MorseOptions{WPM: 10}), 1600 * time.Millisecond},
		"20 wpm": {keyed(t, "AB CD", tonegen.MorseOptions{WPM: 20}), 900 * time.Millisecond},
		"35 wpm": {keyed(t, "AB CD", tonegen.MorseOptions{WPM: 35}), 900 * time.Millisecond},
		"DTMF":   {dialled(t, "123", tonegen.DTMFOptions{}), 1100 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			samples := floats(joined(t, c.signal, silent(20*time.Second)).AddNoise(10, 1))
			given, emitted := 0, -1
			audio := func(yield func(engine.Block, error) bool) {
				for b, err := range cut(samples, 160) {
					given += len(b.Samples)
					if !yield(b, err) {
						return
					}
				}
			}
			err := Engine{}.Transcribe(t.Context(), audio, func(s engine.Segment) error {
				assert.Equal(t, c.signal.Spans[0].Text, s.Text)
				emitted = given
				return nil
			})
			require.NoError(t, err)
			late := durationOf(int64(emitted)) - c.signal.Spans[0].End
			assert.True(t, late > 0 && late < c.within, "emitted %v after the last tone, want within %v", late, c.within)
		})
	}
}

func TestLongTransmissionIsCutBetweenWords(t *testing.T) {
	text := tonegen.RandomText(4711, 40)
	s := joined(t, keyed(t, text, tonegen.MorseOptions{WPM: 30, Hz: 650}), silent(time.Second)).AddNoise(6, 3)
	heard := hear(t, s)
	assert.Equal(t, text, strings.Join(texts(heard), " "))
	assert.GreaterOrEqual(t, len(heard), 4)
	for _, h := range heard {
		assert.Less(t, h.End-h.Start, 18*time.Second, "%q is too long for one segment", h.Text)
	}
}

func TestTransmissionWithoutWordsIsCutBetweenCharacters(t *testing.T) {
	text := strings.ReplaceAll(tonegen.RandomText(4712, 70), " ", "")
	s := joined(t, keyed(t, text, tonegen.MorseOptions{WPM: 35, Hz: 650}), silent(time.Second)).AddNoise(6, 3)
	require.Greater(t, s.Duration(), 70*time.Second)
	heard := hear(t, s)
	assert.Equal(t, text, strings.Join(texts(heard), ""))
	assert.Less(t, heard[0].End-heard[0].Start, 62*time.Second)
}

func TestEndlessDialIsCutBetweenKeys(t *testing.T) {
	keys := tonegen.RandomKeys(9, 600)
	heard := hear(t, dialled(t, keys, tonegen.DTMFOptions{Tone: 60 * time.Millisecond, Pause: 60 * time.Millisecond}))
	assert.Equal(t, keys, strings.Join(texts(heard), ""))
	assert.Len(t, heard, 2)
}

func TestMemoryIsBoundedWhenDotsNeverEnd(t *testing.T) {
	var a assembler
	most := 0
	for i := range int64(5000) {
		a.take(tone{start: i * 1600, end: i*1600 + 800, kind: morse, hz: 600, power: 0.1, purity: 0.99})
		a.tick(i*1600+800, 0, false)
		a.tick(i*1600+1599, 0, false)
		most = max(most, len(a.open))
		a.done = a.done[:0]
	}
	assert.LessOrEqual(t, most, 800, "marks held, ten a second")
}

func TestTimesAreExactAlmostThreeHoursIntoTheStream(t *testing.T) {
	s := mixture(t)
	l := newListener()
	const before = 2*time.Hour + 59*time.Minute
	l.samples = int64(before / time.Second * sampleRate) // as after that much silence, which leaves no other trace
	l.push(floats(s))
	l.stop(0)
	require.Len(t, l.heard, 3)
	for i, span := range s.Spans {
		assert.InDelta(t, before+span.Start, l.heard[i].Start, float64(exact))
		assert.InDelta(t, before+span.End, l.heard[i].End, float64(exact))
	}
}

func TestTimesAreSampleExactWhereverAudioLies(t *testing.T) {
	s := mixture(t)
	want := hear(t, s)
	for _, lead := range []int{hop, 1000 * hop, 7000 * hop} { // whole hops, so that frames fall on the same samples
		var got []engine.Segment
		for _, h := range transcribe(t, func(yield func(engine.Block, error) bool) {
			_ = yield(engine.Block{Samples: make([]float32, lead)}, nil) && yield(engine.Block{Samples: floats(s)}, nil)
		}) {
			h.Start -= durationOf(int64(lead))
			h.End -= durationOf(int64(lead))
			got = append(got, h)
		}
		require.Len(t, got, len(want))
		for i, h := range got {
			assert.InDelta(t, want[i].Confidence, h.Confidence, 1e-6, "only the oscillators' phases differ")
			h.Confidence = want[i].Confidence
			assert.Equal(t, want[i], h, "%d samples of silence before", lead)
		}
	}
}

func TestGapEndsATransmissionAndCountsInTimes(t *testing.T) {
	first, second := keyed(t, "NO ONE", tonegen.MorseOptions{}), keyed(t, "TWO", tonegen.MorseOptions{})
	const gap = 1234567890 * time.Nanosecond
	heard := transcribe(t, given(engine.Block{Samples: floats(first)}, engine.Block{Gap: gap},
		engine.Block{Gap: gap, Samples: floats(second)}))
	require.Equal(t, []string{"NO ONE", "TWO"}, texts(heard))
	assert.InDelta(t, first.Spans[0].End, heard[0].End, float64(exact))
	assert.InDelta(t, first.Duration()+2*gap, heard[1].Start, float64(exact))
	assert.InDelta(t, first.Duration()+2*gap+second.Spans[0].End, heard[1].End, float64(exact))
}

func TestGapAsShortAsASampleSplitsAWord(t *testing.T) {
	a, b := keyed(t, "SOS", tonegen.MorseOptions{}), keyed(t, "KLM", tonegen.MorseOptions{})
	whole := joined(t, a, silent(180*time.Millisecond), b)
	assert.Equal(t, []string{"SOSKLM"}, texts(hear(t, whole)))
	samples, at := floats(whole), len(a.Samples)+1440
	heard := transcribe(t, given(engine.Block{Samples: samples[:at]}, engine.Block{Gap: 1, Samples: samples[at:]}))
	assert.Equal(t, []string{"SOS", "KLM"}, texts(heard))
}

func TestTonesAtTheVeryBeginningAndEndCount(t *testing.T) {
	for _, rise := range []time.Duration{-1, 5 * time.Millisecond} {
		s := keyed(t, "TANGO", tonegen.MorseOptions{Rise: rise})
		heard := hear(t, s)
		require.Equal(t, []string{"TANGO"}, texts(heard))
		assert.Less(t, heard[0].Start, exact)
		assert.InDelta(t, s.Duration(), heard[0].End, float64(exact))
	}
}

func TestNothingComesOfNothing(t *testing.T) {
	assert.Empty(t, transcribe(t, given()))
	assert.Empty(t, transcribe(t, given(engine.Block{}, engine.Block{Gap: time.Hour}, engine.Block{})))
}

func TestSamplesThatAreNoNumbersCountAsSilence(t *testing.T) {
	s := joined(t, silent(time.Second), keyed(t, "Q5", tonegen.MorseOptions{}), silent(time.Second))
	samples := floats(s)
	want := transcribe(t, cut(samples, 640))
	require.Equal(t, []string{"Q5"}, texts(want))
	for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		samples[i*777] = float32(v)
		samples[len(samples)-1-i] = float32(v)
	}
	assert.Equal(t, want, transcribe(t, cut(samples, 640)))
}

func TestHugeSamplesDoNoHarm(t *testing.T) {
	samples := floats(joined(t, silent(time.Second), keyed(t, "LOUD", tonegen.MorseOptions{})))
	for i := range samples {
		samples[i] *= math.MaxFloat32
	}
	assert.Equal(t, []string{"LOUD"}, texts(transcribe(t, cut(samples, 640))))
}

func TestErrorOfAudioEndsAndComesBackAsItIs(t *testing.T) {
	broken := errors.New("broken")
	samples := floats(keyed(t, "CQ", tonegen.MorseOptions{}))
	audio := func(yield func(engine.Block, error) bool) {
		_ = yield(engine.Block{Samples: samples}, nil) && yield(engine.Block{}, broken)
	}
	err := Engine{}.Transcribe(t.Context(), audio, func(engine.Segment) error {
		return errors.New("what is open when audio fails is not told")
	})
	assert.Same(t, broken, err)
}

func TestErrorOfEmitEndsAndComesBackAsItIs(t *testing.T) {
	full := errors.New("full")
	asked, calls := 0, 0
	audio := func(yield func(engine.Block, error) bool) {
		for b := range cut(floats(mixture(t)), 1600) {
			if asked++; !yield(b, nil) {
				return
			}
		}
	}
	err := Engine{}.Transcribe(t.Context(), audio, func(engine.Segment) error { calls++; return full })
	assert.Same(t, full, err)
	assert.Equal(t, 1, calls)
	assert.Less(t, asked, len(mixture(t).Samples)/1600, "audio was read on after the error")
}

func TestCancelEndsWithItsCauseWithinABlock(t *testing.T) {
	reason := errors.New("nobody listens any more")
	endless := func(yield func(engine.Block, error) bool) {
		for samples := floats(joined(t, keyed(t, "CQ", tonegen.MorseOptions{}), silent(2*time.Second))); ; {
			if !yield(engine.Block{Samples: samples}, nil) {
				return
			}
		}
	}
	for name, audio := range map[string]iter.Seq2[engine.Block, error]{
		"between blocks": endless,
		"in one block":   given(engine.Block{Samples: floats(mixture(t))}),
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			calls := 0
			err := Engine{}.Transcribe(ctx, audio, func(engine.Segment) error { calls++; cancel(reason); return nil })
			assert.Same(t, reason, err)
			assert.Equal(t, 1, calls)
		})
	}
}

func TestOneEngineServesManyStreamsAtOnce(t *testing.T) {
	samples := floats(mixture(t))
	want := transcribe(t, cut(samples, 900))
	var one Engine
	var group sync.WaitGroup
	results := make([][]engine.Segment, 4)
	for i := range results {
		group.Go(func() {
			_ = one.Transcribe(context.Background(), cut(samples, 900), func(s engine.Segment) error {
				results[i] = append(results[i], s)
				return nil
			})
		})
	}
	group.Wait()
	for _, got := range results {
		assert.Equal(t, want, got)
	}
}
