//go:build linux

package wire

import (
	"bytes"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestWriter(t *testing.T) {
	open := func(t *testing.T) (*os.File, *Writer) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		t.Cleanup(func() { _ = r.Close() })
		return r, NewWriter(w)
	}
	t.Run("what is queued goes out with a kick, in order with what is written", func(t *testing.T) {
		r, w := open(t)
		w.Queue([]byte("one "))
		w.Queue([]byte("two "))
		w.Kick()
		got := make([]byte, 8)
		_, err := io.ReadFull(r, got)
		require.NoError(t, err)
		assert.Equal(t, "one two ", string(got))
		w.Queue([]byte("three "))
		require.NoError(t, w.Write([]byte("four")))
		w.Close()
		rest, err := io.ReadAll(r)
		require.NoError(t, err)
		assert.Equal(t, "three four", string(rest))
		assert.EqualValues(t, 18, w.Bytes.Load())
	})
	t.Run("a full pipe takes what it can, and the flusher the rest", func(t *testing.T) {
		r, w := open(t)
		sent := bytes.Repeat([]byte("0123456789"), 100_000) // more than a pipe holds
		w.Queue(sent)
		w.TryFlush()
		got := make([]byte, len(sent))
		_, err := io.ReadFull(r, got)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(sent, got))
		w.Close()
	})
	t.Run("a reader that is gone is an error, and the flusher ends", func(t *testing.T) {
		r, w := open(t)
		require.NoError(t, r.Close())
		require.Error(t, w.Write([]byte("x")))
		w.Close()
	})
}
