package stages

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// F11 for the lane: many senders that come, wait, give up and go on while a slow writer takes the lane away. Whoever waits
// comes back, the order of each flow is kept, what was reported as sent is written once, and nothing else.
func TestLanesF11_R4_9_R4_10_NoWakeUpIsLostUnderContention(t *testing.T) {
	for _, payload := range []int{10, 40 << 10} {
		t.Run(fmt.Sprintf("payload of %d bytes", payload), func(t *testing.T) {
			const senders = 16
			rounds := 800
			if payload > laneInline {
				rounds = 20
			}
			l := newTestLink(withCredit(1)).run()
			sent := make([]int, senders)
			var work sync.WaitGroup
			for k := range senders {
				work.Go(func() {
					rng := rand.New(rand.NewPCG(3, uint64(k)))
					fl := NewFlow(frame.UintID(uint64(k)), frame.ID{})
					for i := range rounds {
						ctx, cancel := context.WithCancelCause(t.Context())
						if rng.IntN(4) == 0 {
							go cancel(errGone)
						}
						var block *Block
						p := make([]byte, payload)
						if payload > laneInline {
							block = l.Pool.Get(payload)
							p = block.Buf
						}
						p[0], p[1], p[2] = byte(k), byte(i), byte(i>>8)
						b, err := l.Lanes.Begin(ctx, nil)
						if err == nil {
							err = putIn(b, fl, p, block)
							b.End()
							sent[k]++
						} else {
							block.Release()
						}
						if err != nil && !errors.Is(err, errGone) {
							t.Errorf("sender %d: %v", k, err)
						}
						cancel(nil)
					}
				})
			}
			work.Wait()
			frames := l.finish(t)
			seen := make([]int, senders)
			for _, w := range frames {
				k := w.payload[0]
				require.Equal(t, uint64(seen[k]), w.seq, "flow %d is out of order", k)
				seen[k]++
			}
			require.Equal(t, sent, seen)
			assert.Zero(t, l.Lanes.own)
		})
	}
}

// F11: the turn of a sender comes together with the end of its context. Whatever it makes of that, the next one has its turn.
func TestLanesF11_R4_9_ATurnThatIsNotTakenIsPassedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newTestLink(withCredit(1))
		left := 0
		for round := range 400 {
			b, err := l.Lanes.Begin(t.Context(), nil)
			require.NoError(t, err)
			fl := NewFlow(frame.UintID(1), frame.ID{})
			for range laneMaxFrames { // so only one waiter can be expected to fit
				require.NoError(t, b.Put(fl, b.Frame(frame.TypeLog), nil))
			}
			b.End()
			ctx, cancel := context.WithCancelCause(t.Context())
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- put(ctx, l.Lanes, fl, nil, nil) }()
			synctest.Wait()
			go func() { second <- put(t.Context(), l.Lanes, fl, nil, nil) }()
			synctest.Wait()
			l.Lanes.mu.Lock() // as the writer does
			if round%2 == 0 {
				cancel(errGone) // it leaves, but cannot say so yet
			}
			l.Lanes.data.reset()
			l.Lanes.letIn()
			l.Lanes.mu.Unlock()
			cancel(errGone)
			synctest.Wait()
			require.NotEmpty(t, second, "round %d: the second sender waits beside an empty lane", round)
			require.NoError(t, <-second)
			if <-first != nil {
				left++
			}
			l.Lanes.mu.Lock()
			l.Lanes.data.reset()
			l.Lanes.mu.Unlock()
		}
		require.Greater(t, left, wakeAhead, "too few left at that moment to prove anything")
	})
}

// F11 step by step: whoever should have come back by now has, in order of arrival, and nobody else.
func TestLanesF11_R4_9_WaitersComeBackInOrder(t *testing.T) {
	for seed := range 3 {
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(5, uint64(seed)))
			l := newTestLink(withCredit(1))
			l.out.hold = make(chan error)
			ran := make(chan error, 1)
			go func() { ran <- l.Lanes.Run(func(err error) error { return err }) }()
			type waiter struct {
				n      int
				cancel context.CancelCauseFunc
				done   chan error
			}
			var line []*waiter
			next, order := 0, []int{}
			writing := false
			for range 120 {
				switch rng.IntN(5) {
				case 0, 1, 2: // somebody sends a quarter of the lane
					w := &waiter{n: next, done: make(chan error, 1)}
					next++
					var ctx context.Context
					ctx, w.cancel = context.WithCancelCause(t.Context())
					go func() { w.done <- quarter(ctx, l.Lanes, w.n) }()
					line = append(line, w)
				case 3: // somebody leaves
					if len(line) > 0 {
						w := line[rng.IntN(len(line))]
						w.cancel(errGone)
					}
				case 4: // one write is done
					if writing {
						l.out.hold <- nil
					}
				}
				synctest.Wait()
				rest := line[:0]
				waits := false
				for _, w := range line {
					select {
					case err := <-w.done:
						if err == nil {
							require.False(t, waits, "sender %d overtook one that waits", w.n)
							order = append(order, w.n)
						} else {
							require.ErrorIs(t, err, errGone)
						}
						w.cancel(nil)
					default:
						waits = true
						rest = append(rest, w)
					}
				}
				line = rest
				l.Lanes.mu.Lock()
				writing = l.Lanes.writing
				require.True(t, len(line) == 0 || l.Lanes.full(), "%d wait beside a lane with room", len(line))
				l.Lanes.mu.Unlock()
			}
			for _, w := range line {
				w.cancel(errGone)
			}
			close(l.out.hold)
			synctest.Wait()
			frames := l.finishRun(t, ran)
			written := []int{}
			for i := 0; i < len(frames); i += 256 {
				id := frames[i].id
				for _, w := range frames[i : i+256] {
					require.Equal(t, id, w.id, "a run is torn")
				}
				written = append(written, int(id.(uint64)))
			}
			require.ElementsMatch(t, order, written) // those who are let in at the same time enter in any order
		})
	}
}

// quarter sends a quarter of what the data lane holds, in one run.
func quarter(ctx context.Context, l *Lanes, id int) error {
	b, err := l.Begin(ctx, nil)
	if err != nil {
		return err
	}
	defer b.End()
	fl := NewFlow(frame.UintID(uint64(id)), frame.ID{})
	for range laneMaxFrames / 4 {
		if err := b.Put(fl, b.Frame(frame.TypeLog), nil); err != nil {
			return err
		}
	}
	return nil
}

// finishRun is finish for a writer that the test has started.
func (l *testLink) finishRun(t require.TestingT, ran chan error) []wireFrame {
	l.done = ran
	return l.finish(t)
}
