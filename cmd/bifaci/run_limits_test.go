package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunEndsInTime(t *testing.T) {
	stdin, feed := io.Pipe()
	defer feed.Close()
	status, out, errs := ran(t, stdin, "echo", "--timeout", "1ms")
	assert.Equal(t, statusTimeout, status, errs)
	assert.Empty(t, out)
	assert.Contains(t, errs, "not done within 1ms")
	status, _, errs = ran(t, strings.NewReader("x"), "echo", "--timeout", "10m")
	assert.Equal(t, statusOK, status, errs)
	t.Run("also while the answer is awaited", func(t *testing.T) {
		status, out, errs := ran(t, untouched{t}, "stuck", "--timeout", "2s")
		assert.Equal(t, statusTimeout, status, errs)
		assert.Empty(t, out)
		assert.Contains(t, errs, "bifaci run: not done within 2s")
	})
}

func TestRunSendsThePolicy(t *testing.T) {
	for policy, want := range map[string]string{
		"online": "true true true", "no-telemetry": "true false true", "our-services": "true false false", "offline": "false false false",
	} {
		status, out, errs := ran(t, untouched{t}, "reach", "--policy", policy)
		assert.Equal(t, statusOK, status, errs)
		assert.Equal(t, want, out, policy)
	}
}

func TestRunFeedsFromADevice(t *testing.T) {
	t.Run("in place of the main input", func(t *testing.T) {
		status, out, errs := ran(t, untouched{t}, "watch", "--feed", "synthetic", "--feed-selector", `{"params":{"items":3,"interval_ms":0,"item_bytes":2}}`)
		assert.Equal(t, statusOK, status, errs)
		assert.Equal(t, "\x00\x00\x01\x01\x02\x02", out)
	})
	t.Run("a feed that does not fit is the cartridge's to refuse", func(t *testing.T) {
		status, out, errs := ran(t, untouched{t}, "echo", "--feed", "media:live;synthetic")
		assert.Equal(t, statusFailed, status)
		assert.Empty(t, out)
		assert.Contains(t, errs, "bifaci run: FEED_MISMATCH: ")
	})
}

func TestRunRefusesFlags(t *testing.T) {
	for name, row := range map[string]struct {
		words []string
		line  string
	}{
		"an unknown policy":         {[]string{"--policy", "none"}, "--policy none: want online"},
		"a time below 0":            {[]string{"--timeout", "-1s"}, "--timeout -1s"},
		"a time that is none":       {[]string{"--timeout", "soon"}, "invalid value"},
		"an unknown feed":           {[]string{"--feed", "radio"}, "--feed radio: want synthetic, microphone"},
		"a selector that is none":   {[]string{"--feed", "synthetic", "--feed-selector", "{"}, "--feed-selector: "},
		"a selector without a feed": {[]string{"--feed-selector", "{}"}, "--feed-selector needs --feed"},
		"a feed and a file":         {[]string{"-", "--feed", "synthetic"}, "nothing to do with -"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := ran(t, untouched{t}, append([]string{"echo"}, row.words...)...)
			assert.Equal(t, statusUsage, status)
			assert.Empty(t, out)
			assert.Contains(t, errs, row.line)
		})
	}
}

// A tap gives what its source gives, in small reads too, and ends when it is told to.
func TestTap(t *testing.T) {
	t.Run("to the end", func(t *testing.T) {
		input := newTap(strings.NewReader(strings.Repeat("abc", readSize)))
		got, err := io.ReadAll(io.LimitReader(input, 1<<30))
		require.NoError(t, err)
		assert.Equal(t, strings.Repeat("abc", readSize), string(got))
	})
	t.Run("to an error", func(t *testing.T) {
		got, err := io.ReadAll(newTap(io.MultiReader(strings.NewReader("some"), failing{})))
		assert.EqualError(t, err, "the disk is gone")
		assert.Equal(t, "some", string(got))
	})
	t.Run("until it is told to end", func(t *testing.T) {
		source, feed := io.Pipe()
		input := newTap(source)
		_, err := feed.Write([]byte("some"))
		require.NoError(t, err)
		got := make([]byte, 2)
		_, err = io.ReadFull(input, got)
		require.NoError(t, err)
		input.end()
		input.end()
		rest, err := io.ReadAll(input)
		require.NoError(t, err)
		assert.Equal(t, "me", string(rest))
		require.NoError(t, feed.CloseWithError(errors.New("too late")))
	})
}
