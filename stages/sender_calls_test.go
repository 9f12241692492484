package stages

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

func TestSenderCoalesces(t *testing.T) {
	texts := func(t require.TestingT, frames []wireFrame) (all []string) {
		for _, w := range ofType(frames, frame.TypeChunk) {
			var b []byte
			require.NoError(t, cbor.Unmarshal(w.payload, &b))
			all = append(all, string(b))
		}
		return all
	}
	t.Run("R-6.37 two small writes, a pause of 30 ms and a third are one CHUNK, a fourth goes out at close", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(10)).run()
			s := l.sender(nil)
			require.NoError(t, s.Write(t.Context(), []byte("one ")))
			require.NoError(t, s.Write(t.Context(), []byte("two ")))
			time.Sleep(30 * time.Millisecond)
			synctest.Wait()
			frames, _ := l.out.take(t)
			require.Empty(t, frames, "R-6.38 there is no timer")
			require.NoError(t, s.Write(t.Context(), []byte("three")))
			synctest.Wait()
			frames, _ = l.out.take(t)
			require.Equal(t, []string{"one two three"}, texts(t, frames))
			require.NoError(t, s.Write(t.Context(), []byte("four")))
			require.NoError(t, s.Close(t.Context()))
			require.Equal(t, []string{"four"}, texts(t, l.finish(t)))
		})
	})
	t.Run("R-6.37 a batch is due at 4096 bytes, not before", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(10)).run()
			s := l.sender(nil)
			require.NoError(t, s.Write(t.Context(), make([]byte, 4000)))
			require.NoError(t, s.Write(t.Context(), make([]byte, 95)))
			synctest.Wait()
			frames, _ := l.out.take(t)
			require.Empty(t, frames)
			require.NoError(t, s.Write(t.Context(), make([]byte, 1)))
			synctest.Wait()
			frames, _ = l.out.take(t)
			require.Len(t, texts(t, frames), 1)
			require.Len(t, texts(t, frames)[0], 4096)
			require.NoError(t, s.Write(t.Context(), make([]byte, 5000)), "a large write goes out at once")
			synctest.Wait()
			frames, _ = l.out.take(t)
			require.Len(t, texts(t, frames)[0], 5000)
			l.finish(t)
		})
	})
	t.Run("R-6.37 R-6.40 buffered bytes go before any other emission, empty ones included", func(t *testing.T) {
		for name, v := range map[string]any{"text": "t", "array": []any{1}, "map": map[string]any{"k": 1}, "number": 5, "empty array": []any{}} {
			l := newTestLink(withCredit(10)).run()
			s := l.sender(nil)
			require.NoError(t, s.Write(t.Context(), []byte("before")))
			require.NoError(t, s.EmitValue(t.Context(), v))
			require.NoError(t, s.Write(t.Context(), []byte("after")))
			require.NoError(t, s.Close(t.Context()))
			chunks := ofType(l.finish(t), frame.TypeChunk)
			require.Equal(t, encoded(t, []byte("before")), chunks[0].payload, name)
			require.Equal(t, encoded(t, []byte("after")), chunks[len(chunks)-1].payload, name)
		}
	})
	t.Run("R-6.40 byte strings coalesce however they are typed", func(t *testing.T) {
		type named []byte
		l := newTestLink(withCredit(10)).run()
		s := l.sender(nil)
		require.NoError(t, s.EmitValue(t.Context(), named("a")))
		require.NoError(t, s.EmitValue(t.Context(), []byte("b")))
		require.NoError(t, s.Flush(t.Context()))
		require.Equal(t, []string{"ab"}, texts(t, l.finish(t)))
	})
	t.Run("R-6.43 a unary answer is STREAM_START, CHUNK, STREAM_END and END in one write", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(10)).run()
			s := l.sender(nil)
			require.NoError(t, s.Write(t.Context(), []byte("answer")))
			require.NoError(t, s.CloseWith(t.Context(), func(*frame.Frame) bool { return true }))
			synctest.Wait()
			frames, writes := l.out.take(t)
			require.Equal(t, []frame.Type{frame.TypeStreamStart, frame.TypeChunk, frame.TypeStreamEnd, frame.TypeEnd}, typesOf(frames))
			require.Equal(t, 1, writes)
			l.finish(t)
		})
	})
	t.Run("R-8.22 when the end is refused nothing is written", func(t *testing.T) {
		l := newTestLink(withCredit(10)).run()
		s := l.sender(nil)
		require.NoError(t, s.Write(t.Context(), []byte("answer")))
		require.ErrorIs(t, s.CloseWith(t.Context(), func(*frame.Frame) bool { return false }), ErrStopped)
		require.Empty(t, l.finish(t))
	})
	t.Run("R-6.43 R-7.3 an argument that was never written is started and ended empty", func(t *testing.T) {
		l := newTestLink(withCredit(10)).run()
		s := l.sender(nil)
		require.NoError(t, s.CloseStarted(t.Context()))
		require.NoError(t, s.CloseStarted(t.Context()))
		require.Empty(t, scalarBytes(t, l.finish(t)))
	})
	t.Run("R-8.21 an abort drops what is buffered, and ends a started stream with what was really sent", func(t *testing.T) {
		for _, c := range []struct {
			streamEnd bool
			piece     bool
			want      []frame.Type
		}{
			{true, false, []frame.Type{frame.TypeStreamStart, frame.TypeChunk, frame.TypeStreamEnd, frame.TypeErr}},
			{false, false, []frame.Type{frame.TypeStreamStart, frame.TypeChunk, frame.TypeErr}},
			{true, true, []frame.Type{frame.TypeStreamStart, frame.TypeChunk, frame.TypeChunk, frame.TypeErr}},
		} {
			l := newTestLink(withCredit(10)).run()
			s := l.sender(nil)
			if c.piece {
				require.NoError(t, s.EmitItem(t.Context(), 1, nil))
				require.NoError(t, s.Forward(t.Context(), Piece{enc: []byte{0x42}, sum: fnvOf([]byte{0x42}), first: true, seq: true}))
			} else {
				require.NoError(t, s.EmitValue(t.Context(), 1))
				require.NoError(t, s.Write(t.Context(), []byte("unsent")))
			}
			require.NoError(t, s.Abort(t.Context(), c.streamEnd, func(*frame.Frame) bool { return true }))
			frames := l.finish(t)
			require.Equal(t, c.want, typesOf(frames))
			if end := ofType(frames, frame.TypeStreamEnd); len(end) > 0 {
				require.Equal(t, uint64(1), end[0].uint(frame.KeyChunkCount))
			}
			require.False(t, s.Started())
		}
	})
}

