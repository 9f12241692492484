package stages

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// put appends one CHUNK with the given payload, waiting as a sender does.
func put(ctx context.Context, l *Lanes, fl *Flow, payload []byte, block *Block) error {
	b, err := l.Begin(ctx, nil)
	if err != nil {
		return err
	}
	defer b.End()
	return putIn(b, fl, payload, block)
}

func putIn(b Batch, fl *Flow, payload []byte, block *Block) error {
	f := b.Frame(frame.TypeChunk)
	f.StreamID, f.Payload, f.Checksum = []byte("s"), payload, fnvOf(payload)
	f.Has = f.Has.With(frame.KeyStreamID).With(frame.KeyPayload).With(frame.KeyChunkIndex).With(frame.KeyChecksum)
	return b.Put(fl, f, block)
}

func beat(n uint64) *frame.Frame { return &frame.Frame{Type: frame.TypeHeartbeat, ID: frame.UintID(n)} }

// own appends one frame of the link's own making.
func own(t require.TestingT, l *Lanes, fl *Flow) {
	b, err := l.Own()
	require.NoError(t, err)
	require.NoError(t, b.Put(fl, b.Frame(frame.TypeLog), nil))
	b.EndOwn(1)
}

func TestLanesOrder(t *testing.T) {
	t.Run("R-4.8 what is in the control lane goes before all data, each in its own order", func(t *testing.T) {
		l := newTestLink(withCredit(1))
		fl := NewFlow(frame.UintID(1), frame.ID{})
		for i := range 3 {
			require.NoError(t, put(t.Context(), l.Lanes, fl, []byte{byte(i)}, nil))
			require.NoError(t, l.Lanes.Control(beat(uint64(i))))
		}
		l.run()
		frames := l.finish(t)
		require.Len(t, frames, 6)
		for i := range 3 {
			require.Equal(t, uint64(i), frames[i].id, "heartbeat %d", i)
			require.Equal(t, []byte{byte(i)}, frames[3+i].payload)
			require.Equal(t, uint64(i), frames[3+i].seq)
		}
	})
	t.Run("R-4.8 CANCEL goes through the data lane, behind what it cancels", func(t *testing.T) {
		l := newTestLink(withCredit(1))
		fl := NewFlow(frame.UintID(1), frame.ID{})
		b, err := l.Lanes.Begin(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, b.Put(fl, b.Frame(frame.TypeReq), nil))
		b.End()
		b, err = l.Lanes.Own()
		require.NoError(t, err)
		require.NoError(t, b.Put(fl, b.Frame(frame.TypeCancel), nil))
		fl.Shut()
		b.EndOwn(1)
		require.NoError(t, put(t.Context(), l.Lanes, fl, nil, nil), "a straggler is no error")
		require.Equal(t, []frame.Type{frame.TypeReq, frame.TypeCancel}, typesOf(l.finish(t)))
	})
	t.Run("R-4.11 stragglers are counted by type and give their blocks back", func(t *testing.T) {
		c := new(counts)
		l := newTestLink(withCredit(1))
		l.Lanes.counters = c
		fl := NewFlow(frame.UintID(1), frame.ID{})
		b, err := l.Lanes.Begin(t.Context(), nil)
		require.NoError(t, err)
		require.NoError(t, b.Put(fl, b.Frame(frame.TypeEnd), nil))
		b.End()
		block := l.Pool.Get(100 << 10)
		require.NoError(t, put(t.Context(), l.Lanes, fl, block.Buf, block))
		require.NotZero(t, l.Pool.Held())
		require.Equal(t, []frame.Type{frame.TypeChunk}, c.stragglers)
		require.Equal(t, []frame.Type{frame.TypeEnd}, typesOf(l.finish(t)))
	})
	t.Run("R-6.92 a frame that is too large is its sender's error, and nothing of it is written", func(t *testing.T) {
		limits := withCredit(1)
		limits.MaxFrame = 1000
		l := newTestLink(limits)
		fl := NewFlow(frame.UintID(1), frame.ID{})
		block := l.Pool.Get(20 << 10)
		err := put(t.Context(), l.Lanes, fl, block.Buf, block)
		var large *TooLargeError
		require.ErrorAs(t, err, &large)
		require.Equal(t, 1000, large.Limit)
		require.NotEmpty(t, block.Buf, "it stays the sender's")
		require.ErrorAs(t, l.Lanes.Control(&frame.Frame{Type: frame.TypeHeartbeat, Meta: make([]byte, 2000), Has: frame.Keys(0).With(frame.KeyMeta)}), &large)
		require.NoError(t, put(t.Context(), l.Lanes, fl, []byte("next"), nil))
		frames := l.finish(t)
		require.Len(t, frames, 1)
		require.Zero(t, frames[0].seq)
	})
}

