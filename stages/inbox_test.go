package stages

import (
	"bytes"
	"context"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// ended is a context that has ended: what would wait with it returns at once.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func TestInboxEmptyChunks(t *testing.T) {
	t.Run("R-10.23 L10.5 empty chunks of a sequence are credited once, and are no items", func(t *testing.T) {
		for _, pieces := range []bool{false, true} {
			l := newTestLink(withCredit(2)).run()
			p := l.receive()
			in := p.start(t, "s", true)
			out := l.sender(nil)
			index := 0
			send := func(payload []byte) {
				require.Nil(t, p.Chunk(chunkFrame("s", index, payload), nil), "chunk %d: the window is used up", index)
				index++
			}
			for range 10 {
				send(nil)
				send(nil)
				if pieces {
					_, err := in.NextPiece(ended())
					require.ErrorIs(t, err, context.Canceled)
				} else {
					_, err := in.Next(ended())
					require.ErrorIs(t, err, context.Canceled)
				}
			}
			send(nil)
			send(encoded(t, "x"))
			if pieces {
				piece, err := in.NextPiece(t.Context())
				require.NoError(t, err)
				require.NoError(t, out.Forward(t.Context(), piece))
			} else {
				item, err := in.Next(t.Context())
				require.NoError(t, err)
				require.Equal(t, encoded(t, "x"), item.Enc)
			}
			require.Nil(t, p.StreamEnd(streamEndFrame("s", index)))
			assert.Equal(t, uint64(index), credits(l.finish(t))["s"])
		}
	})
}

func TestInboxDiscard(t *testing.T) {
	item := func(i int) []byte { return encoded(t, i) }
	t.Run("R-6.25 R-10.24 what the reader had taken and not read is credited as well", func(t *testing.T) {
		for _, merged := range []bool{false, true} {
			l := newTestLink(withCredit(4)).run()
			p := l.receive()
			if merged {
				p.Merge()
			}
			in := p.start(t, "s", true)
			p.chunks(t, "s", item(0), item(1), item(2), item(3))
			var err error
			if merged {
				_, _, _, err = p.NextMerged(t.Context())
			} else {
				_, err = in.Next(t.Context())
			}
			require.NoError(t, err)
			p.Discard()
			require.Nil(t, p.Chunk(chunkFrame("s", 4, item(4)), nil))
			assert.Equal(t, uint64(5), credits(l.finish(t))["s"], "merged %t", merged)
		}
	})
	t.Run("R-6.25 the first chunk of an item that is never whole is credited", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(1)).run()
			p := l.receive()
			in := p.start(t, "s", true)
			p.chunks(t, "s", []byte{0x42})
			_, err := in.Next(ended())
			require.ErrorIs(t, err, context.Canceled)
			p.Discard()
			require.Nil(t, p.Chunk(chunkFrame("s", 1, []byte{1, 2}), nil))
			assert.Equal(t, uint64(2), credits(l.finish(t))["s"])
		})
	})
	t.Run("R-10.24 what arrives while a merged response is being discarded is credited", func(t *testing.T) {
		l := newTestLink(withCredit(1)).run()
		p := l.receive()
		p.Merge()
		in := p.start(t, "s", true)
		p.chunks(t, "s", item(0))
		in.discard.Store(true) // as if Discard had come between the two looks that arrive takes at it
		p.discard.Store(true)
		in.sweep()
		assert.Equal(t, uint64(1), credits(l.finish(t))["s"])
	})
	t.Run("R-6.25 R-3.32 a chunk that is being audited at that moment is dropped after it", func(t *testing.T) {
		for _, merged := range []bool{false, true} {
			l := newTestLink(withCredit(2)).run()
			p := l.receive()
			if merged {
				p.Merge()
			}
			in := p.start(t, "s", false)
			big := encoded(t, make([]byte, 100<<10))
			for i := range 2 {
				block := l.blockOf(big)
				require.Nil(t, p.Chunk(chunkFrame("s", i, block.Buf), block))
			}
			cq := in.queue()
			cq.q[0].flags |= chunkAuditing | chunkSeen
			p.Discard()
			require.Equal(t, uint64(2), in.window.Outstanding(), "both are credited")
			held := cq.q[0]
			cq.release(&held)
			in.audited()
			assert.Empty(t, cq.q, "merged %t", merged)
			assert.Equal(t, 2*(128<<10+blockSlack), l.Pool.Held(), "both blocks are back")
			l.finish(t)
		}
	})
}

