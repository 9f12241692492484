package stages

import (
	"context"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// without takes a key out of a frame.
func without(f *frame.Frame, k frame.Key) *frame.Frame {
	f.Has = f.Has.Without(k)
	return f
}

func wrongSum(f *frame.Frame) *frame.Frame {
	f.Checksum ^= 1
	return f
}

// One row per way of breaking a rule of 3.4: frames that are all right but for the last one, and what that one costs.
func TestReceiverRules(t *testing.T) {
	one := []byte{1}
	large := encoded(t, make([]byte, 5000))
	end := &frame.Frame{Type: frame.TypeEnd}
	scalar, sequence := startFrame("s", false), startFrame("s", true)
	for _, c := range []struct {
		name   string
		frames []*frame.Frame
		code   string
		says   string
	}{
		{"R-3.30 STREAM_START without stream_id", []*frame.Frame{without(startFrame("s", false), frame.KeyStreamID)}, failure.ProtocolError, "stream_id"},
		{"R-3.30 STREAM_START without media_urn", []*frame.Frame{without(startFrame("s", false), frame.KeyMediaURN)}, failure.ProtocolError, "media_urn"},
		{"R-3.30 a stream started twice", []*frame.Frame{scalar, scalar}, failure.ProtocolError, `"s"`},
		{"R-3.30 a stream started again after its end", []*frame.Frame{scalar, streamEndFrame("s", 0), scalar}, failure.ProtocolError, `"s"`},
		{"R-3.30 a stream started after the end of the body", []*frame.Frame{end, scalar}, failure.ProtocolError, "end of the body"},
		{"R-3.31 CHUNK without stream_id", []*frame.Frame{scalar, without(chunkFrame("s", 0, one), frame.KeyStreamID)}, failure.ProtocolError, "stream_id"},
		{"R-3.31 CHUNK without payload", []*frame.Frame{scalar, without(chunkFrame("s", 0, one), frame.KeyPayload)}, failure.ProtocolError, "payload"},
		{"R-3.31 CHUNK of a stream never started", []*frame.Frame{scalar, chunkFrame("t", 0, one)}, failure.ProtocolError, "never started"},
		{"R-3.31 CHUNK of a stream that has ended", []*frame.Frame{scalar, streamEndFrame("s", 0), chunkFrame("s", 0, one)}, failure.ProtocolError, "has ended"},
		{"R-3.31 CHUNK after the end of the body", []*frame.Frame{scalar, streamEndFrame("s", 0), end, chunkFrame("s", 0, one)}, failure.ProtocolError, "end of the body"},
		{"R-3.31 STREAM_END without stream_id", []*frame.Frame{scalar, without(streamEndFrame("s", 0), frame.KeyStreamID)}, failure.ProtocolError, "stream_id"},
		{"R-3.31 STREAM_END of a stream never started", []*frame.Frame{streamEndFrame("s", 0)}, failure.ProtocolError, "never started"},
		{"R-3.31 STREAM_END twice", []*frame.Frame{scalar, streamEndFrame("s", 0), streamEndFrame("s", 0)}, failure.ProtocolError, "has ended"},
		{"R-3.32 a wrong checksum", []*frame.Frame{scalar, wrongSum(chunkFrame("s", 0, one))}, failure.CorruptedData, "checksum"},
		{"R-3.32 a wrong checksum of a sequence fragment", []*frame.Frame{sequence, wrongSum(chunkFrame("s", 0, one))}, failure.CorruptedData, "checksum"},
		{"R-3.33 a first chunk_index other than 0", []*frame.Frame{scalar, chunkFrame("s", 1, one)}, failure.ProtocolError, "expected 0"},
		{"R-3.33 a gap in chunk_index", []*frame.Frame{scalar, chunkFrame("s", 0, one), chunkFrame("s", 2, one)}, failure.ProtocolError, "expected 1"},
		{"R-3.33 a repeated chunk_index", []*frame.Frame{scalar, chunkFrame("s", 0, one), chunkFrame("s", 0, one)}, failure.ProtocolError, "expected 1"},
		{"R-3.34 R-10.40 a CHUNK beyond the window", []*frame.Frame{scalar, chunkFrame("s", 0, one), chunkFrame("s", 1, one), chunkFrame("s", 2, one)}, failure.CreditViolation, "window of 2"},
		{"R-3.35 chunk_count too large", []*frame.Frame{scalar, chunkFrame("s", 0, one), streamEndFrame("s", 2)}, failure.ProtocolError, "chunk_count 2 after 1"},
		{"R-3.35 chunk_count too small", []*frame.Frame{scalar, chunkFrame("s", 0, one), streamEndFrame("s", 0)}, failure.ProtocolError, "chunk_count 0 after 1"},
		{"R-3.36 STREAM_END inside a sequence item", []*frame.Frame{sequence, chunkFrame("s", 0, []byte{0x44, 1, 2}), streamEndFrame("s", 1)}, failure.DecodeError, "3 bytes left over"},
		{"R-3.37 a scalar payload that is no CBOR", []*frame.Frame{scalar, chunkFrame("s", 0, []byte{0xff})}, failure.DecodeError, "CBOR"},
		{"R-3.37 a scalar payload of two values", []*frame.Frame{scalar, chunkFrame("s", 0, []byte{1, 2})}, failure.DecodeError, "CBOR"},
		{"R-3.37 a scalar payload that is cut", []*frame.Frame{scalar, chunkFrame("s", 0, []byte{0x42, 1})}, failure.DecodeError, "CBOR"},
		{"R-3.37 an empty scalar payload", []*frame.Frame{scalar, chunkFrame("s", 0, nil)}, failure.DecodeError, "CBOR"},
		{"R-3.37 a scalar text that is not UTF-8", []*frame.Frame{scalar, chunkFrame("s", 0, []byte{0x61, 0xff})}, failure.DecodeError, "CBOR"},
		{"R-3.37 sequence bytes that cannot begin CBOR", []*frame.Frame{sequence, chunkFrame("s", 0, []byte{0x1c})}, failure.DecodeError, ""},
		{"R-3.37 and in a later fragment", []*frame.Frame{sequence, chunkFrame("s", 0, []byte{0x82}), chunkFrame("s", 1, []byte{1, 0xfc, 0x1c})}, failure.DecodeError, ""},
		{"R-3.38 END while a stream is open", []*frame.Frame{scalar, startFrame("t", true), streamEndFrame("s", 0), end}, failure.ProtocolError, `stream "t" is open`},
		{"R-3.39 one stream too many", []*frame.Frame{startFrame("a", true), startFrame("b", true), startFrame("c", true), startFrame("d", true)}, failure.ProtocolError, "3 streams"},
		{"R-6.29 an item that is too large", []*frame.Frame{sequence, chunkFrame("s", 0, large[:2000]), chunkFrame("s", 1, large[2000:])}, failure.ItemTooLarge, "4000 bytes"},
		{"R-6.29 also in one chunk", []*frame.Frame{sequence, chunkFrame("s", 0, large)}, failure.ItemTooLarge, "4000 bytes"},
		{"R-3.24 an ERR that is no ERR", []*frame.Frame{{Type: frame.TypeErr}}, failure.ProtocolError, "ERR of the body"},
		{"a frame that is no part of a body", []*frame.Frame{{Type: frame.TypeHello}}, failure.ProtocolError, "hello"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newTestLink(withCredit(2))
			l.MaxStreams, l.MaxItem = 3, 4000
			p := l.receive()
			last := len(c.frames) - 1
			for i, f := range c.frames {
				var block *Block
				if f.Type == frame.TypeChunk {
					block = l.Pool.Get(20 << 10)
				}
				held := l.Pool.Held()
				fault := p.Take(f, block)
				if i < last {
					require.Nil(t, fault, "frame %d", i)
					continue
				}
				require.NotNil(t, fault)
				require.Equal(t, c.code, fault.Code)
				class := failure.Internal
				if c.code == failure.ItemTooLarge {
					class = failure.Resource
				}
				require.Equal(t, class, fault.Class)
				require.ErrorContains(t, fault, c.says)
				if block != nil {
					require.Greater(t, l.Pool.Held(), held, "the block of a chunk that is refused goes back")
				}
			}
			l.finish(t)
		})
	}
}

