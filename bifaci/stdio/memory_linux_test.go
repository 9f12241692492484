package stdio

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMemory(t *testing.T) {
	t.Run("R-4.4 this process", func(t *testing.T) {
		footprintBefore, rssBefore, ok := Memory()
		require.True(t, ok)
		assert.Positive(t, footprintBefore)
		assert.Greater(t, rssBefore, uint64(1))

		const grownMB = 64
		ballast := make([]byte, grownMB<<20)
		for i := 0; i < len(ballast); i += os.Getpagesize() {
			ballast[i] = 1
		}
		footprint, rss, ok := Memory()
		require.True(t, ok)
		assert.GreaterOrEqual(t, footprint, uint64(grownMB))
		assert.GreaterOrEqual(t, rss, uint64(grownMB))
		assert.Equal(t, byte(1), ballast[0])
	})

	t.Run("R-4.4 rounding, swap, and what is missing", func(t *testing.T) {
		for name, c := range map[string]struct {
			status         string
			footprint, rss uint64
			ok             bool
		}{
			"usual":                 {"Name:\tx\nVmRSS:\t    5120 kB\nRssAnon:\t 1025 kB\nRssFile:\t 4095 kB\nVmSwap:\t 1023 kB\n", 2, 5, true},
			"no swap":               {"VmRSS:\t1 kB\nRssAnon:\t0 kB\n", 0, 1, true},
			"no resident set":       {"RssAnon:\t1 kB\n", 0, 0, false},
			"no anonymous":          {"VmRSS:\t1 kB\n", 0, 0, false},
			"other unit":            {"VmRSS:\t1 MB\nRssAnon:\t1 kB\n", 0, 0, false},
			"no number":             {"VmRSS:\t-1 kB\nRssAnon:\t1 kB\n", 0, 0, false},
			"more than anybody has": {"VmRSS:\t18446744073709551615 kB\nRssAnon:\t1 kB\n", 0, 0, false},
			"cut short":             {"VmRSS:\t1 kB\nRssAnon", 0, 0, false},
			"nothing":               {"", 0, 0, false},
		} {
			footprint, rss, ok := parseStatus([]byte(c.status))
			assert.Equal(t, c.footprint, footprint, name)
			assert.Equal(t, c.rss, rss, name)
			assert.Equal(t, c.ok, ok, name)
		}
	})
}

func FuzzParseStatus(f *testing.F) {
	own, err := os.ReadFile("/proc/self/status")
	require.NoError(f, err)
	f.Add(own)
	f.Add([]byte("VmRSS:\t1 kB\nRssAnon:\t18446744073709551615 kB\nVmSwap:\t1 kB\n"))
	f.Fuzz(func(t *testing.T, status []byte) {
		footprint, rss, ok := parseStatus(status)
		if !ok && (footprint != 0 || rss != 0) {
			t.Errorf("%q: numbers %d and %d without ok", status, footprint, rss)
		}
		if most := uint64(1) << 42; footprint > most || rss > most {
			t.Errorf("%q: %d and %d MiB", status, footprint, rss)
		}
	})
}
