package main

import (
	"bytes"
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestDrawHangsOnTheSeedAndFits(t *testing.T) {
	for seed := range uint64(20) {
		a, err := draw(seed)
		require.NoError(t, err)
		b, err := draw(seed)
		require.NoError(t, err)
		assert.Equal(t, a.text, b.text)
		assert.True(t, bytes.Equal(a.wav, b.wav), "one seed, one recording")
		assert.GreaterOrEqual(t, a.duration, shortest)
		assert.LessOrEqual(t, a.duration, longest)
	}
	a, err := draw(1)
	require.NoError(t, err)
	b, err := draw(2)
	require.NoError(t, err)
	assert.NotEqual(t, a.text, b.text, "another seed, another text")
}

func TestDrawSeedTakesANumberOrDrawsOne(t *testing.T) {
	seed, err := drawSeed("77")
	require.NoError(t, err)
	assert.Equal(t, uint64(77), seed)
	_, err = drawSeed("seventy")
	assert.ErrorContains(t, err, "DEMO_SEED")
	a, err := drawSeed("")
	require.NoError(t, err)
	b, err := drawSeed("")
	require.NoError(t, err)
	assert.NotEqual(t, a, b, "drawn anew each run")
}

func TestJudgeFailsWhenTheTextDiffers(t *testing.T) {
	live := transcript{segments: []segment{{Text: "AB", arrived: time.Second}, {Text: "C", arrived: 2 * time.Second}}, lastSent: 3 * time.Second}
	assert.NoError(t, judge("AB C", live))
	assert.ErrorContains(t, judge("AB D", live), "sent was")
	assert.ErrorIs(t, judge("AB C", transcript{lastSent: time.Second}), errNothing)
}

func TestJudgeFailsWhenTheFirstSegmentCameAfterTheLastByte(t *testing.T) {
	late := transcript{segments: []segment{{Text: "AB", arrived: 3 * time.Second}}, lastSent: 2 * time.Second}
	assert.ErrorContains(t, judge("AB", late), "nothing was live")
}

// A program that answers only when its input has ended must not pass for live, whatever it answers.
func TestStreamSeesThatACollectorIsNotLive(t *testing.T) {
	r, err := draw(3)
	require.NoError(t, err)
	var printed bytes.Buffer
	got, err := stream(context.Background(), r.wav, pacing{len(r.wav)/4 + 1, time.Millisecond}, &printed,
		"/bin/sh", "-c", `cat >/dev/null; echo '{"start_ms":0,"end_ms":1,"text":"`+"X"+`"}'`)
	require.NoError(t, err)
	require.Len(t, got.segments, 1)
	assert.ErrorContains(t, judge("X", got), "nothing was live")
	assert.Contains(t, printed.String(), `"X"`)
}

func TestStreamFailsWithItsProgram(t *testing.T) {
	_, err := stream(context.Background(), nil, pacing{1, 0}, &bytes.Buffer{}, "/bin/sh", "-c", "cat >/dev/null; exit 3")
	assert.ErrorContains(t, err, "exit status 3")
	_, err = stream(context.Background(), nil, pacing{1, 0}, &bytes.Buffer{}, "/bin/sh", "-c", "echo nonsense")
	assert.ErrorContains(t, err, "no segment")
}
