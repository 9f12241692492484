package sphinx

import (
	"context"
	"encoding/binary"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// deadline is far above what anything here takes; reaching it is a hang.
const deadline = 3 * time.Minute

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), deadline, context.DeadlineExceeded)
	t.Cleanup(cancel)
	return ctx
}

// blocks gives the blocks one after the other.
func blocks(list ...engine.Block) iter.Seq2[engine.Block, error] {
	return func(yield func(engine.Block, error) bool) {
		for _, b := range list {
			if !yield(b, nil) {
				return
			}
		}
	}
}

// cutInto gives samples in blocks of n.
func cutInto(samples []float32, n int) iter.Seq2[engine.Block, error] {
	return func(yield func(engine.Block, error) bool) {
		for len(samples) > 0 {
			k := min(n, len(samples))
			if !yield(engine.Block{Samples: samples[:k]}, nil) {
				return
			}
			samples = samples[k:]
		}
	}
}

// transcribe collects the segments of one call.
func transcribe(t testing.TB, e *Engine, audio iter.Seq2[engine.Block, error]) ([]engine.Segment, error) {
	t.Helper()
	var segments []engine.Segment
	err := e.Transcribe(testContext(t), audio, func(s engine.Segment) error {
		segments = append(segments, s)
		return nil
	})
	return segments, err
}

func texts(segments []engine.Segment) []string {
	list := make([]string, len(segments))
	for i, s := range segments {
		list[i] = s.Text
	}
	return list
}

func joined(segments []engine.Segment) string { return strings.Join(texts(segments), " ") }

// fromS16 reads raw 16-bit samples.
func fromS16(t testing.TB, raw []byte) []float32 {
	t.Helper()
	require.NotEmpty(t, raw)
	samples := make([]float32, len(raw)/2)
	for i := range samples {
		samples[i] = float32(int16(binary.LittleEndian.Uint16(raw[2*i:]))) / fullScale
	}
	return samples
}

func silence(d time.Duration) []float32 { return make([]float32, d/samplePeriod) }