func TestLanesBounds(t *testing.T) {
	// filled is a link whose data lane is full, with nobody writing.
	filled := func(t *testing.T, payload int) (*testLink, int) {
		l := newTestLink(withCredit(1))
		n := 0
		for ; !l.Lanes.full(); n++ {
			require.NoError(t, put(t.Context(), l.Lanes, NewFlow(frame.UintID(0), frame.ID{}), make([]byte, payload), nil))
		}
		return l, n
	}
	t.Run("R-4.9 the data lane holds 1024 frames, or 1 MiB", func(t *testing.T) {
		l, n := filled(t, 1)
		require.Equal(t, 1024, n)
		l.finish(t)
		l, n = filled(t, 256<<10)
		require.Equal(t, 4, n)
		l.finish(t)
		l, n = filled(t, 8<<10)
		require.InDelta(t, 128, n, 2)
		l.finish(t)
	})
	t.Run("R-4.9 a full data lane delays senders only, R-10.21 after a flush", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, n := filled(t, 256<<10)
			flushed := 0
			sent := make(chan error)
			go func() {
				b, err := l.Lanes.Begin(t.Context(), func() { flushed++ })
				if err == nil {
					b.End()
				}
				sent <- err
			}()
			synctest.Wait()
			require.Equal(t, 1, flushed)
			require.Empty(t, sent)
			require.NoError(t, l.Lanes.Control(beat(1)))
			own(t, l.Lanes, NewFlow(frame.UintID(9), frame.ID{}))
			l.run()
			require.NoError(t, <-sent)
			require.Len(t, l.finish(t), n+2)
		})
	})
	t.Run("R-4.9 own frames do not use up the room of senders", func(t *testing.T) {
		l := newTestLink(withCredit(1))
		fl := NewFlow(frame.UintID(9), frame.ID{})
		for range 2000 {
			own(t, l.Lanes, fl)
		}
		require.NoError(t, put(ended(), l.Lanes, fl, nil, nil))
		require.Len(t, l.finish(t), 2001)
	})
	t.Run("R-4.9 beyond 4096 own frames the reader waits until the writer has caught up", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(1))
			for i := range 4096 {
				switch i % 2 {
				case 0:
					require.NoError(t, l.Lanes.Control(beat(uint64(i))))
				case 1:
					own(t, l.Lanes, NewUngatedFlow(frame.UintID(1), frame.ID{}))
				}
			}
			require.NoError(t, l.Lanes.WaitOwn(ended()), "4096 are allowed")
			require.NoError(t, l.Lanes.Control(beat(1)))
			require.ErrorIs(t, l.Lanes.WaitOwn(ended()), context.Canceled)
			waited := make(chan error)
			go func() { waited <- l.Lanes.WaitOwn(t.Context()) }()
			synctest.Wait()
			require.Empty(t, waited)
			l.run()
			require.NoError(t, <-waited)
			require.Len(t, l.finish(t), 4097)
		})
	})
	t.Run("R-4.9 what was not appended does not count as own", func(t *testing.T) {
		l := newTestLink(withCredit(1))
		shut := NewFlow(frame.UintID(1), frame.ID{})
		b, err := l.Lanes.Own()
		require.NoError(t, err)
		shut.Shut()
		b.EndOwn(1)
		for range 5000 {
			own(t, l.Lanes, shut)
		}
		require.NoError(t, l.Lanes.WaitOwn(ended()))
		require.Empty(t, l.finish(t))
	})
	t.Run("R-4.9 unwritten grants of one stream merge beyond 8, and none is lost", func(t *testing.T) {
		l := newTestLink(withCredit(1))
		p := l.receive()
		a, b := &p.start(t, "a", false).granter, &p.start(t, "b", false).granter
		for range 10_000 {
			a.Grant(3)
		}
		a.Grant(0)
		b.Grant(5)
		require.NoError(t, l.Lanes.WaitOwn(ended()), "ten thousand grants are ten frames")
		frames := l.finish(t)
		require.Len(t, frames, 10)
		require.Equal(t, map[string]uint64{"a": 30_000, "b": 5}, credits(frames))
	})
	t.Run("R-4.9 after a write grants are single again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(1)).run()
			g := &l.receive().start(t, "a", false).granter
			for range 3 {
				for range 8 {
					g.Grant(1)
				}
				synctest.Wait()
				frames, _ := l.out.take(t)
				require.Equal(t, uint64(8), credits(frames)["a"])
			}
			require.Empty(t, l.finish(t))
		})
	})
}

