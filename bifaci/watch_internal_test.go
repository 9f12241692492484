package bifaci

import (
	"testing"

	"github.com/stretchr/testify/assert"
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
