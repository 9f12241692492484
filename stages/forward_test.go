package stages

import (
	"bytes"
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

func TestForward(t *testing.T) {
	big := encoded(t, bytes.Repeat([]byte("x"), 100<<10))
	t.Run("R-6.41 the checksum that was verified is sent on, not computed again", func(t *testing.T) {
		l := newTestLink(withCredit(10))
		s := l.sender(nil)
		require.NoError(t, s.Forward(t.Context(), Piece{enc: []byte{1}, sum: 4711, first: true, last: true}))
		var f frame.Frame
		d := NewDecoder(bytes.NewReader(l.Lanes.data.buf), l.Pool, frame.MaxBody)
		_, err := d.Next(&f) // STREAM_START
		require.NoError(t, err)
		_, err = d.Next(&f)
		require.NoError(t, err)
		require.Equal(t, uint64(4711), f.Checksum)
	})
	t.Run("a large piece is not copied, and its block goes back once, after the write", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(10))
			l.out.hold = make(chan error)
			p := l.receive()
			in := p.start(t, "s", false)
			block := l.blockOf(big)
			at := &block.Buf[0]
			require.Nil(t, p.Chunk(chunkFrame("s", 0, block.Buf), block))
			piece, err := in.NextPiece(t.Context())
			require.NoError(t, err)
			require.NoError(t, l.sender(nil).Forward(t.Context(), piece))
			require.Same(t, at, &l.Lanes.data.parts[0].payload[0])
			l.run()
			synctest.Wait()
			require.Zero(t, l.Pool.Held(), "it is being written")
			close(l.out.hold)
			synctest.Wait()
			require.Equal(t, 128<<10+blockSlack, l.Pool.Held())
			require.Equal(t, big, ofType(l.finish(t), frame.TypeChunk)[0].payload)
		})
	})
	t.Run("whatever goes wrong, the block of a piece goes back", func(t *testing.T) {
		limits := withCredit(1)
		limits.MaxFrame = 200 << 10
		for name, prepare := range map[string]func(l *testLink, s *Sender) context.Context{
			"the wrong mode":      func(_ *testLink, s *Sender) context.Context { _ = s.EmitItem(t.Context(), 1, nil); return t.Context() },
			"a stream that ended": func(_ *testLink, s *Sender) context.Context { _ = s.Close(t.Context()); return t.Context() },
			"a refused stream":    func(_ *testLink, s *Sender) context.Context { s.Refuse(errGone); return t.Context() },
			"no credit":           func(_ *testLink, s *Sender) context.Context { _, _ = s.Gate().TryAcquire(1); return ended() },
			"no room": func(l *testLink, _ *Sender) context.Context {
				for !l.Lanes.full() {
					require.NoError(t, put(t.Context(), l.Lanes, NewFlow(frame.UintID(1), frame.ID{}), nil, nil))
				}
				return ended()
			},
			"a shut flow": func(_ *testLink, s *Sender) context.Context { s.flow.Shut(); return t.Context() },
			"cut anew": func(l *testLink, _ *Sender) context.Context {
				l.Limits.MaxChunk = 200 << 10
				l.Limits.MaxFrame = 60 << 10
				return ended() // it waits for credit for its second part
			},
		} {
			l := newTestLink(limits)
			s := l.sender(nil)
			ctx := prepare(l, s)
			block := l.blockOf(big)
			err := s.Forward(ctx, Piece{block.Buf, nil, block, fnvOf(block.Buf), true, true, false})
			require.Equal(t, name != "a shut flow", err != nil, "%s: %v", name, err)
			require.GreaterOrEqual(t, l.Pool.Held(), 128<<10+blockSlack, name)
		}
	})
	t.Run("R-6.42 blocks of a write that is cut short go back", func(t *testing.T) {
		l := newTestLink(withCredit(1 << 20))
		s := l.sender(nil)
		for !l.Lanes.full() {
			require.NoError(t, put(t.Context(), l.Lanes, NewFlow(frame.UintID(1), frame.ID{}), nil, nil))
		}
		require.ErrorIs(t, s.Write(ended(), make([]byte, 1<<20)), context.Canceled)
		require.Equal(t, 4*(256<<10+blockSlack), l.Pool.Held())
		require.ErrorIs(t, s.EmitItem(t.Context(), make([]byte, 100<<10), nil), context.Canceled)
		l.finish(t)
	})
	t.Run("R-6.37 the caller may use what it wrote again", func(t *testing.T) {
		l := newTestLink(withCredit(1 << 20))
		s := l.sender(nil)
		var want []byte
		for _, n := range []int{10, 4096, 9000, 300_000} {
			p := bytes.Repeat([]byte{byte(n)}, n)
			want = append(want, p...)
			require.NoError(t, s.Write(t.Context(), p))
			clear(p)
		}
		require.NoError(t, s.Close(t.Context()))
		require.True(t, bytes.Equal(want, scalarBytes(t, l.finish(t))))
	})
	t.Run("R-6.41 the caller may use an item again", func(t *testing.T) {
		for _, n := range []int{10, 9000, 100_000, 600_000} {
			l := newTestLink(withCredit(1 << 20))
			s := l.sender(nil)
			p := bytes.Repeat([]byte{7}, n)
			require.NoError(t, s.EmitItem(t.Context(), p, nil))
			clear(p)
			require.NoError(t, s.EmitItem(t.Context(), p, nil))
			got := &naive{sequence: true}
			for _, w := range ofType(l.finish(t), frame.TypeChunk) {
				got.take(w.payload, nil)
			}
			require.True(t, bytes.Equal(encoded(t, bytes.Repeat([]byte{7}, n)), got.items[0].enc), "%d bytes", n)
		}
	})
}
