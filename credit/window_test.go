package credit_test

import (
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/credit"
)

// arrive lets n chunks arrive and reports how many of them the window let in.
func arrive(w *credit.Window, n int) (in int) {
	for range n {
		if w.Arrive() {
			in++
		}
	}
	return in
}

func TestWindowViolation(t *testing.T) {
	t.Run("R-10.40 L12 exactly the initial credit arrives and one more is a violation", func(t *testing.T) {
		w := credit.NewWindow(8)
		require.Equal(t, 8, arrive(w, 8))
		require.False(t, w.Arrive())
		require.Zero(t, w.Outstanding())
	})
	t.Run("L12 a consumed chunk opens the window only once it is granted", func(t *testing.T) {
		w := credit.NewWindow(8)
		arrive(w, 8)
		require.Zero(t, w.Consume(3))
		require.False(t, w.Arrive(), "3 are pending, the sender has not been told")
		require.EqualValues(t, 4, w.Consume(1))
		require.Equal(t, 4, arrive(w, 10))
	})
	t.Run("R-10.40 a window of nothing lets nothing in", func(t *testing.T) {
		var w credit.Window
		assert.False(t, w.Arrive())
		assert.Zero(t, w.Consume(1))
		assert.Zero(t, w.Flush())
	})
}

func TestWindowGrants(t *testing.T) {
	t.Run("R-10.20 L10.1 window 8 and sixteen chunks give 4 4 4 4", func(t *testing.T) {
		w := credit.NewWindow(8)
		require.Equal(t, 8, arrive(w, 8))
		var grants []uint64
		for range 16 {
			if grant := w.Consume(1); grant > 0 {
				grants = append(grants, grant)
				require.EqualValues(t, grant, arrive(w, int(grant)), "L10.6 the window grows before the grant is sent")
			}
		}
		assert.Equal(t, []uint64{4, 4, 4, 4}, grants)
	})
	t.Run("R-10.20 a batch is half of the window, at least one", func(t *testing.T) {
		for initial, batch := range map[uint64]uint64{1: 1, 2: 1, 3: 1, 4: 2, 7: 3, 8: 4, 32: 16} {
			w := credit.NewWindow(initial)
			assert.Equal(t, batch, w.Batch(), "window %d", initial)
			arrive(w, int(initial))
			for n := range batch - 1 {
				require.Zero(t, w.Consume(1), "window %d after %d", initial, n+1)
			}
			assert.Equal(t, batch, w.Consume(1), "window %d", initial)
		}
	})
	t.Run("R-10.20 several chunks at once give whole batches and keep the rest", func(t *testing.T) {
		w := credit.NewWindow(8)
		arrive(w, 8)
		assert.EqualValues(t, 4, w.Consume(7))
		assert.EqualValues(t, 3, w.Pending())
		assert.EqualValues(t, 4, w.Consume(1))
	})
	t.Run("R-10.21 L10.2 a flush gives what is pending once", func(t *testing.T) {
		w := credit.NewWindow(32)
		arrive(w, 8)
		require.Zero(t, w.Consume(8))
		require.EqualValues(t, 8, w.Pending())
		require.EqualValues(t, 8, w.Flush())
		require.EqualValues(t, 32, w.Outstanding())
		require.Zero(t, w.Flush())
	})
	t.Run("R-10.23 L10.4 an item of 100 chunks passes a window of 2", func(t *testing.T) {
		w := credit.NewWindow(2)
		require.True(t, w.Arrive())
		for i := range 99 {
			require.True(t, w.Arrive(), "fragment %d", i+1)
			require.EqualValues(t, 1, w.Immediate(1))
		}
		require.EqualValues(t, 1, w.Outstanding(), "the first is credited when the item is read")
		require.EqualValues(t, 1, w.Consume(1))
		require.EqualValues(t, 2, w.Outstanding())
	})
	t.Run("L10.5 no chunk is granted twice", func(t *testing.T) {
		w := credit.NewWindow(8)
		arrive(w, 2)
		assert.Zero(t, w.Consume(100))
		assert.EqualValues(t, 2, w.Pending())
		assert.Zero(t, w.Immediate(1))
		assert.EqualValues(t, 2, w.Flush())
		assert.EqualValues(t, 8, w.Outstanding())
	})
	t.Run("R-10.25 nothing is granted after the end of the stream", func(t *testing.T) {
		w := credit.NewWindow(8)
		arrive(w, 7)
		require.Zero(t, w.Consume(2))
		w.Close()
		assert.Zero(t, w.Pending())
		assert.Zero(t, w.Flush())
		assert.Zero(t, w.Consume(5))
		assert.Zero(t, w.Immediate(1))
		assert.EqualValues(t, 1, w.Outstanding())
	})
}

// One goroutine is the reader, one the handler; the sender between them has exactly what was granted.
func TestWindowL10_6_ReaderAndHandlerAtOnce(t *testing.T) {
	for _, initial := range []uint64{1, 2, 3, 32} {
		const chunks = 20_000
		w, g := credit.NewWindow(initial), credit.NewGate(initial)
		buffer := make(chan struct{}, initial)
		violations := make(chan int, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			defer close(buffer)
			bad := 0
			for range chunks {
				if g.Acquire(t.Context(), 1) != nil || !w.Arrive() {
					bad++
					continue
				}
				select {
				case buffer <- struct{}{}:
				default:
					bad++ // L10.3: there is room for everything that was granted
				}
			}
			violations <- bad
		})
		read := 0
		for {
			select {
			case _, ok := <-buffer:
				if !ok {
					wg.Wait()
					require.Equal(t, chunks, read, "window %d", initial)
					require.Zero(t, <-violations, "window %d", initial)
					w.Flush()
					require.Equal(t, initial, w.Outstanding())
					goto next
				}
				read++
				g.Grant(w.Consume(1))
			default: // about to wait
				g.Grant(w.Flush())
				if _, ok := <-buffer; ok {
					read++
					g.Grant(w.Consume(1))
				}
			}
		}
	next:
	}
}

func BenchmarkWindow(b *testing.B) {
	w := credit.NewWindow(32)
	b.ReportAllocs()
	for b.Loop() {
		if !w.Arrive() {
			b.Fatal("violation")
		}
		w.Consume(1)
	}
}
