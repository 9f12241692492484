package host

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTail(t *testing.T) {
	write := func(parts ...string) string {
		var tl tail
		for _, p := range parts {
			n, err := tl.Write([]byte(p))
			if n != len(p) || err != nil {
				panic("a tail takes everything")
			}
		}
		return tl.String()
	}
	t.Run("R-12.53 up to 2000 bytes are kept whole", func(t *testing.T) {
		whole := strings.Repeat("x", 1999) + "\n"
		assert.Equal(t, whole, write(whole))
		assert.Equal(t, "", write())
		assert.Equal(t, "a\nb\n", write("a\n", "b\n"))
	})
	t.Run("R-12.53 the cut is at the beginning of a line", func(t *testing.T) {
		lines := strings.Repeat(strings.Repeat("y", 99)+"\n", 30)
		got := write(lines)
		assert.Equal(t, lines[:1900], got)
	})
	t.Run("R-12.53 without a line it is at the beginning of a character", func(t *testing.T) {
		got := write(strings.Repeat("é", 1000) + "a" + strings.Repeat("é", 999))
		assert.True(t, utf8.ValidString(got))
		assert.Equal(t, 1999, len(got))
	})
	t.Run("R-12.53 whatever is written in whatever pieces", rapid.MakeCheck(func(t *rapid.T) {
		var tl tail
		var all strings.Builder
		for _, p := range rapid.SliceOf(rapid.StringN(-1, -1, 5000)).Draw(t, "parts") {
			all.WriteString(p)
			_, err := tl.Write([]byte(p))
			require.NoError(t, err)
		}
		got, want := tl.String(), all.String()
		require.True(t, strings.HasSuffix(want, got), "the end of what was written")
		require.LessOrEqual(t, len(got), tailBytes)
		if len(want) <= tailBytes {
			require.Equal(t, want, got)
			return
		}
		last := want[len(want)-tailBytes:]
		if i := strings.IndexByte(last, '\n'); i >= 0 && i < len(last)-1 {
			require.Equal(t, last[i+1:], got)
			return
		}
		require.Greater(t, len(got), tailBytes-utf8.UTFMax)
	}))
}
