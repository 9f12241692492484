package audio

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os/exec"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

var long = flag.Bool("long", false, "run the long stream for 2 h 59 min of audio instead of 2 min")

// music is n frames of a few tones that differ from channel to channel, interleaved.
func music(n, channels int) []float64 {
	out := make([]float64, n*channels)
	for c := range channels {
		tone := sine(n, 0.011*float64(c+1), 0.6)
		for i, x := range tone {
			out[i*channels+c] = x
		}
	}
	return out
}

// cutSizes are those of field case F15.
var cutSizes = []int{1, 3, 333, 4_095, 65_537}

func TestF15CutsMakeNoDifference(t *testing.T) {
	formats := []Format{
		{16_000, 1, S16LE}, {8_000, 1, U8}, {22_050, 1, S16LE}, {44_100, 2, S16LE}, {48_000, 2, S24LE},
		{11_025, 3, S32LE}, {44_101, 1, F32LE}, {96_000, 8, F64LE},
	}
	for _, f := range formats {
		t.Run(fmt.Sprintf("%d Hz, %d channels, %v", f.Rate, f.Channels, f.Encoding), func(t *testing.T) {
			frames := 140_000/f.FrameBytes() + 7 // more than two of the largest pieces
			if underRace {
				frames = f.Rate/30 + 7
			}
			p := encode(music(frames, f.Channels), f.Encoding)
			file := wavFile{format: f, data: p, before: []wavChunk{list}, dataLength: length(0xffff_ffff)}.bytes()
			ways := map[string]struct {
				in     []byte
				decode func(Pull) iter.Seq2[engine.Block, error]
			}{
				"raw": {p, func(pull Pull) iter.Seq2[engine.Block, error] { return DecodeRaw(t.Context(), pull, f) }},
				"WAV": {file, func(pull Pull) iter.Seq2[engine.Block, error] { return DecodeWAV(t.Context(), pull, Limits{}) }},
			}
			want, err := decodeAll(DecodeRaw(t.Context(), pieces(p, len(p)), f))
			require.NoError(t, err)
			require.Len(t, want.samples, (frames*engine.SampleRate+f.Rate-1)/f.Rate)
			for name, way := range ways {
				for _, size := range cutSizes {
					requireSame(t, want, way.decode(pieces(way.in, size)), "%s in pieces of %d", name, size)
					last := iotest.DataErrReader(bytes.NewReader(way.in))
					requireSame(t, want, way.decode(reading(last, size)), "%s, end with the last read of %d", name, size)
				}
				if f.FrameBytes() > 1 {
					lone := append(bytes.Clone(way.in), 0x5a)
					requireSame(t, want, way.decode(pieces(lone, 4_095)), "%s with one lone byte at the end", name)
				}
			}
		})
	}
}

func requireSame(t *testing.T, want decoded, blocks iter.Seq2[engine.Block, error], what string, args ...any) {
	t.Helper()
	got, err := decodeAll(blocks)
	require.NoError(t, err, what, args)
	require.Equal(t, len(want.samples), len(got.samples), fmt.Sprintf(what, args...))
	for i := range want.samples {
		if want.samples[i] != got.samples[i] {
			require.Equal(t, want.samples[i], got.samples[i], fmt.Sprintf("sample %d, ", i)+fmt.Sprintf(what, args...))
		}
	}
	require.Equal(t, want.gaps, got.gaps, fmt.Sprintf(what, args...))
}

