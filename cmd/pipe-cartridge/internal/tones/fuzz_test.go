package tones

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

// FuzzTranscribe reads bytes as 16-bit samples, repeated so that a short input fills seconds, and cuts them at a place
// and with a gap that the input chooses. Whatever comes, segments are in order and independent of the cut.
func FuzzTranscribe(f *testing.F) {
	for _, s := range []tonegen.Signal{
		keyed(f, "E", tonegen.MorseOptions{WPM: 35}),
		dialled(f, "5", tonegen.DTMFOptions{Tone: 50 * time.Millisecond}),
		tonegen.Noise(sampleRate, 30*time.Millisecond, -10, 1),
		silent(10 * time.Millisecond),
	} {
		data, err := tonegen.Encode(s.Samples, tonegen.S16, 1)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint16(100), uint32(0), uint8(1))
		f.Add(data, uint16(3000), uint32(1e9), uint8(3))
	}
	f.Fuzz(func(t *testing.T, data []byte, place uint16, gap uint32, times uint8) {
		if len(data) > 4096 {
			return
		}
		var samples []float32
		for range times%4 + 1 {
			for i := 0; i+1 < len(data); i += 2 {
				samples = append(samples, float32(int16(binary.LittleEndian.Uint16(data[i:])))/32768)
			}
			samples = append(samples, make([]float32, place%2000)...)
		}
		at := min(int(place), len(samples))
		lost := time.Duration(gap)
		whole := transcribe(t, given(engine.Block{Samples: samples[:at]}, engine.Block{Gap: lost, Samples: samples[at:]}))
		small := transcribe(t, func(yield func(engine.Block, error) bool) {
			for b, err := range cut(samples[:at], 1, 7, 0, 33) {
				if !yield(b, err) {
					return
				}
			}
			if !yield(engine.Block{Gap: lost}, nil) {
				return
			}
			for b, err := range cut(samples[at:], 100, 31, 1) {
				if !yield(b, err) {
					return
				}
			}
		})
		assert.Equal(t, whole, small)
		limit := durationOf(int64(len(samples))) + lost
		for _, s := range whole {
			assert.LessOrEqual(t, s.End, limit, "a segment ends after the audio")
		}
	})
}
