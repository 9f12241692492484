package stats

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"
)

func TestRecent(t *testing.T) {
	t.Run("R-3.14 holds the last 64", func(t *testing.T) {
		var r Recent[int]
		for id := range 100 {
			r.Add(id)
			assert.True(t, r.Contains(id))
		}
		for id := range 100 {
			assert.Equal(t, id >= 36, r.Contains(id), "id %d", id)
		}
		assert.Equal(t, 64, r.Len())
	})

	t.Run("R-3.14 no duplicates push others out", func(t *testing.T) {
		var r Recent[string]
		r.Add("first")
		for range 200 {
			r.Add("again")
		}
		assert.True(t, r.Contains("first"))
		assert.Equal(t, 2, r.Len())
	})

	t.Run("R-3.14 an id that ends again is the newest", func(t *testing.T) {
		var r Recent[int]
		for id := range RecentSize {
			r.Add(id)
		}
		r.Add(0)
		r.Add(RecentSize)
		assert.True(t, r.Contains(0))
		assert.False(t, r.Contains(1))
	})

	t.Run("R-3.14 unused costs nothing", func(t *testing.T) {
		assert.Zero(t, testing.AllocsPerRun(10, func() {
			var r Recent[[16]byte]
			if r.Contains([16]byte{1}) || r.Len() != 0 {
				t.Error("the zero value knows an id")
			}
		}))
	})

	t.Run("R-3.14 agrees with a list", rapid.MakeCheck(func(t *rapid.T) {
		var r Recent[int]
		var model []int // oldest first
		ids := rapid.IntRange(0, 90)
		for _, id := range rapid.SliceOfN(ids, 150, 300).Draw(t, "ended") { // long enough to go round
			r.Add(id)
			if i := slices.Index(model, id); i >= 0 {
				model = slices.Delete(model, i, i+1)
			}
			model = append(model, id)
			model = model[max(0, len(model)-64):]
			if r.Len() != len(model) {
				t.Fatalf("after %d: %d remembered, want %d", id, r.Len(), len(model))
			}
			for id := range 91 {
				if r.Contains(id) != slices.Contains(model, id) {
					t.Fatalf("id %d: remembered is %t, want %t", id, r.Contains(id), !r.Contains(id))
				}
			}
		}
	}))
}
