package bifaci_test

import (
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

func TestLookup(t *testing.T) {
	const (
		general = `cap:in="media:";convert;out="media:"`
		exact   = `cap:in="media:enc=utf-8";convert;out="media:"`
		fine    = `cap:in="media:enc=utf-8";convert;out="media:";quality=high`
		finest  = `cap:in="media:enc=utf-8";convert;lossless;out="media:";quality=high`
	)
	find := func(t *testing.T, request string, registered ...string) string {
		t.Helper()
		c, err := bifaci.New(manifestOf())
		require.NoError(t, err)
		for _, r := range registered {
			require.NoError(t, c.RegisterFunc(r, echoes))
		}
		pattern, factory, ok := c.FindHandler(request)
		if !ok {
			return ""
		}
		require.NotNil(t, factory)
		return pattern
	}
	canon := func(u string) string {
		s, err := canonical(u)
		require.NoError(t, err)
		return s
	}
	t.Run("R-1.40 candidates are what dispatches", func(t *testing.T) {
		assert.Equal(t, canon(general), find(t, exact, general), "a more general input serves")
		assert.Equal(t, canon(exact), find(t, general, exact), "a refinement serves")
		assert.Empty(t, find(t, `cap:in="media:enc=utf-8";convert;out="media:void"`, exact), "another output does not")
		assert.Empty(t, find(t, `cap:in="media:";other;out="media:"`, general, exact, fine))
	})
	t.Run("R-1.41 exact, then refinements nearest first, then fallbacks nearest first", func(t *testing.T) {
		all := []string{general, finest, fine, exact}
		assert.Equal(t, canon(exact), find(t, exact, all...))
		assert.Equal(t, canon(fine), find(t, exact, general, finest, fine))
		assert.Equal(t, canon(finest), find(t, exact, general, finest))
		assert.Equal(t, canon(general), find(t, exact, general))
	})
	t.Run("R-1.42 of equals the one registered first wins", func(t *testing.T) {
		left, right := `cap:in="media:enc=utf-8";convert;left;out="media:"`, `cap:in="media:enc=utf-8";convert;out="media:";right`
		assert.Equal(t, canon(left), find(t, exact, left, right))
		assert.Equal(t, canon(right), find(t, exact, right, left))
	})
	t.Run("R-1.41 against a search by the letter of the rule", rapid.MakeCheck(func(t *rapid.T) {
		caps := []string{general, exact, fine, finest, `cap:in="media:";convert;out="media:";quality=high`, `cap:convert`,
			`cap:in="media:enc=utf-8";convert;left;out="media:"`, `cap:in="media:enc=utf-8";convert;out="media:enc=utf-8"`}
		registered := rapid.SliceOfNDistinct(rapid.SampledFrom(caps), 1, len(caps), rapid.ID[string]).Draw(t, "registered")
		request := urn.MustCap(rapid.SampledFrom(caps).Draw(t, "request"))
		c, err := bifaci.New(manifestOf())
		if err != nil {
			t.Fatal(err)
		}
		// The standard handlers are registered before everything else.
		var candidates []urn.Cap
		for _, s := range append([]string{urn.Identity, urn.Discard, urn.AdapterSelection}, registered...) {
			if u := urn.MustCap(s); u.IsDispatchable(request) {
				candidates = append(candidates, u)
			}
		}
		for _, r := range registered {
			if err := c.RegisterFunc(r, echoes); err != nil {
				t.Fatal(err)
			}
		}
		distance := func(u urn.Cap) int { return u.Specificity() - request.Specificity() }
		slices.SortStableFunc(candidates, func(a, b urn.Cap) int {
			da, db := distance(a), distance(b)
			switch {
			case da >= 0 && db < 0:
				return -1
			case da < 0 && db >= 0:
				return 1
			case da >= 0:
				return da - db
			}
			return db - da
		})
		pattern, _, ok := c.FindHandler(request.String())
		if ok != (len(candidates) > 0) || ok && pattern != candidates[0].String() {
			t.Fatalf("%s: found %q, want the first of %v", request, pattern, candidates)
		}
	}))
	virtual(t, "R-1.43 the winning pattern names the pool", func(t *testing.T) {
		g := newGate()
		c, err := bifaci.New(manifestOf())
		require.NoError(t, err)
		require.NoError(t, c.RegisterFunc(general, g.handle))
		h := cartridgetest.Start(t, c)
		req := h.Request(exact).End()
		r := <-g.started
		assert.Equal(t, canon(general), r.Pattern())
		assert.Equal(t, exact, r.CapURN())
		assert.EqualValues(t, 1, poolOf(t, h, canon(general)).Active)
		g.open()
		req.WantEnd()
		synctest.Wait() // the slot is free a moment after the terminal
		assert.EqualValues(t, 0, poolOf(t, h, canon(general)).Active)
	})
	virtual(t, "R-1.44 no candidate, or a cap that does not parse", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, answers("one")))
		for _, u := range []string{capNamed("other"), "nonsense", `cap:in="`, ""} {
			got := h.Request(u).End().WantErr(failure.NoHandler, failure.Environment)
			assert.Contains(t, got.Message, u)
		}
		h.WantIdle()
	})
}