func TestReceiverAllows(t *testing.T) {
	t.Run("R-3.35 an absent chunk_count, on a bounded stream as well", func(t *testing.T) {
		l := newTestLink(withCredit(2))
		p := l.receive()
		in := p.start(t, "s", false)
		p.chunks(t, "s", []byte{1})
		require.Nil(t, p.StreamEnd(streamEndFrame("s", -1)))
		_, err := in.Next(t.Context())
		require.NoError(t, err)
		_, err = in.Next(t.Context())
		require.ErrorIs(t, err, io.EOF)
		require.Nil(t, p.End())
	})
	t.Run("R-3.39 256 streams by default, and not one more", func(t *testing.T) {
		l := newTestLink(withCredit(2))
		p := l.receive()
		for i := range 256 {
			require.Nil(t, p.Start(startFrame(fmt.Sprint(i), false)))
		}
		require.NotNil(t, p.Start(startFrame("256", false)))
	})
	t.Run("R-6.29 items of exactly the limit, many in a chunk, and any size on a scalar stream", func(t *testing.T) {
		l := newTestLink(withCredit(9))
		l.MaxItem = 100
		p := l.receive()
		p.start(t, "s", true)
		item := encoded(t, make([]byte, 98))
		require.Len(t, item, 100)
		p.chunks(t, "s", item, append(append(append([]byte{}, item...), item...), item...), item[:50], item[50:])
		p.start(t, "scalar", false)
		p.chunks(t, "scalar", encoded(t, make([]byte, 5000)))
	})
	t.Run("R-6.29 zero is no bound", func(t *testing.T) {
		l := newTestLink(withCredit(9))
		p := l.receive()
		p.start(t, "s", true)
		p.chunks(t, "s", encoded(t, make([]byte, 1<<20)))
		l.finish(t)
	})
}

