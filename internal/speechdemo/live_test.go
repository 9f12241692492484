//go:build unix

package main

import (
	"bytes"
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sound is a header and two seconds of something that ends its first line at once.
func sound() []byte { return append([]byte("first\nsecond\n"), bytes.Repeat([]byte("x"), 64_000)...) }

func TestFeedLive(t *testing.T) {
	t.Run("the first line of a program that reads as it comes is before the end of the input", func(t *testing.T) {
		first, ended, line, err := feedLive(t.Context(), sound(), "cat")
		require.NoError(t, err)
		assert.Equal(t, "first", line)
		assert.Less(t, first, ended)
	})
	t.Run("one that collects first is not", func(t *testing.T) {
		first, ended, line, err := feedLive(t.Context(), sound(), "sort")
		require.NoError(t, err)
		assert.Equal(t, "first", line)
		assert.Greater(t, first, ended)
	})
	t.Run("one that fails is an error", func(t *testing.T) {
		_, _, _, err := feedLive(t.Context(), sound(), "false")
		require.ErrorContains(t, err, "false")
	})
	t.Run("so is the end of the context", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, _, err := feedLive(ctx, sound(), "cat")
		require.ErrorIs(t, err, context.Canceled)
	})
}
