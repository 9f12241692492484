//go:build unix

package cli

import (
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const liveInputClosed = "bifaci run: live input is closed; interrupt again to cancel\n"

// want reads so many bytes of what a process says.
func want(t *testing.T, r io.Reader, text string) {
	t.Helper()
	b := make([]byte, len(text))
	_, err := io.ReadFull(r, b)
	require.NoError(t, err)
	require.Equal(t, text, string(b))
}

func TestRunObeysInterrupts(t *testing.T) {
	t.Run("the first one closes the live feed, and the run ends well", func(t *testing.T) {
		l := begin(t, command(t, programs.bifaci, "run", programs.probe, "feed", "--feed", "synthetic",
			"--feed-selector", `{"params":{"items":100000000,"interval_ms":1,"item_bytes":3}}`))
		want(t, l.out, "\x00\x00\x00\x01\x01\x01\x02\x02\x02")
		l.signal(t, syscall.SIGINT)
		got := l.end(t)
		assert.Equal(t, 0, got.status)
		assert.Equal(t, liveInputClosed, got.stderr)
	})
	t.Run("the first one ends a streaming input, behind what was read", func(t *testing.T) {
		l := begin(t, command(t, programs.bifaci, "run", programs.probe, "echo"))
		l.write(t, []byte("one"))
		want(t, l.out, "one")
		l.signal(t, syscall.SIGINT)
		got := l.end(t)
		assert.Equal(t, result{"", liveInputClosed, 0}, got)
	})
	t.Run("half an input is no input; the second one cancels", func(t *testing.T) {
		l := begin(t, command(t, programs.bifaci, "run", programs.probe, "hold"))
		l.write(t, []byte("half"))
		want(t, l.out, "started")
		l.signal(t, syscall.SIGINT)
		want(t, l.errs, liveInputClosed)
		l.signal(t, syscall.SIGINT)
		got := l.end(t)
		assert.Equal(t, 130, got.status)
		assert.Empty(t, got.stdout)
		assert.True(t, strings.HasPrefix(got.stderr, "bifaci run: CANCELLED: "), got.stderr)
	})
}
