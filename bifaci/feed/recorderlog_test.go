package feed

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
)

func TestRecorderLog(t *testing.T) {
	t.Run("losses add up until they are taken, however the text is cut", func(t *testing.T) {
		const text = "Recording raw data 'stdin'\noverrun!!! (at least 12.500 ms long)\nnoise\nunderrun!!! (at least 7 ms long)\noverrun!!! (at least 3 ms long)\n"
		for size := 1; size <= len(text); size++ {
			var l recorderLog
			for rest := text; rest != ""; rest = rest[min(size, len(rest)):] {
				n, err := l.Write([]byte(rest[:min(size, len(rest))]))
				assert.NoError(t, err)
				assert.Equal(t, min(size, len(rest)), n)
			}
			// an underrun's text holds no overrun
			assert.Equal(t, 15500*time.Microsecond, l.takeLost(), "in pieces of %d", size)
			assert.Zero(t, l.takeLost())
			assert.Zero(t, l.actualRate())
		}
	})
	t.Run("absurd numbers are bounded", func(t *testing.T) {
		var l recorderLog
		_, _ = l.Write([]byte("overrun!!! (at least " + strings.Repeat("9", 300) + " ms long)\noverrun!!! (at least " + strings.Repeat("9", 900) +
			" ms long)\nWarning: rate is not accurate (requested = 1Hz, got = " + strings.Repeat("9", 99) + "Hz)\n"))
		assert.Equal(t, 24*time.Hour, l.takeLost())
		assert.Zero(t, l.actualRate())
	})
	t.Run("the rate", func(t *testing.T) {
		var l recorderLog
		_, _ = l.Write([]byte("Warning: rate is not accurate (requested = 16000Hz, got = 44100Hz)\n"))
		assert.Equal(t, uint64(44_100), l.actualRate())
	})
	t.Run("memory is bounded and the end is kept", func(t *testing.T) {
		var l recorderLog
		assert.Equal(t, "nothing", l.said())
		for range 100 {
			_, _ = l.Write([]byte(strings.Repeat("ü", 3001)))
		}
		_, _ = l.Write([]byte("\n \n  the last word\n"))
		assert.LessOrEqual(t, len(l.tail), logTailBytes)
		assert.LessOrEqual(t, cap(l.line), 3*logLineBytes)
		said := l.said()
		assert.True(t, strings.HasSuffix(said, "; the last word"), said)
		assert.LessOrEqual(t, len(said), saidBytes+len("…"))
		assert.True(t, utf8.ValidString(said))
	})
}

func TestItemsOfLostAudio(t *testing.T) {
	f := pcmFormat{sampleRate: 44_100, channels: 2}
	for lost, want := range map[time.Duration]uint64{-1: 0, 0: 0, time.Nanosecond: 1, 20 * time.Millisecond: 1, 29 * time.Millisecond: 1,
		31 * time.Millisecond: 2, time.Second: 50} {
		assert.Equal(t, want, f.items(lost), "%v", lost)
	}
	assert.Equal(t, uint64(882), f.frames())
	odd := pcmFormat{sampleRate: 11_025, channels: 1} // 220.5 frames in 20 ms
	assert.Equal(t, uint64(220), odd.frames())
	assert.Equal(t, 220*time.Second, odd.timeAt(11_025), "no error adds up")
}
