package tones

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// floats is the signal as an engine gets it.
func floats(s tonegen.Signal) []float32 {
	out := make([]float32, len(s.Samples))
	for i, v := range s.Samples {
		out[i] = float32(v)
	}
	return out
}

// cut gives samples in blocks of the given sizes, in turn. Like a real front end it uses one buffer for all of them.
func cut(samples []float32, sizes ...int) iter.Seq2[engine.Block, error] {
	return func(yield func(engine.Block, error) bool) {
		var buffer []float32
		for i := 0; len(samples) > 0; i++ {
			n := min(sizes[i%len(sizes)], len(samples))
			buffer = append(buffer[:0], samples[:n]...)
			if samples = samples[n:]; !yield(engine.Block{Samples: buffer}, nil) {
				return
			}
		}
	}
}

// given gives blocks as they are.
func given(blocks ...engine.Block) iter.Seq2[engine.Block, error] {
	return func(yield func(engine.Block, error) bool) {
		for _, b := range blocks {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// transcribe is what the engine hears.
func transcribe(t testing.TB, audio iter.Seq2[engine.Block, error]) []engine.Segment {
	t.Helper()
	var heard []engine.Segment
	err := Engine{}.Transcribe(context.Background(), audio, func(s engine.Segment) error {
		heard = append(heard, s)
		return nil
	})
	require.NoError(t, err)
	for i, s := range heard {
		require.Equal(t, "tones", s.Engine)
		require.NotEmpty(t, s.Text)
		require.True(t, s.Confidence > 0 && s.Confidence <= 1, "confidence %v", s.Confidence)
		require.True(t, s.Start >= 0 && s.Start < s.End, "segment from %v to %v", s.Start, s.End)
		require.True(t, i == 0 || heard[i-1].End <= s.Start, "segment %d begins before the one before has ended", i)
	}
	return heard
}

func hear(t testing.TB, s tonegen.Signal) []engine.Segment {
	t.Helper()
	require.Equal(t, engine.SampleRate, s.Rate)
	return transcribe(t, cut(floats(s), 320))
}

// texts are the texts of segments.
func texts(segments []engine.Segment) []string {
	var all []string
	for _, s := range segments {
		all = append(all, s.Text)
	}
	return all
}

// keyed is Morse at 16 kHz; it fails the test when it cannot be keyed.
func keyed(t testing.TB, text string, o tonegen.MorseOptions) tonegen.Signal {
	t.Helper()
	s, err := tonegen.Morse(text, o)
	require.NoError(t, err)
	return s
}

func dialled(t testing.TB, keys string, o tonegen.DTMFOptions) tonegen.Signal {
	t.Helper()
	s, err := tonegen.DTMF(keys, o)
	require.NoError(t, err)
	return s
}

func silent(d time.Duration) tonegen.Signal { return tonegen.Silence(engine.SampleRate, d) }

// joined puts signals behind each other.
func joined(t testing.TB, signals ...tonegen.Signal) tonegen.Signal {
	t.Helper()
	s, err := tonegen.Join(signals...)
	require.NoError(t, err)
	return s
}

// distance is the number of characters to insert, delete or replace to make got of want; spaces are characters.
func distance(want, got string) int {
	w, g := []rune(want), []rune(got)
	row := make([]int, len(g)+1)
	for j := range row {
		row[j] = j
	}
	for i := range w {
		diagonal := row[0]
		row[0] = i + 1
		for j := range g {
			best := diagonal
			if w[i] != g[j] {
				best = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], best
		}
	}
	return row[len(g)]
}

// score sums up errors over recordings.
type score struct {
	recordings, characters, errors int
	misses                         []string
}

// count compares what was sent with what was heard; segments count as joined by a space.
func (s *score) count(what, want string, heard []engine.Segment) {
	got := strings.Join(texts(heard), " ")
	s.recordings++
	s.characters += len([]rune(want))
	if d := distance(want, got); d > 0 {
		s.errors += d
		s.misses = append(s.misses, fmt.Sprintf("%s: %d errors\n  want %q\n  got  %q", what, d, want, got))
	}
}

func (s *score) share() float64 { return float64(s.errors) / float64(s.characters) }

func (s *score) String() string {
	return fmt.Sprintf("%d errors in %d characters of %d recordings, %.2f %%\n%s", s.errors, s.characters, s.recordings, 100*s.share(),
		strings.Join(s.misses, "\n"))
}