func TestReceiverStreams(t *testing.T) {
	t.Run("R-6.10 streams come in the order of their starts, as soon as they have started", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(2))
			p := l.receive()
			got := make(chan string)
			for n := range 3 {
				go func() {
					in, err := p.Stream(t.Context(), n)
					if err != nil {
						got <- err.Error()
						return
					}
					got <- fmt.Sprint(n, in.ID())
				}()
			}
			synctest.Wait()
			require.Empty(t, got)
			p.start(t, "first", false)
			require.Equal(t, "0first", strings.ReplaceAll(<-got, " ", ""))
			p.start(t, "second", true)
			require.Equal(t, "1second", strings.ReplaceAll(<-got, " ", ""))
			for _, id := range []string{"first", "second"} {
				require.Nil(t, p.StreamEnd(streamEndFrame(id, 0)))
			}
			require.Nil(t, p.End())
			require.Equal(t, io.EOF.Error(), <-got)
			require.Equal(t, io.EOF, p.Err())
			in, err := p.Stream(t.Context(), 1)
			require.NoError(t, err, "a stream that has started can be had after the end")
			require.Equal(t, "second", in.ID())
		})
	})
	t.Run("R-3.50 R-8.20 Fail wakes whoever waits for a stream or an item, and overrides a clean end", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(2))
			p := l.receive()
			in := p.start(t, "s", false)
			results := make(chan error, 2)
			go func() { _, err := p.Stream(t.Context(), 1); results <- err }()
			go func() { _, err := in.Next(t.Context()); results <- err }()
			synctest.Wait()
			p.Fail(errGone)
			require.ErrorIs(t, <-results, errGone)
			require.ErrorIs(t, <-results, errGone)
			p.Fail(io.EOF)
			require.ErrorIs(t, p.Err(), errGone, "the first counts")

			p = l.receive()
			in = p.start(t, "s", false)
			p.chunks(t, "s", []byte{1})
			require.Nil(t, p.StreamEnd(streamEndFrame("s", 1)))
			require.Nil(t, p.End())
			p.Fail(errGone)
			_, err := in.Next(t.Context())
			require.ErrorIs(t, err, errGone)
			_, err = p.Stream(t.Context(), 0)
			require.ErrorIs(t, err, errGone)
		})
	})
	t.Run("R-3.50 what arrives after Fail is dropped and gives its block back", func(t *testing.T) {
		l := newTestLink(withCredit(4))
		p := l.receive()
		in := p.start(t, "s", false)
		big := encoded(t, make([]byte, 20<<10))
		for i := range 2 {
			block := l.blockOf(big)
			require.Nil(t, p.Chunk(chunkFrame("s", i, block.Buf), block))
		}
		_, err := in.Next(t.Context()) // the other one is in the reader's hands
		require.NoError(t, err)
		block := l.blockOf(big)
		require.Nil(t, p.Chunk(chunkFrame("s", 2, block.Buf), block)) // this one is in the queue
		p.Fail(errGone)
		late := l.blockOf(big)
		require.NotNil(t, p.Chunk(chunkFrame("s", 3, late.Buf), late))
		_, err = in.Next(t.Context())
		require.ErrorIs(t, err, errGone)
		require.Equal(t, 2*(32<<10+blockSlack), l.Pool.Held(), "the late one used the block of the one in the queue")
		l.finish(t)
	})
	t.Run("R-3.71 a wake-up that comes too late is taken back, so the next put does not wait", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(2))
			in := l.receive().start(t, "s", true)
			ctx, cancel := context.WithCancelCause(t.Context())
			done := make(chan error, 1)
			go func() { _, err := in.Next(ctx); done <- err }()
			synctest.Wait()
			in.own.mu.Lock()
			cancel(errGone) // it leaves, but cannot say so yet
			in.own.unlockAndWake()
			require.ErrorIs(t, <-done, errGone)
			require.Empty(t, in.own.wake)
		})
	})
	t.Run("the context of a wait ends it with its cause, and nothing is lost", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(2))
			p := l.receive()
			in := p.start(t, "s", true)
			for range 50 { // item and end of the context at the same time
				ctx, cancel := context.WithCancelCause(t.Context())
				done := make(chan error, 1)
				go func() { _, err := in.Next(ctx); done <- err }()
				synctest.Wait()
				cancel(errGone)
				require.ErrorIs(t, <-done, errGone)
			}
			p.chunks(t, "s", []byte{7})
			item, err := in.Next(t.Context())
			require.NoError(t, err)
			require.Equal(t, []byte{7}, item.Enc)
		})
	})
}

