package stages

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// call is one data call on a sender.
type call struct {
	name string // write, value, item, flush
	v    any
	meta []byte
}

func drawCalls(t *rapid.T, sequence bool, most int) (calls []call) {
	names := []string{"write", "write", "value", "flush"}
	if sequence {
		names = []string{"item"}
	}
	for i := range rapid.IntRange(0, 10).Draw(t, "calls") {
		c := call{name: rapid.SampledFrom(names).Draw(t, "call")}
		size := min(most, rapid.SampledFrom([]int{0, 1, 10, 2000, 4095, 4096, 8300, 60_000}).Draw(t, "size"))
		switch rapid.IntRange(0, 3).Draw(t, "kind") {
		case 0:
			c.v = bytes.Repeat([]byte{byte('a' + i)}, size)
		case 1:
			c.v = strings.Repeat(rapid.SampledFrom([]string{"x", "ö", "€", "🎈"}).Draw(t, "rune"), size/4)
		case 2:
			c.v = []any{i, "text", []byte("bytes"), []any{nil, true}}
		case 3:
			c.v = map[string]any{"key": i, "other": []byte("v")}
		}
		if c.name == "write" {
			c.v = bytes.Repeat([]byte{byte('A' + i)}, size)
		}
		if sequence && rapid.Bool().Draw(t, "with meta") {
			c.meta = encoded(t, map[string]string{"m": strings.Repeat("m", min(size, 100))})
		}
		calls = append(calls, c)
	}
	return calls
}

func (c call) do(ctx context.Context, s *Sender) error {
	switch c.name {
	case "write":
		return s.Write(ctx, c.v.([]byte))
	case "value":
		return s.EmitValue(ctx, c.v)
	case "item":
		return s.EmitItem(ctx, c.v, c.meta)
	}
	return s.Flush(ctx)
}

// says is what a scalar call means to a reader that concatenates, as scalarValue writes it.
func (c call) says(t require.TestingT) []byte {
	other := func(v any) []byte { return []byte(fmt.Sprintf("<%x>", encoded(t, v))) }
	if c.name == "flush" {
		return nil
	}
	element := func(v any) []byte {
		switch v := v.(type) {
		case []byte:
			return v
		case string:
			return []byte(v)
		}
		return other(v)
	}
	switch v := c.v.(type) {
	case []any:
		var all []byte
		for _, e := range v {
			all = append(all, element(e)...)
		}
		return all
	case map[string]any: // entries in the order of their keys
		return append(other([]any{"key", v["key"]}), other([]any{"other", v["other"]})...)
	default:
		return element(v)
	}
}

