package sphinx

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

const second = int64(time.Second / samplePeriod)

func TestClockMapsThroughAddedSilenceAndGaps(t *testing.T) {
	// The child is given: 2 s of audio, 1 s of added silence, 3 s of audio. An hour is lost behind the first 2 s.
	c := newClock()
	c.advance(int(2 * second))
	c.mark(2*time.Second, true)
	c.advance(int(second))
	c.mark(2*time.Second, false)
	c.mark(2*time.Second+time.Hour, false)
	c.advance(int(3 * second))
	for _, s := range []struct {
		name               string
		start, end         float64 // seconds of the child
		wantStart, wantEnd time.Duration
	}{
		{"before the cut", 0.5, 1.5, 500 * time.Millisecond, 1500 * time.Millisecond},
		{"an end in the silence is the end of the audio before it", 0.5, 2.4, 500 * time.Millisecond, 2 * time.Second},
		{"an end at the cut", 0.5, 2, 500 * time.Millisecond, 2 * time.Second},
		{"a start in the silence is the start of what follows", 2.9, 4, time.Hour + 2*time.Second, time.Hour + 3*time.Second},
		{"behind the gap", 3.5, 6, time.Hour + 2500*time.Millisecond, time.Hour + 5*time.Second},
		{"a frame more than there is audio", 5, 6.01, time.Hour + 4*time.Second, time.Hour + 5*time.Second},
		{"all of it in the silence", 2.2, 2.8, time.Hour + 2*time.Second, time.Hour + 2*time.Second},
	} {
		t.Run(s.name, func(t *testing.T) {
			from, to := c.span(int64(s.start*float64(second)), int64(s.end*float64(second)))
			assert.Equal(t, s.wantStart, from, "start")
			assert.Equal(t, s.wantEnd, to, "end")
		})
	}
}

func TestClockForgetsWithoutChangingWhatFollows(t *testing.T) {
	c := newClock()
	at := time.Duration(0)
	for range 1000 {
		c.advance(int(second))
		at += time.Second
		c.mark(at, true)
		c.advance(int(second))
		c.mark(at, false)
	}
	c.advance(int(second))
	assert.Len(t, c.points, 2001)
	c.forget(2000 * second)
	assert.Len(t, c.points, 1)
	from, to := c.span(2000*second, 2001*second)
	assert.Equal(t, 1000*time.Second, from)
	assert.Equal(t, 1001*time.Second, to)
	c.forget(5000 * second)
	assert.Len(t, c.points, 1, "the point that holds now is always kept")
}

func TestClockIsExactAfterAYear(t *testing.T) {
	c := newClock()
	c.fed = 365 * 24 * 3600 * second
	_, to := c.span(0, c.fed-1)
	assert.Equal(t, 365*24*time.Hour-samplePeriod, to)
}

func TestClockLawTimesNeverRunBackwards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := newClock()
		at := time.Duration(0)
		for range rapid.IntRange(1, 10).Draw(t, "cuts") {
			n := rapid.IntRange(0, 5000).Draw(t, "audio")
			c.advance(n)
			at += time.Duration(n) * samplePeriod
			if n > 0 {
				c.mark(at, true)
				c.advance(rapid.IntRange(1, 5000).Draw(t, "silence"))
				c.mark(at, false)
			}
			at += rapid.SampledFrom([]time.Duration{0, time.Millisecond, time.Hour}).Draw(t, "gap")
			c.mark(at, false)
		}
		a := rapid.Int64Range(0, c.fed).Draw(t, "a")
		b := rapid.Int64Range(a, c.fed).Draw(t, "b")
		d := rapid.Int64Range(b, c.fed).Draw(t, "d")
		from1, to1 := c.span(a, b)
		from2, _ := c.span(b, d)
		assert.LessOrEqual(t, from1, to1)
		assert.LessOrEqual(t, to1, from2, "what follows does not start before what was before has ended")
		assert.LessOrEqual(t, from2, at)
		before1, before2 := from1, from2
		c.forget(a)
		from1, _ = c.span(a, b)
		from2, _ = c.span(b, d)
		assert.Equal(t, before1, from1)
		assert.Equal(t, before2, from2)
	})
}
