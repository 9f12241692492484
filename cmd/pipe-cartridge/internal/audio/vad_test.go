package audio

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// voice is a stand-in for speech: a buzz with harmonics whose level moves with syllables of a quarter of a second.
func voice(d time.Duration, rms float64) []float32 {
	out := make([]float32, int(d.Seconds()*engine.SampleRate))
	for i := range out {
		t := float64(i) / engine.SampleRate
		syllable := 0.5 - 0.5*math.Cos(2*math.Pi*4*t)
		var buzz float64
		for h := 1.0; h <= 20; h++ {
			buzz += math.Sin(2*math.Pi*130*h*t) / 3.2
		}
		out[i] = float32(rms * 1.6 * syllable * buzz)
	}
	return out
}

// pinkNoise falls by about 3 dB an octave, brownNoise by 6.
func pinkNoise(seed uint64, n int, rms float64) []float32 {
	white := whiteNoise(seed, n, 1)
	var slow, middle, quick float64
	return scaled(white, rms, func(x float64) float64 {
		slow = 0.9977*slow + 0.099*x
		middle = 0.963*middle + 0.2965*x
		quick = 0.57*quick + 1.0527*x
		return slow + middle + quick + 0.1848*x
	})
}

func brownNoise(seed uint64, n int, rms float64) []float32 {
	var sum float64
	return scaled(whiteNoise(seed, n, 1), rms, func(x float64) float64 { sum = 0.998*sum + x; return sum })
}

func scaled(in []float32, rms float64, filter func(float64) float64) []float32 {
	out := make([]float64, len(in))
	var power float64
	for i, x := range in {
		out[i] = filter(float64(x))
		power += out[i] * out[i]
	}
	gain := rms / math.Sqrt(power/float64(len(in)))
	for i := range out {
		out[i] *= gain
	}
	return toFloat32(out)
}

func join(parts ...[]float32) []float32 {
	var out []float32
	for _, p := range parts {
		out = append(out, p...)
	}
	return out
}

func add(a, b []float32) []float32 {
	out := make([]float32, len(a))
	for i := range a {
		out[i] = a[i] + b[i]
	}
	return out
}

func quiet(d time.Duration) []float32 { return make([]float32, int(d.Seconds()*engine.SampleRate)) }

// utterance is what marks add up to.
type utterance struct {
	from, voiceFrom, voiceTo, to time.Duration
	cut                          bool
	samples                      []float32
}

// GoString keeps the samples out of reports.
func (u utterance) GoString() string {
	return fmt.Sprintf("{%v %v … %v %v cut %t, %d samples}", u.from, u.voiceFrom, u.voiceTo, u.to, u.cut, len(u.samples))
}

// requireNothing checks that there is no utterance.
func requireNothing(t *testing.T, got []utterance, what string) {
	t.Helper()
	if len(got) > 0 {
		t.Errorf("%s: want no utterance, got %#v", what, got)
	}
}

// hearer adds marks up and checks that they make sense.
type hearer struct {
	t    require.TestingT
	all  []utterance
	open bool
	last time.Duration
}

func (h *hearer) mark(m Mark) error {
	switch m.Kind {
	case Begin:
		require.False(h.t, h.open, "Begin inside an utterance")
		require.GreaterOrEqual(h.t, m.At, h.last, "utterances overlap")
		require.GreaterOrEqual(h.t, m.Voice, m.At)
		h.open = true
		h.all = append(h.all, utterance{from: m.At, voiceFrom: m.Voice})
	case Audio:
		u := &h.all[len(h.all)-1]
		require.True(h.t, h.open, "Audio outside an utterance")
		require.Equal(h.t, u.from+time.Duration(len(u.samples))*samplePeriod, m.At, "samples without a gap")
		require.NotEmpty(h.t, m.Samples)
		u.samples = append(u.samples, m.Samples...)
	case End:
		u := &h.all[len(h.all)-1]
		require.True(h.t, h.open, "End outside an utterance")
		require.Equal(h.t, u.from+time.Duration(len(u.samples))*samplePeriod, m.At)
		require.LessOrEqual(h.t, m.Voice, m.At)
		u.voiceTo, u.to, u.cut = m.Voice, m.At, m.Cut
		h.open, h.last = false, m.At
	default:
		require.Fail(h.t, "unknown mark", m.Kind)
	}
	return nil
}