func TestInboxFails(t *testing.T) {
	t.Run("R-8.20 what was not read is dropped, also the rest of a chunk with several items", func(t *testing.T) {
		for name, next := range map[string]func(p *peer, in *Inbox) error{
			"items":  func(_ *peer, in *Inbox) error { _, err := in.Next(t.Context()); return err },
			"pieces": func(_ *peer, in *Inbox) error { _, err := in.NextPiece(t.Context()); return err },
			"merged": func(p *peer, _ *Inbox) error { _, _, _, err := p.NextMerged(t.Context()); return err },
		} {
			l := newTestLink(withCredit(4))
			p := l.receive()
			if name == "merged" {
				p.Merge()
			}
			in := p.start(t, "s", true)
			p.chunks(t, "s", []byte{1, 2, 3})
			require.NoError(t, next(p, in), name)
			cause := failure.New(failure.Cancelled, failure.Internal, "stop")
			p.Fail(cause)
			require.ErrorIs(t, next(p, in), cause, name)
			require.ErrorIs(t, next(p, in), cause, name)
			l.finish(t)
		}
	})
	t.Run("R-3.24 an ERR of the sender comes after what was received", func(t *testing.T) {
		l := newTestLink(withCredit(4))
		p := l.receive()
		open, over := p.start(t, "open", true), p.start(t, "over", true)
		p.chunks(t, "open", []byte{1, 2})
		require.Nil(t, p.StreamEnd(streamEndFrame("over", 0)))
		cause := failure.New(failure.HandlerError, failure.Internal, "no")
		p.Close(cause)
		for want := range 2 {
			item, err := open.Next(t.Context())
			require.NoError(t, err)
			require.Equal(t, []byte{byte(want + 1)}, item.Enc)
		}
		_, err := open.Next(t.Context())
		require.ErrorIs(t, err, cause)
		_, err = over.Next(t.Context())
		require.ErrorIs(t, err, io.EOF, "its end came before")
		_, err = p.Stream(t.Context(), 0)
		require.ErrorIs(t, err, cause)
		l.finish(t)
	})
}

