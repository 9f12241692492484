package credit_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/credit"
)

// caller is one waiting call, and what the model knows of it.
type caller struct {
	least, most uint64
	cancel      context.CancelCauseFunc
	done        chan taken
}

// F11: 200 000 steps on one gate. After each step everything comes to rest, and then must hold: granted = acquired +
// available, nobody waits while there is enough for the first in line, and exactly those who should have returned have.
func TestGateF11_R10_11_NoWakeUpIsLost(t *testing.T) {
	const rounds, stepsPerRound = 100, 2000
	for round := range rounds {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(11, uint64(round)))
			playGate(t, rng, stepsPerRound)
		})
	}
}

func playGate(t *testing.T, rng *rand.Rand, steps int) {
	initial := rng.Uint64N(5)
	g := credit.NewGate(initial)
	granted, acquired := initial, uint64(0)
	var line []*caller

	// settle compares what returned with what the model says must have returned. After a step of two calls at once a
	// waiter may have been served between them, with less than there is in the end.
	settle := func(twoAtOnce bool) {
		synctest.Wait()
		for len(line) > 0 && granted-acquired >= line[0].least {
			first := line[0]
			line = line[1:]
			want := min(granted-acquired, first.most)
			select {
			case got := <-first.done:
				require.NoError(t, got.err)
				if twoAtOnce {
					require.GreaterOrEqual(t, got.got, first.least)
					require.LessOrEqual(t, got.got, want)
				} else {
					require.Equal(t, want, got.got)
				}
				acquired += got.got
			default:
				require.Failf(t, "lost wake-up", "%d are there, the first waits for %d", granted-acquired, first.least)
			}
			first.cancel(nil)
		}
		for _, c := range line {
			require.Empty(t, c.done, "served out of order, or without credit")
		}
		require.Equal(t, granted-acquired, g.Available(), "granted = acquired + available")
	}
	defer func() {
		g.Close(errOver)
		synctest.Wait()
		for _, c := range line {
			require.ErrorIs(t, (<-c.done).err, errOver)
			c.cancel(nil)
		}
	}()

	for range steps {
		step := rng.IntN(10)
		switch step {
		case 0, 1, 2:
			n := rng.Uint64N(4)
			g.Grant(n)
			granted += n
		case 3, 4, 5:
			if len(line) > 12 {
				continue
			}
			c := &caller{least: 1 + rng.Uint64N(3), done: make(chan taken, 1)}
			c.most = c.least
			var ctx context.Context
			ctx, c.cancel = context.WithCancelCause(t.Context())
			if rng.IntN(2) == 0 {
				c.least = 1
				go func() {
					n, err := g.AcquireUpTo(ctx, c.most)
					c.done <- taken{got: n, err: err}
				}()
			} else {
				go func() {
					err := g.Acquire(ctx, c.least)
					c.done <- taken{got: c.least, err: err}
				}()
			}
			line = append(line, c)
		case 6:
			n := 1 + rng.Uint64N(2)
			ok, err := g.TryAcquire(n)
			require.NoError(t, err)
			require.Equal(t, len(line) == 0 && granted-acquired >= n, ok)
			if ok {
				acquired += n
			}
		case 7:
			n, err := g.TryAcquireUpTo(2)
			require.NoError(t, err)
			if len(line) > 0 {
				require.Zero(t, n)
			}
			acquired += n
		case 8:
			if len(line) == 0 {
				continue
			}
			i := rng.IntN(len(line))
			leaving := line[i]
			line = slices.Delete(line, i, i+1)
			leaving.cancel(errInput)
			synctest.Wait()
			require.ErrorIs(t, (<-leaving.done).err, errInput)
		case 9: // a grant and a leave at the same moment: either may win, but the credit must not vanish
			if len(line) == 0 {
				continue
			}
			first := line[0]
			line = line[1:]
			go g.Grant(first.least)
			go first.cancel(errInput)
			granted += first.least
			got := <-first.done
			if got.err == nil {
				acquired += got.got
			}
			first.cancel(nil)
		}
		settle(step == 9)
	}
}

// Without synctest and with real contention: whatever happens, the sums agree when everybody has come back.
func TestGateF11_SumsAgreeUnderContention(t *testing.T) {
	const goroutines, callsEach = 8, 2500
	g := credit.NewGate(0)
	results := make(chan uint64, goroutines)
	for k := range goroutines {
		go func() {
			rng := rand.New(rand.NewPCG(7, uint64(k)))
			var acquired uint64
			for range callsEach {
				ctx, cancel := context.WithCancelCause(context.Background())
				if rng.IntN(3) == 0 {
					go cancel(errInput)
				}
				n, err := g.AcquireUpTo(ctx, 1+rng.Uint64N(3))
				if err == nil {
					acquired += n
				}
				cancel(nil)
			}
			results <- acquired
		}()
	}
	var granted, acquired uint64
	for left := goroutines; left > 0; {
		select {
		case n := <-results:
			acquired += n
			left--
		default:
			g.Grant(1)
			granted++
		}
	}
	require.Equal(t, granted, acquired+g.Available())
}