// hear runs blocks through a new VAD.
func hear(t require.TestingT, c VADConfig, blocks ...engine.Block) []utterance {
	h := &hearer{t: t}
	v := NewVAD(c)
	for _, b := range blocks {
		require.NoError(t, v.Feed(b, h.mark))
	}
	require.NoError(t, v.Close(h.mark))
	require.False(t, h.open, "no End")
	return h.all
}

func TestVADMinuteOfNoiseOrSilenceIsNoUtterance(t *testing.T) {
	minute := 60 * engine.SampleRate
	if underRace {
		minute = 10 * engine.SampleRate
	}
	kinds := map[string]func(seed uint64, n int, rms float64) []float32{"white": whiteNoise, "pink": pinkNoise, "brown": brownNoise}
	for name, noise := range kinds {
		for _, db := range []float64{-80, -60, -40, -30, -20, -10, -3} {
			t.Run(fmt.Sprintf("%s noise at %.0f dB", name, db), func(t *testing.T) {
				in := noise(uint64(-db), minute, math.Pow(10, db/20))
				requireNothing(t, hear(t, VADConfig{}, engine.Block{Samples: in}), "all of it")
				requireNothing(t, hear(t, VADConfig{}, engine.Block{Samples: in[:engine.SampleRate*7/10]}), "0.7 s of it")
				step := append(quiet(5*time.Second), in[:10*engine.SampleRate]...)
				requireNothing(t, hear(t, VADConfig{}, engine.Block{Samples: step}), "behind silence")
				requireNothing(t, hear(t, VADConfig{}, engine.Block{Gap: time.Second, Samples: in[:engine.SampleRate]}, engine.Block{Gap: time.Second, Samples: in}), "behind a gap")
			})
		}
	}
	constant := make([]float32, minute)
	for i := range constant {
		constant[i] = 0.5
	}
	for name, in := range map[string][]float32{
		"silence": make([]float32, minute), "a constant": constant,
		"a tone": toFloat32(sine(minute, 0.05, 0.5)), "hum": toFloat32(sine(minute, 50.0/engine.SampleRate, 0.5)),
	} {
		requireNothing(t, hear(t, VADConfig{}, engine.Block{Samples: in}), name)
	}
}

func TestVADFindsUtterancesInNoiseAtTheirTimes(t *testing.T) {
	for _, snr := range []float64{100, 30, 15} {
		for _, db := range []float64{-15, -35} {
			t.Run(fmt.Sprintf("voice at %.0f dB, %.0f dB over the noise", db, snr), func(t *testing.T) {
				level := math.Pow(10, db/20)
				in := join(quiet(2*time.Second), voice(1500*time.Millisecond, level), quiet(1200*time.Millisecond),
					voice(3*time.Second, level), quiet(2*time.Second), voice(500*time.Millisecond, level), quiet(900*time.Millisecond))
				in = add(in, whiteNoise(3, len(in), level*math.Pow(10, -snr/20)))
				got := hear(t, VADConfig{}, engine.Block{Samples: in})
				want := [][2]time.Duration{{2000, 3500}, {4700, 7700}, {9700, 10200}}
				require.Len(t, got, len(want))
				for i, u := range got {
					// A syllable of the stand-in grows out of nothing and fades away in 60 ms and more.
					assert.InDelta(t, want[i][0]*time.Millisecond, u.voiceFrom, float64(80*time.Millisecond), "start of %d", i)
					assert.InDelta(t, want[i][1]*time.Millisecond, u.voiceTo, float64(80*time.Millisecond), "end of %d", i)
					assert.Equal(t, 300*time.Millisecond, u.voiceFrom-u.from, "pre-roll of %d", i)
					assert.Equal(t, 500*time.Millisecond, u.to-u.voiceTo, "hang-over of %d", i)
					assert.False(t, u.cut)
					first := int(u.from / samplePeriod)
					assert.Equal(t, in[first:first+len(u.samples)], u.samples, "samples as they came")
				}
			})
		}
	}
}

