package credit_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/credit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var (
	errOver  = errors.New("request is over")
	errInput = errors.New("end of input")
)

// taken is what one waiting call came back with.
type taken struct {
	who int
	got uint64
	err error
}

// queueUp starts one AcquireUpTo(n, n) per size, each only when the one before it waits, and reports them as they return.
func queueUp(t *testing.T, ctx context.Context, g *credit.Gate, sizes ...uint64) <-chan taken {
	t.Helper()
	done := make(chan taken, len(sizes))
	for who, n := range sizes {
		go func() {
			err := g.Acquire(ctx, n)
			done <- taken{who, n, err}
		}()
		synctest.Wait()
	}
	return done
}

// returned empties done without waiting.
func returned(done <-chan taken) []taken {
	synctest.Wait()
	var all []taken
	for {
		select {
		case one := <-done:
			all = append(all, one)
		default:
			return all
		}
	}
}

func TestGateCounts(t *testing.T) {
	t.Run("R-10.1 L9.1 a stream starts with its initial credit and one acquire takes one", func(t *testing.T) {
		g := credit.NewGate(2)
		require.NoError(t, g.Acquire(t.Context(), 1))
		assert.EqualValues(t, 1, g.Available())
		require.NoError(t, g.Acquire(t.Context(), 1))
		assert.Zero(t, g.Available())
		ok, err := g.TryAcquire(1)
		assert.NoError(t, err)
		assert.False(t, ok)
	})
	t.Run("R-10.10 zero value is an open gate without credit", func(t *testing.T) {
		var g credit.Gate
		ok, err := g.TryAcquire(1)
		require.NoError(t, err)
		require.False(t, ok)
		g.Grant(3)
		got, err := g.TryAcquireUpTo(10)
		require.NoError(t, err)
		assert.EqualValues(t, 3, got)
	})
	t.Run("R-10.10 grants saturate", func(t *testing.T) {
		g := credit.NewGate(math.MaxUint64 - 1)
		g.Grant(5)
		assert.EqualValues(t, uint64(math.MaxUint64), g.Available())
		g.Grant(math.MaxUint64)
		assert.EqualValues(t, uint64(math.MaxUint64), g.Available())
	})
	t.Run("R-10.10 up to takes what is there", func(t *testing.T) {
		g := credit.NewGate(5)
		got, err := g.AcquireUpTo(t.Context(), 3)
		require.NoError(t, err)
		assert.EqualValues(t, 3, got)
		got, err = g.AcquireUpTo(t.Context(), 3)
		require.NoError(t, err)
		assert.EqualValues(t, 2, got)
	})
	t.Run("R-10.10 nothing asked, nothing taken", func(t *testing.T) {
		g := credit.NewGate(0)
		require.NoError(t, g.Acquire(t.Context(), 0))
		got, err := g.AcquireUpTo(t.Context(), 0)
		require.NoError(t, err)
		assert.Zero(t, got)
		g.Close(errOver)
		assert.ErrorIs(t, g.Acquire(t.Context(), 0), errOver)
	})
	t.Run("R-10.10 credit that is there is given even when the context has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, credit.NewGate(1).Acquire(ctx, 1))
	})
}

func TestGateWaits(t *testing.T) {
	t.Run("L9.2 window 2 lets two through and a grant of 1 releases one more", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := credit.NewGate(2)
			done := queueUp(t, t.Context(), g, 1, 1, 1, 1)
			require.Equal(t, []taken{{0, 1, nil}, {1, 1, nil}}, returned(done))
			g.Grant(1)
			require.Equal(t, []taken{{2, 1, nil}}, returned(done))
			g.Grant(1)
			require.Equal(t, []taken{{3, 1, nil}}, returned(done))
		})
	})
	t.Run("R-10.11 waiters are served in order of arrival", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := credit.NewGate(0)
			done := queueUp(t, t.Context(), g, 3, 1, 2)
			g.Grant(2) // enough for the second, who must not overtake
			require.Empty(t, returned(done))
			ok, err := g.TryAcquire(1)
			require.NoError(t, err)
			require.False(t, ok, "a newcomer overtook the line")
			got, err := g.TryAcquireUpTo(1)
			require.NoError(t, err)
			require.Zero(t, got, "a newcomer overtook the line")
			g.Grant(1)
			require.Equal(t, []taken{{0, 3, nil}}, returned(done))
			g.Grant(3)
			require.ElementsMatch(t, []taken{{1, 1, nil}, {2, 2, nil}}, returned(done))
			require.Zero(t, g.Available())
		})
	})
	t.Run("R-10.10 the end of the context gives its cause", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			g := credit.NewGate(0)
			done := queueUp(t, ctx, g, 1)
			cancel(errOver)
			require.Equal(t, []taken{{0, 1, errOver}}, returned(done))
			g.Grant(1)
			assert.EqualValues(t, 1, g.Available(), "a grant went to a waiter that had left")
		})
	})
	t.Run("R-10.11 F11 who leaves the head of the line lets the next one through", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			g := credit.NewGate(1)
			large := queueUp(t, ctx, g, 5)
			small := queueUp(t, t.Context(), g, 1)
			require.Empty(t, returned(small))
			cancel(errOver)
			require.Equal(t, []taken{{0, 5, errOver}}, returned(large))
			require.Equal(t, []taken{{0, 1, nil}}, returned(small))
		})
	})
	t.Run("R-10.11 who leaves the middle or the end of the line does not break it", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := credit.NewGate(0)
			leaving, leave := context.WithCancelCause(t.Context())
			first := queueUp(t, t.Context(), g, 1)
			second := queueUp(t, leaving, g, 1)
			third := queueUp(t, t.Context(), g, 1)
			fourth := queueUp(t, leaving, g, 1)
			leave(errOver)
			require.Len(t, append(returned(second), returned(fourth)...), 2)
			fifth := queueUp(t, t.Context(), g, 1)
			g.Grant(3)
			require.Equal(t, []taken{{0, 1, nil}}, returned(first))
			require.Equal(t, []taken{{0, 1, nil}}, returned(third))
			require.Equal(t, []taken{{0, 1, nil}}, returned(fifth))
		})
	})
}