func TestSenderRefuses(t *testing.T) {
	t.Run("R-6.34 the mode is fixed at start, and nothing is sent against it", func(t *testing.T) {
		l := newTestLink(withCredit(10)).run()
		s := l.sender(nil)
		require.NoError(t, s.EmitItem(t.Context(), 1, nil))
		require.ErrorIs(t, s.Write(t.Context(), []byte("x")), ErrStreamMode)
		require.ErrorIs(t, s.EmitValue(t.Context(), 1), ErrStreamMode)
		require.ErrorIs(t, s.Forward(t.Context(), NewPiece([]byte{1}, false)), ErrStreamMode)
		require.ErrorIs(t, s.Start(t.Context(), Mode{}), ErrStarted)
		require.NoError(t, s.EmitItem(t.Context(), 2, nil))
		require.Len(t, l.finish(t), 3)
	})
	t.Run("R-6.40 an element that no frame can hold, and nothing of its value is sent", func(t *testing.T) {
		limits := withCredit(10)
		limits.MaxFrame = 1000
		l := newTestLink(limits).run()
		s := l.sender(nil)
		require.NoError(t, s.EmitValue(t.Context(), 1))
		var large *ValueTooLargeError
		require.ErrorAs(t, s.EmitValue(t.Context(), []any{1, 2, make([]byte, 2000)}), &large)
		require.ErrorIs(t, s.Close(t.Context()), large, "R-6.42 what is missing cannot pass for success")
		require.Len(t, ofType(l.finish(t), frame.TypeChunk), 1)
	})
	t.Run("R-6.42 R-6.36 a call that is cut short breaks the stream for good", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			limits := withCredit(3)
			limits.MaxChunk = 10
			l := newTestLink(limits).run()
			s := l.sender(nil)
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error)
			go func() { done <- s.EmitItem(ctx, bytes.Repeat([]byte("x"), 100), nil) }()
			synctest.Wait()
			cancel(errGone)
			require.ErrorIs(t, <-done, errGone)
			s.Gate().Grant(100)
			require.ErrorIs(t, s.EmitItem(t.Context(), 1, nil), errGone)
			require.ErrorIs(t, s.Close(t.Context()), errGone)
			require.ErrorIs(t, s.Flush(t.Context()), errGone)
			require.Len(t, ofType(l.finish(t), frame.TypeChunk), 3)
		})
	})
	t.Run("R-7.4 Refuse waits for nobody, and lets a call under way fail by its gate", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(0)).run()
			s := l.sender(nil)
			done := make(chan error)
			go func() { done <- s.EmitItem(t.Context(), 1, nil) }()
			synctest.Wait()
			s.Refuse(errGone)
			require.ErrorIs(t, <-done, errGone)
			require.ErrorIs(t, s.EmitItem(t.Context(), 1, nil), errGone)
			require.ErrorIs(t, s.Flush(t.Context()), errGone)
			l.finish(t)
		})
	})
	t.Run("R-6.41 R-6.92 a meta that fills the frame is the caller's error", func(t *testing.T) {
		limits := withCredit(100)
		limits.MaxFrame = 1000
		l := newTestLink(limits).run()
		s := l.sender(nil)
		var large *TooLargeError
		require.ErrorAs(t, s.EmitItem(t.Context(), 1, encoded(t, map[string]string{"m": strings.Repeat("m", 2000)})), &large)
		require.Empty(t, ofType(l.finish(t), frame.TypeChunk))
	})
}