// TestF15VADRecordingCutAfterTheLastWord: what is open when the audio ends is given.
func TestF15VADRecordingCutAfterTheLastWord(t *testing.T) {
	in := voice(700*time.Millisecond, 0.1)
	got := hear(t, VADConfig{}, engine.Block{Samples: append(in, 0.01, 0.02, 0.03)})
	require.Len(t, got, 1)
	assert.Zero(t, got[0].from, "a voice that is there from the start on is given from the start on")
	assert.Len(t, got[0].samples, len(in)+3, "all of it, the last part of a frame too")
}

func TestVADGapEndsTheUtteranceAndCounts(t *testing.T) {
	in := voice(time.Second, 0.1)
	got := hear(t, VADConfig{}, engine.Block{Samples: in[:10_007]}, engine.Block{Gap: 50 * time.Millisecond}, engine.Block{Gap: 5 * time.Second, Samples: in})
	require.Len(t, got, 2)
	assert.Equal(t, 10_007*samplePeriod, got[0].to)
	assert.Len(t, got[0].samples, 10_007)
	start := 10_007*samplePeriod + 5050*time.Millisecond
	assert.GreaterOrEqual(t, got[1].from, start, "no pre-roll from before the gap")
	assert.InDelta(t, start, got[1].voiceFrom, float64(80*time.Millisecond))
}

func TestVADCutsWhatIsTooLong(t *testing.T) {
	in := append(quiet(time.Second), voice(25*time.Second, 0.1)...)
	got := hear(t, VADConfig{MaxUtterance: 10 * time.Second}, engine.Block{Samples: in})
	require.Len(t, got, 3)
	total := 0
	for i, u := range got {
		assert.Equal(t, i < 2, u.cut)
		assert.LessOrEqual(t, u.voiceTo-u.voiceFrom, 10*time.Second)
		if i > 0 {
			assert.Equal(t, got[i-1].to, u.from, "nothing is lost at the cut and nothing given twice")
		}
		total += len(u.samples)
	}
	assert.Equal(t, len(in)-int(got[0].from/samplePeriod), total)

	// With a pause in the last third it is cut there.
	in = join(quiet(time.Second), voice(8*time.Second, 0.1), quiet(200*time.Millisecond), voice(8*time.Second, 0.1))
	got = hear(t, VADConfig{MaxUtterance: 10 * time.Second}, engine.Block{Samples: in})
	require.Len(t, got, 2)
	assert.False(t, got[0].cut)
	assert.InDelta(t, 9*time.Second, got[0].voiceTo, float64(80*time.Millisecond))
}

func TestVADClicksAreNoUtterance(t *testing.T) {
	in := quiet(10 * time.Second)
	r := rand.New(rand.NewPCG(5, 5))
	for at := engine.SampleRate; at < len(in)-1000; at += engine.SampleRate {
		for i := range 200 {
			in[at+i] = float32(r.NormFloat64() * 0.3)
		}
	}
	requireNothing(t, hear(t, VADConfig{}, engine.Block{Samples: in}), "all of it")
}

// TestVADLearnsSteadyNoiseWithinASecond: what starts after it is told from it.
func TestVADLearnsSteadyNoiseWithinASecond(t *testing.T) {
	in := join(quiet(5*time.Second), whiteNoise(4, 2*engine.SampleRate, 0.03), add(voice(time.Second, 0.3), whiteNoise(5, engine.SampleRate, 0.03)), whiteNoise(6, engine.SampleRate, 0.03))
	got := hear(t, VADConfig{}, engine.Block{Samples: in})
	require.Len(t, got, 1)
	assert.InDelta(t, 7*time.Second, got[0].voiceFrom, float64(80*time.Millisecond))
	assert.InDelta(t, 8*time.Second, got[0].voiceTo, float64(80*time.Millisecond))
}

// TestVADVoiceThatIsThereFromTheStart does not wait until it knows the noise.
func TestVADVoiceThatIsThereFromTheStart(t *testing.T) {
	loud := voice(time.Second, 0.1)[2_000:] // from the middle of a syllable on
	got := hear(t, VADConfig{PreRoll: 10 * time.Millisecond}, engine.Block{Samples: loud})
	require.Len(t, got, 1)
	assert.Zero(t, got[0].voiceFrom)
}