// TestDecodeEveryEncodingSoundsTheSame: what is heard does not depend on how it is written, but for rounding.
func TestDecodeEveryEncodingSoundsTheSame(t *testing.T) {
	const frames = 4_410
	mono := music(frames, 1)
	want, err := decodeAll(DecodeRaw(t.Context(), pieces(encode(mono, F64LE), 1_000), Format{44_100, 1, F64LE}))
	require.NoError(t, err)
	steps := map[Encoding]float64{U8: 1.0 / 128, S16LE: 1.0 / 32768, S16BE: 1.0 / 32768, S24LE: 1.0 / (1 << 23), S32LE: 1e-7, F32LE: 1e-7, F64LE: 1e-9}
	for e, step := range steps {
		for _, channels := range []int{1, 2, 5, 8} {
			var mixed []float64
			for _, x := range mono {
				for range channels {
					mixed = append(mixed, x)
				}
			}
			got, err := decodeAll(DecodeRaw(t.Context(), pieces(encode(mixed, e), 1_000), Format{44_100, channels, e}))
			require.NoError(t, err)
			require.Len(t, got.samples, len(want.samples))
			for i := range want.samples {
				if math.Abs(float64(want.samples[i]-got.samples[i])) > 2*step+1e-6 {
					require.InDelta(t, want.samples[i], got.samples[i], 2*step+1e-6, "%v, %d channels, sample %d", e, channels, i)
				}
			}
		}
	}
}

// TestDecodeNaNSpoilsNothingBehindIt also when the resampler's filter runs over it.
func TestDecodeNaNSpoilsNothingBehindIt(t *testing.T) {
	in := music(44_100, 1)
	f := Format{44_100, 1, F32LE}
	clean, err := decodeAll(DecodeRaw(t.Context(), pieces(encode(in, F32LE), 4_096), f))
	require.NoError(t, err)
	for i := 20_000; i < 20_010; i++ {
		in[i] = []float64{math.NaN(), math.Inf(1), math.Inf(-1)}[i%3]
	}
	got, err := decodeAll(DecodeRaw(t.Context(), pieces(encode(in, F32LE), 4_096), f))
	require.NoError(t, err)
	reach := margin(44_100)
	first, last := 20_000*160/441-reach, 20_010*160/441+reach
	assert.Equal(t, clean.samples[:first], got.samples[:first])
	assert.Equal(t, clean.samples[last:], got.samples[last:])
	for i, x := range got.samples[first:last] {
		require.False(t, math.IsNaN(float64(x)) || math.Abs(float64(x)) > loudest, "sample %d is %v", first+i, x)
	}
}

// piece is what a scripted pull gives.
type piece struct {
	p   []byte
	gap time.Duration
	err error
}

func script(all ...piece) Pull {
	return func(context.Context) ([]byte, time.Duration, error) {
		if len(all) == 0 {
			return nil, 0, io.EOF
		}
		next := all[0]
		all = all[1:]
		return next.p, next.gap, next.err
	}
}

func TestDecodeGapComesWhereItWasAndResetsHalfASample(t *testing.T) {
	p := encode([]float64{0.5, 0.5, 0.5}, S16LE)
	got, err := decodeAll(DecodeRaw(t.Context(), script(
		piece{gap: 2 * time.Second}, piece{p: p[:3]}, piece{p: p[4:], gap: time.Second}, piece{gap: 3 * time.Second},
	), Format{16_000, 1, S16LE}))
	require.NoError(t, err)
	assert.Equal(t, []float32{0.5, 0.5}, got.samples)
	assert.Equal(t, []gapAt{{0, 2 * time.Second}, {1, time.Second}, {2, 3 * time.Second}}, got.gaps)
}

func TestDecodeGapInAWAV(t *testing.T) {
	f := wavFile{format: Format{48_000, 2, S16LE}, data: encode(music(48_000, 2), S16LE), after: []wavChunk{list}}
	file := f.bytes()
	got, err := decodeAll(DecodeWAV(t.Context(), script(
		piece{p: file[:20], gap: time.Second}, piece{p: file[20 : 44+4*9_600]}, piece{p: file[44+4*19_200:], gap: 200 * time.Millisecond},
	), Limits{}))
	require.NoError(t, err)
	assert.Equal(t, []gapAt{{0, time.Second}, {3_200, 200 * time.Millisecond}}, got.gaps)
	assert.Len(t, got.samples, 3_200+9_600, "the length in the header now reaches over the end, but LIST is no sound")
}

