package urn_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// manyCaps gives n caps of the shape that cartridges declare.
func manyCaps(n int) []urn.Cap {
	texts := make([]string, n)
	for i := range texts {
		texts[i] = fmt.Sprintf(`cap:in="media:ext=t%d;document";op-%d;out="media:enc=utf-8;record"`, i%7, i)
	}
	return mustCaps(texts...)
}

func TestIndexLookup(t *testing.T) {
	index := urn.NewIndex(manyCaps(100))
	t.Run("R-1.40 any spelling of a request", func(t *testing.T) {
		for _, request := range []string{
			`cap:in="media:document;ext=t6";op-41`,
			`CAP:Op-41;in="media:;EXT=t6;document";;`,
		} {
			i, ok, err := index.Lookup(request)
			require.NoError(t, err)
			assert.True(t, ok)
			assert.Equal(t, 41, i)
		}
	})
	t.Run("R-1.40 nothing serves", func(t *testing.T) {
		for range 2 {
			_, ok, err := index.Lookup("cap:op-41;out=media:pdf")
			require.NoError(t, err)
			assert.False(t, ok)
		}
	})
	t.Run("an error each time, never an answer", func(t *testing.T) {
		for range 2 {
			_, ok, err := index.Lookup("cap:op-41;effect=maybe")
			require.ErrorIs(t, err, urn.InvalidEffect)
			assert.False(t, ok)
		}
	})
	t.Run("no caps", func(t *testing.T) {
		_, ok, err := urn.NewIndex(nil).Lookup("cap:a")
		require.NoError(t, err)
		assert.False(t, ok)
	})
}

// TestIndexStaysRightAboveItsBound asks for far more requests than the cache holds, so that answers are replaced, and
// asks for long ones, which are not kept.
func TestIndexStaysRightAboveItsBound(t *testing.T) {
	caps := mustCaps("cap:even", "cap:odd", "cap:odd;long")
	index := urn.NewIndex(caps)
	names := []string{"even", "odd"}
	for round := range 2 {
		for n := range 5000 {
			i, ok, err := index.Lookup(fmt.Sprintf("cap:?n%d;%s", n, names[n%2]))
			require.NoError(t, err)
			require.True(t, ok)
			require.Equal(t, n%2, i, "round %d, request %d", round, n)
		}
	}
	assert.LessOrEqual(t, index.Remembered(), 1024)

	index = urn.NewIndex(caps)
	i, ok, err := index.Lookup("cap:long;?x=" + strings.Repeat("y", 2000))
	require.NoError(t, err)
	require.True(t, ok, "a cap without x fits x?=…")
	assert.Equal(t, 2, i)
	assert.Zero(t, index.Remembered())
}

func TestIndexKeepsNothingOfTheSlice(t *testing.T) {
	index := urn.NewIndex(mustCaps("cap:aa", "cap:bb"))
	request := []byte("cap:aa")
	i, ok, err := index.LookupBytes(request)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Zero(t, i)
	copy(request, "cap:bb")
	i, ok, err = index.LookupBytes(request)
	require.NoError(t, err)
	require.True(t, ok)
	assert.Equal(t, 1, i)
	i, _, err = index.Lookup("cap:aa")
	require.NoError(t, err)
	assert.Zero(t, i, "the first answer is still that of its own text")
}

// TestRoomForgetsTheRequest shows that a room in the pool keeps no part of what a stranger sent, and that a large one is
// given up.
func TestRoomForgetsTheRequest(t *testing.T) {
	read, left, kept := urn.ReadInRoom(`cap:a;b;in="media:c;d;e";out="media:f;g"`)
	assert.Equal(t, 7, read)
	assert.Zero(t, left)
	assert.True(t, kept)

	var many strings.Builder
	for n := range 500 {
		fmt.Fprintf(&many, ";k%d", n)
	}
	_, _, kept = urn.ReadInRoom("cap:" + many.String())
	assert.False(t, kept)
}

func TestIndexFromManyGoroutines(t *testing.T) {
	index := urn.NewIndex(manyCaps(50))
	var all sync.WaitGroup
	wrong := make(chan string, 8)
	for g := range 8 {
		all.Go(func() {
			for n := range 2000 {
				want := (n*7 + g) % 50
				request := fmt.Sprintf("cap:op-%d;?n%d", want, n%300)
				if i, ok, err := index.LookupBytes([]byte(request)); err != nil || !ok || i != want {
					wrong <- fmt.Sprintf("%s: %d, %v, %v", request, i, ok, err)
					return
				}
			}
		})
	}
	all.Wait()
	close(wrong)
	for w := range wrong {
		assert.Fail(t, w)
	}
}

func TestRelationsAndLookupsDoNotAllocate(t *testing.T) {
	caps := manyCaps(100)
	index := urn.NewIndex(caps)
	known := `cap:in="media:document;ext=t6";op-41`
	knownBytes := []byte(known)
	_, ok, err := index.Lookup(known)
	require.NoError(t, err)
	require.True(t, ok)
	request := urn.MustCap(known)
	a, b := urn.MustMedia("media:audio;ext=wav;x?=1"), urn.MustMedia("media:audio;ext!=mp3")

	zero := func(name string, f func()) {
		t.Helper()
		assert.Zero(t, testing.AllocsPerRun(200, f), name)
	}
	zero("dispatch", func() { caps[41].IsDispatchable(request) })
	zero("accepts, equivalent, comparable", func() {
		caps[41].Accepts(request)
		caps[41].Equivalent(request)
		caps[41].Comparable(request)
	})
	zero("media relations", func() {
		a.ConformsTo(b)
		a.Satisfies(b)
		a.Meets(b)
		a.Equivalent(b)
	})
	zero("R-1.41 best", func() { urn.Best(caps, request, &request) })
	zero("remembered text", func() { _, _, _ = index.Lookup(known) })
	zero("remembered bytes", func() { _, _, _ = index.LookupBytes(knownBytes) })
	if raceEnabled {
		return // the pool forgets at random then, so the next count would be one of the detector
	}
	n := 0
	unknown := make([]string, 2000)
	for i := range unknown {
		unknown[i] = fmt.Sprintf(`cap:in="media:document;ext=t6";op-41;?n%d`, i)
	}
	allocs := testing.AllocsPerRun(1000, func() {
		_, _, _ = index.Lookup(unknown[n])
		n++
	})
	assert.LessOrEqual(t, allocs, 2.0, "an unknown request costs the remembered answer and its text")
}
