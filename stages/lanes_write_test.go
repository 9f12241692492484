package stages

import (
	"bytes"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

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
			go func() { reader <- l.Lanes.WaitOwn(t.Context(), nil) }()
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
			lost := map[frame.Type]int{}
			for _, typ := range c.closed {
				lost[typ]++
			}
			require.Equal(t, map[frame.Type]int{frame.TypeChunk: 1 + blocks, frame.TypeHeartbeat: 5000 + 1, frame.TypeCredit: 1}, lost,
				"R-11.5 what the lanes held, and what came afterwards")
			require.NoError(t, l.Lanes.WaitOwn(t.Context(), nil))
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