// TestDecodeManyGapsDoNotDrift: each gap is a whole number of samples and never nothing, and the sum stays right to a sample.
func TestDecodeManyGapsDoNotDrift(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, f := range []Format{{44_100, 1, U8}, {11_025, 2, S16LE}, {16_000, 1, S16LE}, {767_999, 1, U8}} {
		var all []piece
		var frames int64
		var gaps time.Duration
		for range 1_000 {
			n := r.IntN(300)
			gap := time.Duration(r.IntN(200_000))
			frames += int64(n)
			gaps += gap
			all = append(all, piece{p: make([]byte, n*f.FrameBytes()), gap: gap})
		}
		got, err := decodeAll(DecodeRaw(t.Context(), script(all...), f))
		require.NoError(t, err)
		have := time.Duration(len(got.samples)) * samplePeriod
		for _, g := range got.gaps {
			require.Positive(t, g.length)
			require.Zero(t, g.length%samplePeriod)
			have += g.length
		}
		want := gaps + time.Duration(float64(frames)/float64(f.Rate)*float64(time.Second))
		assert.InDelta(t, float64(want), float64(have), float64(30*samplePeriod), "%+v", f)
	}
}

func TestDecodeRefusesGapsBeyondBelief(t *testing.T) {
	for _, all := range [][]piece{
		{{gap: math.MaxInt64}},
		{{gap: maxGaps}, {gap: time.Nanosecond}},
	} {
		_, err := decodeAll(DecodeRaw(t.Context(), script(all...), Format{8_000, 1, U8}))
		requireInput(t, err, CodeBad, "gaps")
	}
	got, err := decodeAll(DecodeRaw(t.Context(), script(piece{gap: -time.Second, p: []byte{0}}), Format{16_000, 1, U8}))
	require.NoError(t, err)
	assert.Empty(t, got.gaps, "less than nothing is nothing")
}

func TestDecodeDataThatComesWithAnErrorIsUsedFirst(t *testing.T) {
	got, err := decodeAll(DecodeRaw(t.Context(), script(piece{p: []byte{1, 2, 3}, err: errTest}), Format{16_000, 1, U8}))
	require.ErrorIs(t, err, errTest)
	assert.Len(t, got.samples, 3)
}

func TestDecodeAnErrorThatWrapsEOFIsNoEnd(t *testing.T) {
	cut := fmt.Errorf("the link broke: %w", io.EOF)
	_, err := decodeAll(DecodeRaw(t.Context(), script(piece{err: cut}), Format{16_000, 1, U8}))
	require.Equal(t, cut, err)
	_, err = decodeAll(DecodeRaw(t.Context(), script(piece{err: io.ErrUnexpectedEOF}), Format{16_000, 1, U8}))
	require.Equal(t, io.ErrUnexpectedEOF, err)
}

func TestDecodeEndsWithTheCauseOfItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	endless := func(context.Context) ([]byte, time.Duration, error) { return make([]byte, 100), 0, nil }
	var err error
	blocks := 0
	for _, err = range DecodeRaw(ctx, endless, Format{16_000, 1, U8}) {
		if blocks++; blocks == 5 {
			cancel(errTest)
		}
	}
	require.Equal(t, errTest, err)
	assert.Equal(t, 6, blocks)
}

func TestDecodeReaderMayLeaveAnywhere(t *testing.T) {
	pulls := 0
	endless := func(context.Context) ([]byte, time.Duration, error) {
		pulls++
		return make([]byte, 9_000), time.Millisecond, nil
	}
	for stop := 1; stop < 12; stop++ {
		pulls = 0
		n := 0
		for _, err := range DecodeRaw(t.Context(), endless, Format{44_100, 1, U8}) {
			require.NoError(t, err)
			if n++; n == stop {
				break
			}
		}
		assert.Equal(t, stop, n)
		assert.LessOrEqual(t, pulls, stop)
	}
}

func TestDecodeRefusesAFormatBeforeItPulls(t *testing.T) {
	pull := func(context.Context) ([]byte, time.Duration, error) { panic("pulled") }
	_, err := decodeAll(DecodeRaw(t.Context(), pull, Format{0, 1, U8}))
	requireInput(t, err, CodeUnsupported, "sample rate 0")
	_, err = decodeAll(DecodeWAV(t.Context(), script(piece{p: []byte("OggS\x00\x00\x00\x00\x00\x00\x00\x00")}), Limits{}))
	requireInput(t, err, CodeUnsupported, "Ogg")
	_, err = decodeAll(DecodeWAV(t.Context(), script(), Limits{}))
	requireInput(t, err, CodeBad, "empty")
}