func TestReceiverMerged(t *testing.T) {
	log := func(level string, n int) *frame.LogRecord {
		return &frame.LogRecord{Level: level, Message: fmt.Sprint(n)}
	}
	t.Run("R-7.10 items and logs in order of arrival, R-7.17 END's payload last, and it costs no credit", func(t *testing.T) {
		l := newTestLink(withCredit(4))
		p := l.receive()
		p.Merge()
		require.True(t, p.Merged())
		p.start(t, "a", true)
		p.start(t, "b", false)
		require.Nil(t, p.Chunk(chunkFrame("b", 0, []byte{1}), nil))
		require.False(t, p.Log(log("info", 0)))
		require.Nil(t, p.Chunk(chunkFrame("a", 0, []byte{2, 3, 0x42}), nil)) // two items and the head of a third
		require.Nil(t, p.Chunk(chunkFrame("b", 1, []byte{4}), nil))
		require.Nil(t, p.Chunk(chunkFrame("a", 1, []byte{5, 6}), nil))
		require.Nil(t, p.StreamEnd(streamEndFrame("a", 2)))
		require.Nil(t, p.StreamEnd(streamEndFrame("b", 2)))
		p.Tail([]byte("tail"))
		require.Nil(t, p.End())
		var got []string
		for {
			item, in, log, err := p.NextMerged(t.Context())
			if err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			switch {
			case log != nil:
				got = append(got, "log "+log.Message)
			case in == nil:
				got = append(got, fmt.Sprintf("tail %x", item.Enc))
			default:
				got = append(got, fmt.Sprintf("%s %x", in.ID(), item.Enc))
			}
		}
		require.Equal(t, []string{"b 01", "log 0", "a 02", "a 03", "b 04", "a 420506", "tail 447461696c"}, got)
	})
	// logged is a response with 1024 logs, the n-th of them a progress, then a chunk, then one log more.
	logged := func(t *testing.T, progress int) (*peer, *testLink) {
		l := newTestLink(withCredit(4))
		p := l.receive()
		p.Merge()
		p.start(t, "s", true)
		for i := range 1024 {
			level := "info"
			if i == progress || i == progress+1 {
				level = "progress"
			}
			require.False(t, p.Log(log(level, i)))
		}
		require.Nil(t, p.Chunk(chunkFrame("s", 0, []byte{9}), nil))
		require.True(t, p.Log(log("info", 1024)))
		return p, l
	}
	for name, c := range map[string]struct{ progress, gone int }{"the oldest progress": {5, 5}, "without progress the oldest": {-9, 0}} {
		t.Run("R-7.16 of more than 1024 logs one goes: "+name, func(t *testing.T) {
			p, l := logged(t, c.progress)
			items := 0
			for want := 0; want <= 1024; want++ {
				if want == c.gone {
					continue
				}
				_, in, got, err := p.NextMerged(t.Context())
				require.NoError(t, err)
				if in != nil {
					items++
					_, _, got, err = p.NextMerged(t.Context())
					require.NoError(t, err)
				}
				require.Equal(t, fmt.Sprint(want), got.Message)
			}
			require.Equal(t, 1, items)
			for i := range 1024 {
				require.False(t, p.Log(log("info", i)), "there is room again")
			}
			p.Fail(errGone)
			require.True(t, p.Log(log("info", 0)))
			l.finish(t)
		})
	}
	t.Run("R-7.16 logs in front of a chunk that is being audited make room when they are read", func(t *testing.T) {
		p, l := logged(t, -9)
		p.merged.q[1023].flags |= chunkAuditing // the chunk; one log is behind it
		for range 1023 {
			_, _, got, err := p.NextMerged(t.Context())
			require.NoError(t, err)
			require.NotNil(t, got)
		}
		for i := range 1023 {
			require.False(t, p.Log(log("info", i)))
		}
		require.True(t, p.Log(log("info", 0)))
		l.finish(t)
	})
}