func TestGateEnds(t *testing.T) {
	t.Run("R-10.16 L13 close releases every waiter with the reason", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := credit.NewGate(1)
			done := queueUp(t, t.Context(), g, 2, 1, 1)
			g.Close(errOver)
			require.ElementsMatch(t, []taken{{0, 2, errOver}, {1, 1, errOver}, {2, 1, errOver}}, returned(done))
		})
	})
	t.Run("R-10.10 a closed gate fails every future call and takes no grant", func(t *testing.T) {
		g := credit.NewGate(7)
		g.Close(errOver)
		g.Close(errInput) // the first reason stays
		g.Grant(3)
		assert.Zero(t, g.Available())
		assert.ErrorIs(t, g.Acquire(t.Context(), 1), errOver)
		_, err := g.AcquireUpTo(t.Context(), 1)
		assert.ErrorIs(t, err, errOver)
		_, err = g.TryAcquire(1)
		assert.ErrorIs(t, err, errOver)
		_, err = g.TryAcquireUpTo(1)
		assert.ErrorIs(t, err, errOver)
	})
	t.Run("R-10.10 a close without a reason has one", func(t *testing.T) {
		g := credit.NewGate(0)
		g.Close(nil)
		assert.ErrorIs(t, g.Acquire(t.Context(), 1), credit.ErrClosed)
	})
	t.Run("R-2.30 no more grants leaves what remains and then fails at once", func(t *testing.T) {
		g := credit.NewGate(3)
		g.NoMoreGrants(errInput)
		g.Grant(10) // none can come; one that does counts for nothing
		require.NoError(t, g.Acquire(t.Context(), 1))
		require.ErrorIs(t, g.Acquire(t.Context(), 3), errInput, "more than remains")
		got, err := g.AcquireUpTo(t.Context(), 5)
		require.NoError(t, err)
		require.EqualValues(t, 2, got)
		_, err = g.AcquireUpTo(t.Context(), 5)
		require.ErrorIs(t, err, errInput)
		g.NoMoreGrants(errOver)
		require.ErrorIs(t, g.Acquire(t.Context(), 1), errInput, "the first reason stays")
		g.Close(errOver)
		require.ErrorIs(t, g.Acquire(t.Context(), 1), errOver, "a close still counts")
	})
	t.Run("R-2.30 L13 no more grants settles the whole line", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			g := credit.NewGate(2)
			done := queueUp(t, t.Context(), g, 3, 1, 2, 1)
			g.NoMoreGrants(errInput)
			require.ElementsMatch(t, []taken{{0, 3, errInput}, {1, 1, nil}, {2, 2, errInput}, {3, 1, nil}}, returned(done))
			require.Zero(t, g.Available())
		})
	})
}

func TestGateCostsLittle(t *testing.T) {
	assert.LessOrEqual(t, unsafe.Sizeof(credit.Gate{}), uintptr(64), "bytes of an idle gate")
	assert.LessOrEqual(t, unsafe.Sizeof(credit.Window{}), uintptr(64), "bytes of an idle window")
	assert.LessOrEqual(t, unsafe.Sizeof(credit.Router{}), uintptr(64), "bytes of an idle router")
	g := credit.NewGate(math.MaxUint64)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		_ = g.Acquire(ctx, 1)
		_, _ = g.TryAcquireUpTo(4)
		g.Grant(1)
	}))
}