// Every way of ending, with a line of waiters in front of it.
func TestGateR10_10_R2_30_EndsLikeTheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		initial := rapid.Uint64Range(0, 6).Draw(rt, "initial")
		sizes := rapid.SliceOfN(rapid.Uint64Range(1, 5), 0, 6).Draw(rt, "line")
		drain := rapid.Bool().Draw(rt, "drain before close")
		synctest.Test(t, func(t *testing.T) {
			g := credit.NewGate(initial)
			available := initial
			done := queueUp(t, t.Context(), g, sizes...)
			var want []taken
			waits := false
			for who, n := range sizes { // before the end: in order, as far as it goes
				if !waits && n <= available {
					available -= n
					want = append(want, taken{who, n, nil})
					continue
				}
				waits = true
				switch {
				case !drain:
					want = append(want, taken{who, n, errOver})
				case n <= available:
					available -= n
					want = append(want, taken{who, n, nil})
				default:
					want = append(want, taken{who, n, errInput})
				}
			}
			if drain {
				g.NoMoreGrants(errInput)
				require.ElementsMatch(t, want, returned(done))
				require.Equal(t, available, g.Available())
			}
			g.Close(errOver)
			if !drain {
				require.ElementsMatch(t, want, returned(done))
			}
			require.Zero(t, g.Available())
		})
	})
}

// The window against three plain counters, and against a sender that keeps its own account.
func TestWindowR10_20_R10_40_L10_5_BehavesLikeThreeCounters(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		initial := rapid.Uint64Range(1, 40).Draw(t, "initial")
		batch := max(1, initial/2)
		w := credit.NewWindow(initial)
		outstanding, held, pending := initial, uint64(0), uint64(0)
		closed := false
		sender := initial // what the sender may send: it has been told every grant
		grant := func(got, want uint64) {
			require.Equal(t, want, got)
			outstanding += got
			sender += got
		}
		t.Repeat(map[string]func(*rapid.T){
			"arrive": func(t *rapid.T) {
				require.Equal(t, outstanding > 0, w.Arrive())
				if outstanding > 0 {
					outstanding--
					held++
					sender--
				}
			},
			"consume": func(t *rapid.T) {
				n := rapid.Uint64Range(0, initial+2).Draw(t, "n")
				got := w.Consume(n)
				if closed {
					require.Zero(t, got)
					return
				}
				n = min(n, held)
				held -= n
				pending += n
				want := pending / batch * batch
				pending -= want
				grant(got, want)
			},
			"flush": func(*rapid.T) {
				got := w.Flush()
				grant(got, pending)
				pending = 0
			},
			"immediate": func(t *rapid.T) {
				n := rapid.Uint64Range(0, 3).Draw(t, "n")
				want := min(n, held)
				if closed {
					want = 0
				}
				held -= want
				grant(w.Immediate(n), want)
			},
			"close": func(t *rapid.T) {
				if rapid.IntRange(0, 9).Draw(t, "seldom") == 0 {
					w.Close()
					closed, pending = true, 0
				}
			},
			"": func(t *rapid.T) {
				require.Equal(t, outstanding, w.Outstanding())
				require.Equal(t, pending, w.Pending())
				require.Equal(t, sender, w.Outstanding(), "the sender and the window must agree")
				require.LessOrEqual(t, outstanding+held+pending, initial)
				if !closed {
					require.Equal(t, initial, outstanding+held+pending)
				}
			},
		})
	})
}

// The router against a plain map.
func TestRouterR10_13_BehavesLikeAMap(t *testing.T) {
	ids := []string{"", "a", "b", "c"}
	rapid.Check(t, func(t *rapid.T) {
		var r credit.Router
		model := map[string]*credit.Gate{}
		want := map[*credit.Gate]uint64{}
		t.Repeat(map[string]func(*rapid.T){
			"register": func(t *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(t, "id")
				g := credit.NewGate(0)
				err := r.Register(id, g)
				if model[id] != nil {
					require.ErrorIs(t, err, credit.ErrRegistered)
					return
				}
				require.NoError(t, err)
				model[id] = g
			},
			"unregister": func(t *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(t, "id")
				r.Unregister(id)
				delete(model, id)
			},
			"grant": func(t *rapid.T) {
				id := rapid.SampledFrom(ids).Draw(t, "id")
				outcome := credit.Unmatched
				if g := model[id]; g != nil {
					outcome = credit.Granted
					want[g]++
				}
				require.Equal(t, outcome, r.Grant([]byte(id), 1))
			},
			"grant without a stream": func(t *rapid.T) {
				outcome := credit.Unmatched
				if len(model) == 1 {
					outcome = credit.Granted
					for _, g := range model {
						want[g]++
					}
				}
				require.Equal(t, outcome, r.Grant(nil, 1))
			},
			"": func(t *rapid.T) {
				for _, g := range model {
					require.Equal(t, want[g], g.Available())
				}
			},
		})
	})
}
