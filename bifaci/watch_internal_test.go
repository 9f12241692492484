package bifaci

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

func TestSlotsFor(t *testing.T) {
	for _, c := range []struct {
		name                 string
		base, now, computing int
		late                 bool
		want                 int
	}{
		{"nobody computes", 2, 2, 0, false, 2},
		{"late, but nobody computes", 2, 2, 0, true, 2},
		{"they compute, but the timer comes in time", 2, 2, 4, false, 2},
		{"one slot beside the base for each", 2, 2, 4, true, 6},
		{"a new one is late", 2, 6, 5, true, 7},
		{"not taken back while they compute", 2, 6, 4, false, 6},
		{"one has ended", 2, 6, 3, false, 5},
		{"all have ended", 2, 6, 0, false, 2},
		{"bounded", 2, 2, 5000, true, 2 + watchMost},
	} {
		t.Run("R-4.12 "+c.name, func(t *testing.T) {
			assert.Equal(t, c.want, slotsFor(c.base, c.now, c.computing, c.late))
		})
	}
}

func TestTheWatchMissesNoRequest(t *testing.T) {
	c := MustNew(manifest.New("watched", "1.0.0", "is watched", manifest.DefaultGroup(manifest.IdentityCap())))
	l, err := c.newLink(t.Context(), new(bytes.Buffer), new(bytes.Buffer))
	require.NoError(t, err)
	p := newProcessorWatch(l)
	p.armed.Store(true)
	assert.True(t, p.rest(), "nothing runs when no handler does")
	assert.False(t, p.armed.Load())

	p.armed.Store(true)
	l.active = 1 // one that came behind the look that found nobody
	assert.False(t, p.rest(), "it goes on")
	assert.True(t, p.armed.Load())
}
