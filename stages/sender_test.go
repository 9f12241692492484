package stages

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

const testStream = "out-1"

var errGone = errors.New("the caller has left")

func (l *testLink) sender(hook func()) *Sender {
	s := new(Sender)
	s.Init(&l.Link, NewFlow(frame.UintID(7), frame.ID{}), []byte(testStream), []byte("media:bytes"), hook)
	return s
}

func TestSenderBuffer(t *testing.T) {
	t.Run("R-6.39 a buffer that is longer than max_chunk is cut", func(t *testing.T) {
		limits := withCredit(1 << 20)
		limits.MaxChunk = 100
		l := newTestLink(limits).run()
		s := l.sender(nil)
		var want []byte
		for i := range 30 {
			piece := []byte(strings.Repeat(string(rune('a'+i%26)), 33))
			want = append(want, piece...)
			require.NoError(t, s.Write(t.Context(), piece))
		}
		require.NoError(t, s.Close(t.Context()))
		assert.Equal(t, want, scalarBytes(t, l.finish(t)))
	})
}

func TestSenderTurns(t *testing.T) {
	t.Run("R-10.21 flush before the wait for another call of the same stream", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(1)).run()
			flushed := 0
			s := l.sender(func() { flushed++ })
			require.NoError(t, s.EmitItem(t.Context(), "first", nil))
			results := make(chan error, 2)
			go func() { results <- s.EmitItem(t.Context(), "waits for credit", nil) }()
			synctest.Wait()
			require.Equal(t, 1, flushed)
			go func() { results <- s.EmitItem(t.Context(), "waits for its turn", nil) }()
			synctest.Wait()
			require.Equal(t, 2, flushed, "what the second caller had consumed was not granted before it waited")
			s.Gate().Grant(2)
			require.NoError(t, <-results)
			require.NoError(t, <-results)
			l.finish(t)
		})
	})
	t.Run("R-6.42 a call that leaves before its turn leaves a hole, so the stream is broken", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(0)).run()
			s := l.sender(nil)
			first, second := make(chan error, 1), make(chan error, 1)
			go func() { first <- s.EmitItem(t.Context(), "waits for credit", nil) }()
			synctest.Wait()
			ctx, leave := context.WithCancelCause(t.Context())
			go func() { second <- s.EmitItem(ctx, "waits for its turn", nil) }()
			synctest.Wait()
			leave(errGone)
			require.ErrorIs(t, <-second, errGone)
			s.Gate().Grant(10)
			require.NoError(t, <-first, "a call under way is whole")
			require.ErrorIs(t, s.EmitItem(t.Context(), "after the hole", nil), errGone)
			require.ErrorIs(t, s.Close(t.Context()), errGone)
			require.Len(t, ofType(l.finish(t), frame.TypeStreamEnd), 0)
		})
	})
	t.Run("R-6.33 Started may be asked while others send", func(t *testing.T) {
		l := newTestLink(withCredit(1 << 20)).run()
		for range 50 {
			s := l.sender(nil)
			done := make(chan error)
			go func() { done <- errors.Join(s.EmitItem(t.Context(), "x", nil), s.Close(t.Context())) }()
			for asking := true; asking; {
				_ = s.Started() // the race detector judges
				select {
				case err := <-done:
					require.NoError(t, err)
					asking = false
				default:
				}
			}
			require.False(t, s.Started(), "the stream has ended")
		}
		l.finish(t)
	})
}

func TestSenderForwardedItems(t *testing.T) {
	first, last := Piece{enc: []byte{0x42}, sum: fnvOf([]byte{0x42}), first: true, seq: true}, Piece{enc: []byte{1, 2}, sum: fnvOf([]byte{1, 2}), last: true, seq: true}
	t.Run("R-6.41 no item may begin inside a forwarded one", func(t *testing.T) {
		l := newTestLink(withCredit(10)).run()
		s := l.sender(nil)
		require.NoError(t, s.Forward(t.Context(), first))
		require.ErrorIs(t, s.EmitItem(t.Context(), "x", nil), ErrPieceOrder)
		require.ErrorIs(t, s.Forward(t.Context(), last), ErrPieceOrder, "the stream is broken")
		l.finish(t)
	})
	t.Run("R-3.36 a stream is not closed inside a forwarded item", func(t *testing.T) {
		l := newTestLink(withCredit(10)).run()
		s := l.sender(nil)
		require.NoError(t, s.Forward(t.Context(), first))
		require.ErrorIs(t, s.Close(t.Context()), ErrPieceOrder)
		require.Equal(t, []frame.Type{frame.TypeStreamStart, frame.TypeChunk}, typesOf(l.finish(t)))
	})
	t.Run("R-6.41 whole items are forwarded", func(t *testing.T) {
		l := newTestLink(withCredit(10)).run()
		s := l.sender(nil)
		require.NoError(t, s.Forward(t.Context(), first))
		require.NoError(t, s.Forward(t.Context(), last))
		require.NoError(t, s.Close(t.Context()))
		frames := l.finish(t)
		require.Equal(t, []frame.Type{frame.TypeStreamStart, frame.TypeChunk, frame.TypeChunk, frame.TypeStreamEnd}, typesOf(frames))
	})
}

func TestSenderEnds(t *testing.T) {
	t.Run("R-6.81 END is not decided before a STREAM_START that does not fit", func(t *testing.T) {
		limits := withCredit(10)
		limits.MaxFrame = 400
		l := newTestLink(limits).run()
		s := new(Sender)
		s.Init(&l.Link, NewFlow(frame.UintID(7), frame.ID{}), []byte(testStream), []byte("media:"+strings.Repeat("x", 500)), nil)
		require.NoError(t, s.Write(t.Context(), []byte("small")))
		decided := false
		err := s.CloseWith(t.Context(), func(*frame.Frame) bool { decided = true; return true })
		var large *TooLargeError
		require.ErrorAs(t, err, &large)
		require.False(t, decided, "the request would end without a terminal")
		require.Empty(t, l.finish(t))
	})
}

// scalarBytes checks one scalar stream from its start to its end and gives its bytes.
func scalarBytes(t require.TestingT, frames []wireFrame) (all []byte) {
	require.Equal(t, frame.TypeStreamStart, frames[0].typ)
	last := frames[len(frames)-1]
	require.Equal(t, frame.TypeStreamEnd, last.typ)
	for i, w := range frames[1 : len(frames)-1] {
		require.Equal(t, frame.TypeChunk, w.typ)
		require.Equal(t, uint64(i), w.uint(frame.KeyChunkIndex))
		var b []byte
		require.NoError(t, cbor.Unmarshal(w.payload, &b))
		all = append(all, b...)
	}
	require.Equal(t, uint64(len(frames)-2), last.uint(frame.KeyChunkCount))
	return all
}
