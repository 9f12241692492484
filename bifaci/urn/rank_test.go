package urn_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

type rankRow struct {
	Candidates []string
	Request    string
	Preferred  *string
	Ranked     []string
	Distances  []int
	Selected   *string
}

func mustCaps(texts ...string) []urn.Cap {
	caps := make([]urn.Cap, len(texts))
	for i, text := range texts {
		caps[i] = urn.MustCap(text)
	}
	return caps
}

func TestRankVectors(t *testing.T) {
	for i, row := range vectors[rankRow](t, "urn_rank.json", 83) {
		t.Run(fmt.Sprintf("R-1.41 R-1.42 %d/%s", i, row.Request), func(t *testing.T) {
			registered, request := mustCaps(row.Candidates...), urn.MustCap(row.Request)
			ranked, distances := []string{}, []int{}
			for _, r := range urn.Rank(registered, request) {
				ranked = append(ranked, row.Candidates[r.Index])
				distances = append(distances, r.Distance)
			}
			assert.Equal(t, row.Ranked, ranked)
			assert.Equal(t, row.Distances, distances)

			var preferred *urn.Cap
			if row.Preferred != nil {
				if hint, err := urn.ParseCap(*row.Preferred); err == nil {
					preferred = &hint
				}
			}
			best, ok := urn.Best(registered, request, preferred)
			require.Equal(t, row.Selected != nil, ok)
			if ok {
				assert.Equal(t, *row.Selected, row.Candidates[best])
			}
			if row.Preferred == nil {
				index := urn.NewIndex(registered)
				for _, round := range []string{"decided", "remembered"} {
					found, ok, err := index.Lookup(row.Request)
					require.NoError(t, err)
					require.Equal(t, row.Selected != nil, ok, round)
					if ok {
						assert.Equal(t, best, found, round)
					}
				}
			}
		})
	}
}

func TestRankOrder(t *testing.T) {
	request := urn.MustCap("cap:a;b;out=media:x")
	for _, c := range []struct {
		name       string
		registered []string
		want       []int
	}{
		{"R-1.40 only caps that serve", []string{"cap:a", "cap:a;b;out=media:x", "cap:a;b;c"}, []int{1}},
		{"R-1.41 exact, then refinements, nearest first",
			[]string{"cap:a;b;c;d;out=media:x", "cap:a;b;c;out=media:x", "cap:a;b;out=media:x"}, []int{2, 1, 0}},
		{"R-1.42 registration order at equal distance",
			[]string{"cap:a;b;d;out=media:x", "cap:a;b;c;out=media:x", "cap:a;b;out=media:x;z"}, []int{0, 1, 2}},
	} {
		t.Run(c.name, func(t *testing.T) {
			registered := mustCaps(c.registered...)
			var got []int
			for _, r := range urn.Rank(registered, request) {
				got = append(got, r.Index)
			}
			assert.Equal(t, c.want, got)
			best, ok := urn.Best(registered, request, nil)
			require.True(t, ok)
			assert.Equal(t, c.want[0], best)
		})
	}
	t.Run("R-1.42 registration order among many at equal distance", func(t *testing.T) {
		var registered []urn.Cap
		for n := range 100 { // two distances, in turn
			registered = append(registered, urn.MustCap([]string{"cap:a;b;k;out=media:x", "cap:a;b;k;l;out=media:x"}[n%2]))
		}
		ranked := urn.Rank(registered, request)
		require.Len(t, ranked, 100)
		for n, r := range ranked {
			want := 2 * n
			if n >= 50 {
				want = 2*(n-50) + 1
			}
			require.Equal(t, want, r.Index)
		}
	})
	t.Run("R-1.41 fallbacks come last, nearest first", func(t *testing.T) {
		request := urn.MustCap("cap:!x;!y;a")
		registered := mustCaps("cap:a", "cap:!y;a", "cap:!x;!y;a;b;c")
		var got []urn.Ranked
		got = append(got, urn.Rank(registered, request)...)
		assert.Equal(t, []urn.Ranked{{Index: 2, Distance: 4}, {Index: 1, Distance: -5}, {Index: 0, Distance: -10}}, got)
	})
}

func TestBestTakesThePreferredCapWhateverItsDistance(t *testing.T) {
	registered := mustCaps("cap:extract;out=media:record", "cap:extract;fast;out=media:record", "cap:?z;extract;fast;out=media:record")
	request := urn.MustCap("cap:extract")
	for hint, want := range map[string]int{
		"cap:extract;fast;out=media:record": 1, // the last one is equivalent too
		"cap:extract":                       0, // equivalent to none
		"cap:nowhere":                       0,
	} {
		preferred := urn.MustCap(hint)
		got, ok := urn.Best(registered, request, &preferred)
		require.True(t, ok)
		assert.Equal(t, want, got, hint)
	}
	preferred := urn.MustCap("cap:other")
	_, ok := urn.Best(mustCaps("cap:other"), request, &preferred)
	assert.False(t, ok, "a hint does not make a cap serve")
}

// TestIndexAgreesWithRank compares the index, which stops at the first hit of a sorted walk, with the plain ranking.
func TestIndexAgreesWithRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		registered := rapid.SliceOfN(capGenerator(), 0, 12).Draw(t, "registered")
		index := urn.NewIndex(registered)
		for _, request := range rapid.SliceOfN(capGenerator(), 1, 4).Draw(t, "requests") {
			ranked := urn.Rank(registered, request)
			best, bestOK := urn.Best(registered, request, nil)
			found, ok, err := index.Lookup(request.String())
			again, againOK, againErr := index.LookupBytes([]byte(request.String()))
			if err != nil || againErr != nil {
				t.Fatalf("%s: %v, %v", request, err, againErr)
			}
			if ok != (len(ranked) > 0) || bestOK != ok || againOK != ok {
				t.Fatalf("%s: index %v, then %v, best %v, ranked %v", request, ok, againOK, bestOK, ranked)
			}
			if ok && (found != ranked[0].Index || best != found || again != found) {
				t.Fatalf("%s: index %d, then %d, best %d, ranked %v", request, found, again, best, ranked)
			}
			for _, r := range ranked {
				if !registered[r.Index].IsDispatchable(request) {
					t.Fatalf("%s ranks for %s but does not serve it", registered[r.Index], request)
				}
			}
		}
	})
}
