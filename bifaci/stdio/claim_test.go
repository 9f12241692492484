package stdio

import (
	"bytes"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestClaimOutput(t *testing.T) {
	t.Run("R-2.20 F7 stray prints land on standard error", func(t *testing.T) {
		var out, errs bytes.Buffer
		cmd := self(t, "stray")
		cmd.Stdout, cmd.Stderr = &out, &errs
		require.NoError(t, cmd.Run())

		var want bytes.Buffer
		for i := range strayFrames {
			want.Write(strayFrame(i))
		}
		assert.True(t, bytes.Equal(want.Bytes(), out.Bytes()), "the frames were touched: %d bytes, want %d", out.Len(), want.Len())
		for _, kind := range []string{"p", "r", "c"} {
			assert.Equal(t, strayBytes, strings.Count(errs.String(), kind), "bytes of kind %q", kind)
		}
		assert.Equal(t, strayBytes-1, strings.Count(errs.String(), "l"), "bytes of kind %q", "l")
		assert.Equal(t, 4*strayBytes, errs.Len(), "and nothing else")
	})

	t.Run("R-2.20 what was claimed can be given back", func(t *testing.T) {
		var out, errs bytes.Buffer
		cmd := self(t, "restore")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("hello"), &out, &errs
		require.NoError(t, cmd.Run())
		assert.Equal(t, "hello", out.String())
		assert.Equal(t, "stray done", errs.String())
	})
}

func TestClaimInput(t *testing.T) {
	frames := pattern(3 << 20)

	t.Run("R-2.20 F7 nobody but the link reads the input", func(t *testing.T) {
		var out, errs bytes.Buffer
		cmd := self(t, "no input")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(frames), &out, &errs
		require.NoError(t, cmd.Run(), "%s", &errs)
		assert.True(t, bytes.Equal(frames, out.Bytes()), "%d bytes came back of %d", out.Len(), len(frames))
	})

	t.Run("R-2.20 F7 files in place of pipes", func(t *testing.T) {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(dir+"/in", frames, 0o600))
		in, err := os.Open(dir + "/in")
		require.NoError(t, err)
		defer in.Close()
		out, err := os.OpenFile(dir+"/out", os.O_RDWR|os.O_CREATE, 0o600)
		require.NoError(t, err)
		defer out.Close()

		var errs bytes.Buffer
		cmd := self(t, "no input")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = in, out, &errs
		require.NoError(t, cmd.Run(), "%s", &errs)
		_, err = out.Seek(0, io.SeekStart)
		require.NoError(t, err)
		copied, err := io.ReadAll(out)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(frames, copied), "%d bytes came back of %d", len(copied), len(frames))
	})
}