// TestVADNoiseThatGrowsUnderAVoiceEndsTheUtterance: the floor adapts within its three seconds.
func TestVADNoiseThatGrowsUnderAVoiceEndsTheUtterance(t *testing.T) {
	in := join(quiet(time.Second), voice(2*time.Second, 0.1), whiteNoise(6, 10*engine.SampleRate, 0.05))
	got := hear(t, VADConfig{}, engine.Block{Samples: in})
	require.Len(t, got, 1)
	assert.Less(t, got[0].to, 7*time.Second)
}

func TestVADConfigIsHonoured(t *testing.T) {
	in := join(quiet(time.Second), voice(time.Second, 0.1), quiet(300*time.Millisecond), voice(time.Second, 0.1), quiet(time.Second))
	assert.Len(t, hear(t, VADConfig{}, engine.Block{Samples: in}), 1)
	got := hear(t, VADConfig{HangOver: 150 * time.Millisecond, PreRoll: 20 * time.Millisecond}, engine.Block{Samples: in})
	require.Len(t, got, 2)
	for _, u := range got {
		assert.Equal(t, 20*time.Millisecond, u.voiceFrom-u.from)
		assert.Equal(t, 150*time.Millisecond, u.to-u.voiceTo)
	}
	requireNothing(t, hear(t, VADConfig{MinVoice: 5 * time.Second}, engine.Block{Samples: in}), "all of it")
}

func TestVADReturnsTheErrorOfEmit(t *testing.T) {
	in := join(quiet(time.Second), voice(time.Second, 0.1), quiet(time.Second))
	for kind := Begin; kind <= End; kind++ {
		v := NewVAD(VADConfig{})
		fail := func(m Mark) error {
			if m.Kind == kind {
				return errTest
			}
			return nil
		}
		require.ErrorIs(t, v.Feed(engine.Block{Samples: in}, fail), errTest)
	}
}

func TestVADMarksJoinsASequence(t *testing.T) {
	in := join(quiet(time.Second), voice(time.Second, 0.1))
	blocks := func(yield func(engine.Block, error) bool) {
		_ = yield(engine.Block{Samples: in[:20_000]}, nil) && yield(engine.Block{Samples: in[20_000:]}, nil)
	}
	h := &hearer{t: t}
	for m, err := range NewVAD(VADConfig{}).Marks(blocks) {
		require.NoError(t, err)
		require.NoError(t, h.mark(m))
	}
	require.Len(t, h.all, 1)
	assert.False(t, h.open)

	n := 0
	for range NewVAD(VADConfig{}).Marks(blocks) {
		n++
		break
	}
	assert.Equal(t, 1, n)

	var last error
	for _, last = range NewVAD(VADConfig{}).Marks(func(yield func(engine.Block, error) bool) { yield(engine.Block{}, errTest) }) {
	}
	require.Equal(t, errTest, last)
}

// TestRapidVADCuts: the same marks however the blocks are cut, and bounded memory.
func TestRapidVADCuts(t *testing.T) {
	in := join(quiet(100*time.Millisecond), voice(300*time.Millisecond, 0.1), whiteNoise(1, 9_000, 0.002), voice(1300*time.Millisecond, 0.3))
	c := VADConfig{MaxUtterance: time.Second}
	want := hear(t, c, engine.Block{Samples: in})
	require.Greater(t, len(want), 1)
	rapid.Check(t, func(t *rapid.T) {
		var blocks []engine.Block
		for rest := in; len(rest) > 0; {
			n := min(rapid.OneOf(rapid.IntRange(1, 20), rapid.IntRange(1, 20_000)).Draw(t, "block"), len(rest))
			blocks = append(blocks, engine.Block{Samples: rest[:n]})
			rest = rest[n:]
		}
		require.Equal(t, want, hear(t, c, blocks...))
	})
}

func TestVADKeepsLittle(t *testing.T) {
	v := NewVAD(VADConfig{})
	in := add(voice(2*time.Second, 0.2), whiteNoise(2, 2*engine.SampleRate, 0.01))
	for range 50 {
		require.NoError(t, v.Feed(engine.Block{Samples: in}, func(Mark) error { return nil }))
		require.LessOrEqual(t, cap(v.kept), 4*engine.SampleRate)
	}
}
