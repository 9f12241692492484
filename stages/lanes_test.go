package stages

import (
	"context"
	"testing"
	"testing/synctest"

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
			require.NoError(t, l.Lanes.WaitOwn(ended(), nil), "4096 are allowed")
			require.NoError(t, l.Lanes.Control(beat(1)))
			require.ErrorIs(t, l.Lanes.WaitOwn(ended(), nil), context.Canceled)
			waited := make(chan error)
			go func() { waited <- l.Lanes.WaitOwn(t.Context(), nil) }()
			synctest.Wait()
			require.Empty(t, waited)
			l.run()
			require.NoError(t, <-waited)
			require.Len(t, l.finish(t), 4097)
		})
	})
	t.Run("R-4.9 R-4.7 beyond 4 MiB of own frames the reader waits as well", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(1))
			large := beat(1)
			large.Meta = append([]byte{0xa1, 0x61, 'x', 0x59, 0xff, 0xff}, make([]byte, 1<<16-1)...)
			large.Has = large.Has.With(frame.KeyMeta)
			for range 63 { // each is some bytes more than 64 KiB
				require.NoError(t, l.Lanes.Control(large))
			}
			require.NoError(t, l.Lanes.WaitOwn(ended(), nil))
			require.NoError(t, l.Lanes.Control(large))
			require.ErrorIs(t, l.Lanes.WaitOwn(ended(), nil), context.Canceled)
			l.run()
			require.NoError(t, l.Lanes.WaitOwn(t.Context(), nil))
			require.Len(t, l.finish(t), 64)
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
		require.NoError(t, l.Lanes.WaitOwn(ended(), nil))
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
		require.NoError(t, l.Lanes.WaitOwn(ended(), nil), "ten thousand grants are ten frames")
		frames := l.finish(t)
		require.Len(t, frames, 10)
		require.Equal(t, map[string]uint64{"a": 30_000, "b": 5}, credits(frames))
	})
	t.Run("R-4.9 after a write grants are single again", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(1)).run()
			g := &l.receive().start(t, "a", false).granter
			for range 3 {
				for range 8 { // all of it before the writer runs, which waits for this goroutine to rest
					g.Grant(1)
				}
				synctest.Wait()
				frames, _ := l.out.take(t)
				require.Len(t, frames, 8)
				require.Equal(t, uint64(8), credits(frames)["a"])
			}
			require.Empty(t, l.finish(t))
		})
	})
}