// Any calls with any limits: the frames say what the calls said, in order, numbered without gap, counted exactly, and none is
// larger than max_frame.
func TestSenderR6_37_R6_39_R6_40_R6_41_R6_43_AnyCallsAnyLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limits := withCredit(1 << 30)
		limits.MaxChunk = rapid.SampledFrom([]uint64{1, 5, 100, 4000, 5000, 1 << 18}).Draw(t, "max_chunk")
		limits.MaxFrame = rapid.SampledFrom([]uint64{700, 5000, 3_670_016}).Draw(t, "max_frame")
		sequence := rapid.Bool().Draw(t, "sequence")
		mode := Mode{Sequence: sequence, Unbounded: rapid.Bool().Draw(t, "unbounded")}
		explicit := mode.Unbounded || rapid.Bool().Draw(t, "explicit start")
		calls := drawCalls(t, sequence, 200*int(limits.MaxChunk))
		l := newTestLink(limits).run()
		s := l.sender(nil)
		if explicit {
			require.NoError(t, s.Start(t.Context(), mode))
		}
		var want []byte
		items := &naive{sequence: true}
		for _, c := range calls {
			require.NoError(t, c.do(t.Context(), s))
			if sequence {
				items.take(encoded(t, c.v), c.meta)
			} else {
				want = append(want, c.says(t)...)
			}
		}
		require.NoError(t, s.Close(t.Context()))
		require.NoError(t, s.Close(t.Context()), "again")
		require.ErrorIs(t, s.Write(t.Context(), []byte("late")), ErrClosed)
		require.ErrorIs(t, s.EmitItem(t.Context(), 1, nil), ErrClosed)
		require.ErrorIs(t, s.Start(t.Context(), mode), ErrClosed)
		frames := l.finish(t)

		wrote := false // a flush alone starts nothing
		for _, c := range calls {
			wrote = wrote || c.name != "flush"
		}
		if !explicit && !wrote {
			require.Empty(t, frames, "a stream that was never started")
			return
		}
		for i, w := range frames {
			require.LessOrEqual(t, uint64(w.size), limits.MaxFrame)
			require.Equal(t, uint64(i), w.seq)
			require.Equal(t, testStream, w.stream)
		}
		start, chunks, end := frames[0], frames[1:len(frames)-1], frames[len(frames)-1]
		require.Equal(t, frame.TypeStreamStart, start.typ)
		require.Equal(t, sequence, start.fields[uint64(frame.KeyIsSequence)])
		require.Equal(t, mode.Unbounded, start.has(frame.KeyUnbounded))
		require.Equal(t, frame.TypeStreamEnd, end.typ)
		require.Equal(t, mode.Unbounded, !end.has(frame.KeyChunkCount))
		if !mode.Unbounded {
			require.Equal(t, uint64(len(chunks)), end.uint(frame.KeyChunkCount))
		}
		got := &naive{sequence: sequence}
		for i, w := range chunks {
			require.Equal(t, frame.TypeChunk, w.typ)
			require.Equal(t, uint64(i), w.uint(frame.KeyChunkIndex))
			var meta []byte
			if w.meta != nil {
				meta = encoded(t, w.meta)
			}
			if sequence {
				require.LessOrEqual(t, uint64(len(w.payload)), limits.MaxChunk)
				require.True(t, w.meta == nil || len(got.bytes) == 0, "meta on a later fragment")
			} else {
				requireScalarCut(t, w.payload, int(limits.MaxChunk))
			}
			got.take(w.payload, meta)
		}
		if sequence {
			require.Equal(t, items.items, got.items)
			require.Empty(t, got.bytes)
			return
		}
		require.Equal(t, string(want), string(scalarValue(t, got)))
	})
}

// requireScalarCut checks the bound of and that texts are texts.
func requireScalarCut(t require.TestingT, payload []byte, maxChunk int) {
	var v any
	require.NoError(t, cbor.Unmarshal(payload, &v))
	switch v := v.(type) {
	case []byte:
		require.LessOrEqual(t, len(v), max(maxChunk, len("bytes"))) // elements of arrays are not cut
	case string:
		require.LessOrEqual(t, len(v), max(maxChunk, utf8.UTFMax))
		require.True(t, utf8.ValidString(v))
	}
}

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

// Data calls of many goroutines on one stream: each is one run, in the order of chunk_index.
func TestSenderR6_42_ConcurrentCallsAreSerialised(t *testing.T) {
	limits := withCredit(4)
	limits.MaxChunk = 16
	l := newTestLink(limits).run()
	s := l.sender(nil)
	stop := make(chan struct{})
	granting := make(chan struct{})
	go func() { // a receiver that never lets go of more than a little
		defer close(granting)
		for {
			select {
			case <-stop:
				return
			default:
				s.Gate().Grant(1)
			}
		}
	}()
	const callers, each = 8, 100
	var work sync.WaitGroup
	for k := range callers {
		work.Go(func() {
			for i := range each {
				text := fmt.Sprintf("%d/%d/%s", k, i, strings.Repeat("x", i))
				if err := s.EmitItem(t.Context(), text, nil); err != nil {
					t.Error(err)
				}
			}
		})
	}
	work.Wait()
	close(stop)
	<-granting
	require.NoError(t, s.Close(t.Context()))
	frames := l.finish(t)
	got := &naive{sequence: true}
	for i, w := range frames[1 : len(frames)-1] {
		require.Equal(t, uint64(i), w.uint(frame.KeyChunkIndex))
		got.take(w.payload, nil)
	}
	next := [callers]int{}
	for _, it := range got.items {
		var text string
		require.NoError(t, cbor.Unmarshal(it.enc, &text))
		var k, i int
		var xs string
		_, err := fmt.Sscanf(strings.ReplaceAll(text, "/", " "), "%d %d %s", &k, &i, &xs)
		require.True(t, err == nil || i == 0, "%q", text)
		require.Equal(t, next[k], i, "caller %d", k)
		require.Equal(t, strings.Repeat("x", i), xs)
		next[k]++
	}
	require.Len(t, got.items, callers*each)
}

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
