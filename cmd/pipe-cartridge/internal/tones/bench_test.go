package tones

import (
	"testing"
	"time"

	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

// BenchmarkTranscribe tells how many seconds of audio one second of a processor transcribes, as "x-real-time".
func BenchmarkTranscribe(b *testing.B) {
	for name, s := range map[string]tonegen.Signal{
		"audio=silence": silent(10 * time.Second),
		"audio=noise":   tonegen.Noise(sampleRate, 10*time.Second, -20, 1),
		"audio=morse":   keyed(b, tonegen.RandomText(1, 10), tonegen.MorseOptions{WPM: 30}).AddNoise(6, 1),
		"audio=dtmf":    dialled(b, tonegen.RandomKeys(1, 60), tonegen.DTMFOptions{}).AddNoise(15, 1),
	} {
		b.Run(name, func(b *testing.B) {
			samples := floats(s)
			b.ReportAllocs()
			b.SetBytes(int64(4 * len(samples)))
			for b.Loop() {
				transcribe(b, cut(samples, 320))
			}
			b.ReportMetric(s.Duration().Seconds()*float64(b.N)/b.Elapsed().Seconds(), "x-real-time")
		})
	}
}