func TestLanesWrites(t *testing.T) {
	large := bytes.Repeat([]byte("large"), 20<<10)
	fill := func(t *testing.T, l *testLink) {
		fl := NewFlow(frame.UintID(1), frame.ID{})
		for i := range 10 {
			require.NoError(t, l.Lanes.Control(beat(uint64(i))))
			require.NoError(t, put(t.Context(), l.Lanes, fl, []byte{byte(i)}, nil))
		}
		block := l.blockOf(large)
		require.NoError(t, put(t.Context(), l.Lanes, fl, block.Buf, block))
		require.NoError(t, put(t.Context(), l.Lanes, fl, []byte("behind"), nil))
	}
	checkFilled := func(t *testing.T, frames []wireFrame) {
		require.Len(t, frames, 22)
		for i, w := range frames[10:] {
			require.Equal(t, uint64(i), w.seq)
		}
		require.Equal(t, large, frames[20].payload)
		require.Equal(t, []byte("behind"), frames[21].payload)
	}
	t.Run("R-4.10 one write per batch where the output takes several buffers", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, v := newTestLink(withCredit(1)), new(vector)
			l.Lanes.out = v
			fill(t, l)
			l.run()
			synctest.Wait()
			frames, writes := v.take(t)
			require.Equal(t, 1, writes)
			checkFilled(t, frames)
			require.Equal(t, 128<<10+blockSlack, l.Pool.Held(), "the block came back after the write")
			l.finish(t)
		})
	})
	t.Run("R-4.10 small batches are one write on any output", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(1))
			for i := range 10 {
				require.NoError(t, l.Lanes.Control(beat(uint64(i))))
				require.NoError(t, put(t.Context(), l.Lanes, NewFlow(frame.UintID(1), frame.ID{}), nil, nil))
			}
			l.run()
			synctest.Wait()
			frames, writes := l.out.take(t)
			require.Len(t, frames, 20)
			require.Equal(t, 1, writes)
			l.finish(t)
		})
	})
	t.Run("R-4.10 large payloads keep their place on any output", func(t *testing.T) {
		l := newTestLink(withCredit(1))
		fill(t, l)
		checkFilled(t, l.finish(t))
	})
	t.Run("R-4.10 an output that buffers is flushed when both lanes are empty, and only then", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, f := newTestLink(withCredit(1)), &flusher{}
			f.hold = make(chan error)
			l.Lanes.out = f
			fl := NewFlow(frame.UintID(1), frame.ID{})
			require.NoError(t, put(t.Context(), l.Lanes, fl, nil, nil))
			l.run()
			synctest.Wait()
			require.NoError(t, put(t.Context(), l.Lanes, fl, nil, nil)) // while the first is being written
			f.hold <- nil
			synctest.Wait()
			require.Zero(t, f.flushes)
			f.hold <- nil
			synctest.Wait()
			require.Equal(t, 1, f.flushes)
			l.finish(t)
			require.Equal(t, 2, f.flushes, "and at the end")
		})
	})
	t.Run("R-2.33 an output that takes less and says nothing has failed", func(t *testing.T) {
		l := newTestLink(withCredit(1))
		l.Lanes.out = writerFunc(func(p []byte) (int, error) { return len(p) - 1, nil })
		require.NoError(t, l.Lanes.Control(beat(1)))
		require.ErrorIs(t, l.Lanes.Run(func(err error) error { return err }), io.ErrShortWrite)
	})
}

type flusher struct {
	recorder
	flushes int
	fail    error
}

func (f *flusher) Flush() error { f.flushes++; return f.fail }