func TestDecodeWAVWithoutSamplesIsSilence(t *testing.T) {
	got, err := decodeAll(DecodeWAV(t.Context(), pieces(wavFile{format: Format{44_100, 1, S16LE}}.bytes(), 10), Limits{}))
	require.NoError(t, err)
	assert.Empty(t, got.samples)
}

// TestDecodeLongStreamStaysInTime: a tone far into a 44.1 kHz stream is found where it is. The whole length takes
// -long; what can drift in it is in TestResamplerPositionsAreExactAfterDays as well.
func TestDecodeLongStreamStaysInTime(t *testing.T) {
	seconds := 120
	switch {
	case *long:
		seconds = 3*3600 - 60
	case underRace:
		seconds = 5
	}
	const rate = 44_100
	silence := make([]byte, rate*2)
	burst := encode(sine(rate, 700.0/rate, 0.5), S16LE)
	const offset = 12_345 // samples into the last second
	last := append(bytes.Clone(silence[:2*offset]), burst...)
	left := seconds
	pull := func(context.Context) ([]byte, time.Duration, error) {
		switch left--; {
		case left < 0:
			return nil, 0, io.EOF
		case left == 0:
			return last, 0, nil
		}
		return silence, 0, nil
	}
	var position, start int64 = 0, -1
	for b, err := range DecodeRaw(t.Context(), pull, Format{rate, 1, S16LE}) {
		require.NoError(t, err)
		for i, x := range b.Samples {
			if start < 0 && x > 0.05 {
				start = position + int64(i)
			}
		}
		position += int64(len(b.Samples))
	}
	want := float64(seconds-1) + float64(offset)/rate
	assert.InDelta(t, want, float64(start)/engine.SampleRate, 0.0005)
	assert.Equal(t, (int64(seconds)*rate+offset)*engine.SampleRate/rate+1, position)
}

// TestDecodeCountersAtTheEndOfALongStream: the times behind a gap are right 2 h 59 min into a stream.
func TestDecodeCountersAtTheEndOfALongStream(t *testing.T) {
	const seconds = 3*3600 - 60
	var gaps []time.Duration
	d := &decoder{demux: raw{Format{44_100, 1, U8}}, yield: func(b engine.Block, _ error) bool {
		if b.Gap > 0 {
			gaps = append(gaps, b.Gap)
		}
		return true
	}}
	require.NoError(t, d.bytes(make([]byte, 44_100)))
	require.NoError(t, d.gap(time.Second))
	d.frames += seconds * 44_100
	d.samples += seconds * engine.SampleRate
	require.NoError(t, d.bytes(make([]byte, 441)))
	require.NoError(t, d.gap(time.Second))
	assert.Equal(t, []time.Duration{time.Second, time.Second}, gaps)
}

// TestDecodeWhatSoxStreams is an extra: the stream of a real program that could not go back to its header.
func TestDecodeWhatSoxStreams(t *testing.T) {
	sox, err := exec.LookPath("sox")
	if err != nil {
		t.Skip("sox is not installed: " + err.Error())
	}
	cmd := exec.CommandContext(t.Context(), sox, "-D", "-n", "-r", "22050", "-c", "2", "-b", "16", "-t", "wav", "-", "synth", "0.5", "sine", "440", "vol", "0.5")
	file, err := cmd.Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		t.Fatalf("sox: %v: %s", err, exit.Stderr)
	}
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(string(file), "RIFF"))
	got, err := decodeAll(DecodeWAV(t.Context(), pieces(file, 333), Limits{}))
	require.NoError(t, err)
	require.Len(t, got.samples, 8_000)
	assert.InDelta(t, 0.5/math.Sqrt2, rms(got.samples, 200), 0.005)
}