func TestInboxGrants(t *testing.T) {
	item := func(i int) []byte { return encoded(t, i) }
	read := func(t *testing.T, in *Inbox, n int) {
		for range n {
			_, err := in.Next(t.Context())
			require.NoError(t, err)
		}
	}
	grants := func(frames []wireFrame) (n []uint64) {
		for _, w := range ofType(frames, frame.TypeCredit) {
			n = append(n, w.uint(frame.KeyCredit))
		}
		return n
	}
	t.Run("R-10.20 L10.1 window 8 and sixteen chunks give four grants of 4", func(t *testing.T) {
		l := newTestLink(withCredit(8))
		p := l.receive()
		in := p.start(t, "s", true)
		index := 0
		arrive := func(n int) {
			for range n {
				require.Nil(t, p.Chunk(chunkFrame("s", index, item(index)), nil))
				index++
			}
		}
		arrive(8)
		read(t, in, 8)
		arrive(8)
		read(t, in, 8)
		frames := l.finish(t)
		require.Equal(t, []uint64{4, 4, 4, 4}, grants(frames))
		require.Equal(t, "request", frames[0].meta["credit_dir"], "R-10.26")
	})
	t.Run("R-10.21 L10.2 window 32, a sender that stops after 8: the ninth read makes a grant of 8", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			l := newTestLink(withCredit(32)).run()
			p := l.receive()
			in := p.start(t, "s", true)
			for i := range 8 {
				require.Nil(t, p.Chunk(chunkFrame("s", i, item(i)), nil))
			}
			read(t, in, 8)
			synctest.Wait()
			frames, _ := l.out.take(t)
			require.Empty(t, frames, "less than a batch")
			ninth := make(chan error)
			go func() { _, err := in.Next(t.Context()); ninth <- err }()
			synctest.Wait()
			frames, _ = l.out.take(t)
			require.Equal(t, []uint64{8}, grants(frames))
			require.Nil(t, p.Chunk(chunkFrame("s", 8, item(8)), nil))
			require.NoError(t, <-ninth)
			l.finish(t)
		})
	})
	t.Run("R-10.21 before the wait for the next stream all streams are granted", func(t *testing.T) {
		l := newTestLink(withCredit(32))
		p := l.receive()
		a, b := p.start(t, "a", true), p.start(t, "b", true)
		p.chunks(t, "a", item(0), item(1))
		p.chunks(t, "b", item(0))
		read(t, a, 2)
		read(t, b, 1)
		_, err := p.Stream(ended(), 2)
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, map[string]uint64{"a": 2, "b": 1}, credits(l.finish(t)))
	})
	t.Run("R-10.23 L10.4 an item of 100 fragments passes a window of 2", func(t *testing.T) {
		l := newTestLink(withCredit(2))
		p := l.receive()
		in := p.start(t, "s", true)
		long := encoded(t, bytes.Repeat([]byte("x"), 98)) // with its head of 2 bytes
		for i := range long {
			require.Nil(t, p.Chunk(chunkFrame("s", i, long[i:i+1]), nil), "fragment %d", i)
		}
		got, err := in.Next(t.Context())
		require.NoError(t, err)
		require.Equal(t, long, got.Enc)
		p.Flush()
		require.Equal(t, uint64(100), credits(l.finish(t))["s"])
	})
	t.Run("R-10.23 in a window of 1 an item of several fragments does not stand still for ever", func(t *testing.T) {
		l := newTestLink(withCredit(1)).run()
		p := l.receive()
		in := p.start(t, "s", true)
		long := encoded(t, bytes.Repeat([]byte("x"), 30))
		for i := range 20 {
			require.Nil(t, p.Chunk(chunkFrame("s", i, long[i:i+1]), nil), "fragment %d", i)
		}
		require.Nil(t, p.Chunk(chunkFrame("s", 20, long[20:]), nil))
		require.Nil(t, p.Chunk(chunkFrame("s", 21, item(1)), nil), "the next item has room beside one that was not read")
		require.NotNil(t, p.Chunk(chunkFrame("s", 22, item(1)), nil), "and no more than that")
		read(t, in, 1)
		require.Equal(t, uint64(21), credits(l.finish(t))["s"], "each of its chunks once")
	})
	t.Run("R-10.25 after STREAM_END no grant is sent", func(t *testing.T) {
		l := newTestLink(withCredit(2))
		p := l.receive()
		in := p.start(t, "s", true)
		p.chunks(t, "s", item(0), item(1))
		require.Nil(t, p.StreamEnd(streamEndFrame("s", 2)))
		read(t, in, 2)
		_, err := in.Next(t.Context())
		require.ErrorIs(t, err, io.EOF)
		p.Flush()
		p.Discard()
		require.Empty(t, l.finish(t))
	})
	t.Run("R-10.27 arrival alone grants nothing", func(t *testing.T) {
		l := newTestLink(withCredit(3))
		p := l.receive()
		p.start(t, "s", true)
		p.chunks(t, "s", item(0), item(1), item(2))
		require.Empty(t, l.finish(t))
	})
	t.Run("R-10.30 L10.3 the whole window is stored without a reader, and R-10.40 not one chunk more", func(t *testing.T) {
		for _, sequence := range []bool{false, true} {
			l := newTestLink(withCredit(5))
			p := l.receive()
			p.start(t, "s", sequence)
			p.chunks(t, "s", item(0), item(1), item(2), item(3), item(4))
			fault := p.Chunk(chunkFrame("s", 5, item(5)), nil)
			require.NotNil(t, fault)
			require.Equal(t, failure.CreditViolation, fault.Code)
			require.Equal(t, failure.Internal, fault.Class)
			l.finish(t)
		}
	})
	t.Run("R-3.22 R-10.41 while the request waits nothing is granted, and on admission all of it", func(t *testing.T) {
		l := newTestLink(withCredit(3))
		p := l.receive()
		p.Wait()
		p.start(t, "s", true)
		p.chunks(t, "s", []byte{0x42}, []byte{1}, []byte{2})
		fault := p.Chunk(chunkFrame("s", 3, item(0)), nil)
		require.NotNil(t, fault, "the window holds while the request waits")
		frames := decodeWire(t, l.Lanes.ctl.buf)
		require.Empty(t, frames)
		p.Admit()
		require.Equal(t, uint64(2), credits(decodeWire(t, l.Lanes.ctl.buf))["s"], "the two continuations")
		l.finish(t)
	})
	t.Run("L10.6 the window grows before the grant is handed to the writer", func(t *testing.T) {
		// A peer that answers each CREDIT at once, from inside the writer, must find room.
		l := newTestLink(withCredit(1))
		p := l.receive()
		in := p.start(t, "s", true)
		answered := make(chan *failure.Failure, 100)
		index := 1
		l.Lanes.out = writerFunc(func(b []byte) (int, error) {
			for _, w := range ofType(decodeWire(t, b), frame.TypeCredit) {
				for range w.uint(frame.KeyCredit) {
					answered <- p.Chunk(chunkFrame("s", index, item(index)), nil)
					index++
				}
			}
			return len(b), nil
		})
		l.run()
		p.chunks(t, "s", item(0))
		for range 50 {
			_, err := in.Next(t.Context())
			require.NoError(t, err)
			require.Nil(t, <-answered)
		}
		l.finish(t)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }
