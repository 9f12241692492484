package credit_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/credit"
)

func TestRouterGrant(t *testing.T) {
	var r credit.Router
	a, b := credit.NewGate(0), credit.NewGate(0)

	t.Run("R-10.15 a grant without any gate is unmatched", func(t *testing.T) {
		assert.Equal(t, credit.Unmatched, r.Grant([]byte("a"), 1))
		assert.Equal(t, credit.Unmatched, r.Grant(nil, 1))
	})
	t.Run("R-10.13 the only gate gets a grant that names no stream", func(t *testing.T) {
		require.NoError(t, r.Register("a", a))
		assert.Equal(t, credit.Granted, r.Grant(nil, 2))
		assert.EqualValues(t, 2, a.Available())
	})
	t.Run("R-10.13 a named stream gets its own grant", func(t *testing.T) {
		require.NoError(t, r.Register("b", b))
		assert.Equal(t, credit.Granted, r.Grant([]byte("a"), 1))
		assert.Equal(t, credit.Granted, r.Grant([]byte("b"), 5))
		assert.EqualValues(t, 3, a.Available())
		assert.EqualValues(t, 5, b.Available())
	})
	t.Run("R-10.13 among several a grant that names none is unmatched", func(t *testing.T) {
		assert.Equal(t, credit.Unmatched, r.Grant(nil, 1))
		assert.EqualValues(t, 3, a.Available())
		assert.EqualValues(t, 5, b.Available())
	})
	t.Run("R-10.13 an empty id is a name, and unknown here", func(t *testing.T) {
		assert.Equal(t, credit.Unmatched, r.Grant([]byte{}, 1))
	})
	t.Run("R-10.12 a second gate under one id is refused", func(t *testing.T) {
		assert.ErrorIs(t, r.Register("a", credit.NewGate(0)), credit.ErrRegistered)
		assert.ErrorIs(t, r.Register("b", credit.NewGate(0)), credit.ErrRegistered)
		r.Grant([]byte("a"), 1)
		assert.EqualValues(t, 4, a.Available(), "the first gate stays")
	})
	t.Run("R-10.13 R-10.15 the remaining gate is the only one again", func(t *testing.T) {
		r.Unregister("a")
		r.Unregister("unknown")
		assert.Equal(t, credit.Unmatched, r.Grant([]byte("a"), 1))
		assert.Equal(t, credit.Granted, r.Grant(nil, 1))
		assert.EqualValues(t, 6, b.Available())
		c := credit.NewGate(0)
		require.NoError(t, r.Register("", c))
		assert.Equal(t, credit.Granted, r.Grant([]byte{}, 1))
		assert.EqualValues(t, 1, c.Available())
		r.Unregister("b")
		r.Unregister("")
		assert.Equal(t, credit.Unmatched, r.Grant(nil, 1))
	})
}

func TestRouterEnds(t *testing.T) {
	t.Run("R-10.16 L13 close all reaches present and later gates", func(t *testing.T) {
		var r credit.Router
		a, b, late := credit.NewGate(1), credit.NewGate(1), credit.NewGate(1)
		require.NoError(t, r.Register("a", a))
		require.NoError(t, r.Register("b", b))
		r.CloseAll(errOver)
		r.CloseAll(errInput)
		assert.ErrorIs(t, r.Register("late", late), errOver)
		for _, g := range []*credit.Gate{a, b, late} {
			assert.ErrorIs(t, g.Acquire(t.Context(), 1), errOver)
		}
		assert.Equal(t, credit.Unmatched, r.Grant([]byte("a"), 1))
		assert.Equal(t, credit.Unmatched, r.Grant(nil, 1))
	})
	t.Run("R-10.16 close without a reason has one", func(t *testing.T) {
		var r credit.Router
		r.CloseAll(nil)
		assert.ErrorIs(t, r.Register("a", credit.NewGate(1)), credit.ErrClosed)
	})
	t.Run("R-2.30 no more grants reaches present and later gates, close all still counts", func(t *testing.T) {
		var r credit.Router
		a, late := credit.NewGate(1), credit.NewGate(1)
		require.NoError(t, r.Register("a", a))
		r.NoMoreGrants(errInput)
		require.NoError(t, r.Register("late", late))
		for _, g := range []*credit.Gate{a, late} {
			require.NoError(t, g.Acquire(t.Context(), 1))
			require.ErrorIs(t, g.Acquire(t.Context(), 1), errInput)
		}
		r.CloseAll(errOver)
		r.NoMoreGrants(errInput)
		for _, g := range []*credit.Gate{a, late} {
			require.ErrorIs(t, g.Acquire(t.Context(), 1), errOver)
		}
	})
}

func TestRouterCostsLittle(t *testing.T) {
	stream, id, g := "out", []byte("out"), credit.NewGate(0)
	var r credit.Router
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_ = r.Register(stream, g)
		r.Grant(id, 1)
		r.Grant(nil, 1)
		r.Unregister(stream)
	}))
}

func TestOutcomeString(t *testing.T) {
	assert.Equal(t, "granted", credit.Granted.String())
	assert.Equal(t, "unmatched", credit.Unmatched.String())
	assert.Equal(t, "outcome 9", credit.Outcome(9).String())
}

func BenchmarkRouterGrant(b *testing.B) {
	var r credit.Router
	if err := r.Register("out", credit.NewGate(0)); err != nil {
		b.Fatal(err)
	}
	id := []byte("out")
	b.ReportAllocs()
	for b.Loop() {
		if r.Grant(id, 1) != credit.Granted {
			b.Fatal("lost")
		}
	}
}
