package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunWritesARecordingAndTheTruthAboutIt(t *testing.T) {
	var out, truth bytes.Buffer
	require.NoError(t, run([]string{"-morse", "e", "-dtmf", "12", "-rate", "8000", "-format", "u8"}, &out, &truth))
	assert.Equal(t, "500ms 560ms E\n2.06s 2.27s 12\n", truth.String())
	assert.Equal(t, "RIFF", out.String()[:4])
	assert.Equal(t, 44+(500+60+1500+210+1500)*8, out.Len())
}

func TestRunWritesRawSamplesAndOpenHeaders(t *testing.T) {
	var raw, open, truth bytes.Buffer
	require.NoError(t, run([]string{"-random", "7", "-raw", "-channels", "2"}, &raw, &truth))
	require.NoError(t, run([]string{"-random", "7", "-channels", "2", "-unknown-length"}, &open, &truth))
	assert.Equal(t, raw.Bytes(), open.Bytes()[44:])
	assert.Equal(t, "\xff\xff\xff\xff", open.String()[40:44])
}

func TestRunRefusesWhatMakesNoSense(t *testing.T) {
	for want, args := range map[string][]string{
		"nothing to send":       {},
		"unexpected \"x\"":      {"-dtmf", "1", "x"},
		"rate 0":                {"-dtmf", "1", "-rate", "0"},
		`format "mp3"`:          {"-dtmf", "1", "-format", "mp3"},
		"0 channels":            {"-dtmf", "1", "-channels", "0", "-raw"},
		"key 'x'":               {"-dtmf", "x"},
		"below half the rate":   {"-morse", "A", "-hz", "9000"},
		"invalid value \"big\"": {"-wpm", "big"},
	} {
		var out, truth bytes.Buffer
		assert.ErrorContains(t, run(args, &out, &truth), want)
		assert.Zero(t, out.Len(), "%v wrote samples", args)
	}
}