func TestLanesFail(t *testing.T) {
	t.Run("R-2.33 a failed write releases everybody who waits and fails every later send", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l, c := newTestLink(withCredit(1)), new(counts)
			l.Lanes.counters = c
			l.out.hold = make(chan error)
			fl := NewFlow(frame.UintID(1), frame.ID{})
			require.NoError(t, put(t.Context(), l.Lanes, fl, nil, nil))
			ran := make(chan error, 1)
			go func() {
				ran <- l.Lanes.Run(func(err error) error { return fmt.Errorf("the output is gone: %w", err) })
			}()
			synctest.Wait() // it is writing
			var blocks int
			for ; !l.Lanes.full(); blocks++ {
				block := l.Pool.Get(256 << 10)
				require.NoError(t, put(t.Context(), l.Lanes, fl, block.Buf, block))
			}
			for range 5000 {
				require.NoError(t, l.Lanes.Control(beat(1)))
			}
			waiters := make(chan error, 20)
			for range 10 {
				go func() { waiters <- put(t.Context(), l.Lanes, fl, nil, nil) }()
			}
			reader := make(chan error, 1)
			go func() { reader <- l.Lanes.WaitOwn(t.Context()) }()
			synctest.Wait()
			require.Empty(t, waiters)
			require.Empty(t, reader)
			l.out.hold <- errGone
			require.ErrorIs(t, <-ran, errGone)
			for range 10 {
				err := <-waiters
				require.ErrorIs(t, err, errGone)
				require.ErrorContains(t, err, "the output is gone")
			}
			require.NoError(t, <-reader)
			require.ErrorIs(t, l.Lanes.Err(), errGone)
			require.ErrorIs(t, put(t.Context(), l.Lanes, fl, nil, nil), errGone)
			_, err := l.Lanes.Own()
			require.ErrorIs(t, err, errGone)
			require.ErrorIs(t, l.Lanes.Control(beat(1)), errGone)
			l.receive().start(t, "a", false).granter.Grant(1)
			require.Equal(t, []frame.Type{frame.TypeHeartbeat, frame.TypeCredit}, c.closed)
			require.NoError(t, l.Lanes.WaitOwn(t.Context()))
			require.Equal(t, blocks*(256<<10+blockSlack), l.Pool.Held(), "what was not written gives its blocks back")
		})
	})
	t.Run("R-2.33 a failed flush is a failed write", func(t *testing.T) {
		l := newTestLink(withCredit(1))
		l.Lanes.out = &flusher{fail: errGone}
		require.NoError(t, l.Lanes.Control(beat(1)))
		require.ErrorIs(t, l.Lanes.Run(func(err error) error { return err }), errGone)
		require.ErrorIs(t, l.Lanes.Control(beat(1)), errGone)
	})
	t.Run("Close writes what is there, then refuses", func(t *testing.T) {
		l := newTestLink(withCredit(1)).run()
		fl := NewFlow(frame.UintID(1), frame.ID{})
		for range 100 {
			require.NoError(t, put(t.Context(), l.Lanes, fl, nil, nil))
		}
		require.Len(t, l.finish(t), 100)
		l.Lanes.Close() // again
		require.ErrorIs(t, put(t.Context(), l.Lanes, fl, nil, nil), ErrLanesClosed)
		require.ErrorIs(t, l.Lanes.Control(beat(1)), ErrLanesClosed)
		frames, n := l.Lanes.Counts()
		require.Equal(t, uint64(100), frames)
		require.NotZero(t, n)
	})
}

// F11 for the lane: many senders that come, wait, give up and go on while a slow writer takes the lane away. Whoever waits
// comes back, the order of each flow is kept, what was reported as sent is written once, and nothing else.
func TestLanesF11_R4_9_R4_10_NoWakeUpIsLostUnderContention(t *testing.T) {
	for _, payload := range []int{10, 40 << 10} {
		t.Run(fmt.Sprintf("payload of %d bytes", payload), func(t *testing.T) {
			const senders = 16
			rounds := 1500
			if payload > laneInline {
				rounds = 40
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

// F11 step by step: whoever should have come back by now has, in order of arrival, and nobody else.
func TestLanesF11_R4_9_WaitersComeBackInOrder(t *testing.T) {
	for seed := range 6 {
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
