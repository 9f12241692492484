package audio

import (
	"context"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// BenchmarkDecode reports how many seconds of audio one second of processor time decodes.
func BenchmarkDecode(b *testing.B) {
	for _, f := range []Format{
		{16_000, 1, S16LE}, {8_000, 1, U8}, {44_100, 2, S16LE}, {48_000, 2, F32LE}, {44_101, 2, S16LE}, {192_000, 8, S24LE},
	} {
		b.Run("rate="+strconv.Itoa(f.Rate)+"/channels="+strconv.Itoa(f.Channels)+"/"+f.Encoding.String(), func(b *testing.B) {
			second := make([]byte, f.Rate*f.FrameBytes())
			for i := range second {
				second[i] = byte(i * 7 % 61)
			}
			b.ReportAllocs()
			b.SetBytes(int64(len(second)))
			left := 0
			pull := func(context.Context) ([]byte, time.Duration, error) {
				if left == 0 {
					return nil, 0, io.EOF
				}
				left--
				return second, 0, nil
			}
			seconds := 0
			for b.Loop() {
				left = 10
				for _, err := range DecodeRaw(context.Background(), pull, f) {
					if err != nil {
						b.Fatal(err)
					}
				}
				seconds += 10
			}
			b.ReportMetric(float64(seconds)/b.Elapsed().Seconds(), "x-real-time")
		})
	}
}

// BenchmarkWAVWithoutLength is the look-out for chunks in samples whose end is not known.
func BenchmarkWAVWithoutLength(b *testing.B) {
	second := make([]byte, 44_100*4)
	for i := range second {
		second[i] = byte(i * 7 % 251)
	}
	w := NewWAV(Limits{})
	discard := func([]byte) error { return nil }
	header := wavFile{format: Format{44_100, 2, S16LE}, dataLength: length(0xffff_ffff)}
	if err := w.Feed(header.bytes(), discard); err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(len(second)))
	for b.Loop() {
		if err := w.Feed(second, discard); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkVAD(b *testing.B) {
	noise := whiteNoise(1, engine.SampleRate, 0.01)
	v := NewVAD(VADConfig{})
	b.SetBytes(int64(len(noise) * 4))
	for b.Loop() {
		if err := v.Feed(engine.Block{Samples: noise}, func(Mark) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "x-real-time")
}

func BenchmarkNewResampler(b *testing.B) {
	for _, rate := range []int{8_000, 44_100, 44_101, 11_025, 768_000} {
		b.Run(strconv.Itoa(rate), func(b *testing.B) {
			for b.Loop() {
				NewResampler(rate, engine.SampleRate)
			}
		})
	}
}
