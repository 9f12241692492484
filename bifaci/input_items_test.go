package bifaci_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// encoded is v in CBOR, from a library of general use.
func encoded(t testing.TB, v any) []byte {
	t.Helper()
	b, err := cbor.Marshal(v)
	require.NoError(t, err)
	return b
}

// sequenceChunk is a CHUNK with any payload, for sequences that a conforming sender would cut otherwise.
func sequenceChunk(index uint64, payload []byte, meta map[string]any) cartridgetest.Frame {
	f := cartridgetest.ChunkFrame("body", index, payload)
	if meta != nil {
		f = f.With(frame.KeyMeta, meta)
	}
	return f
}

// describing answers with one text per item of its first stream: its value and its meta.
func describing(ctx context.Context, r *bifaci.Request) error {
	s, err := firstStream(ctx, r)
	if err != nil {
		return err
	}
	for it, err := range s.Items(ctx) {
		if err != nil {
			return err
		}
		v, err := it.Value()
		if err != nil {
			return err
		}
		if b, ok := v.([]byte); ok {
			v = fmt.Sprintf("%q", b)
		}
		if err := say(ctx, r, fmt.Sprint(v, " ", it.Meta["m"])); err != nil {
			return err
		}
	}
	return nil
}

func TestInputStreamIsDescribed(t *testing.T) {
	virtual(t, "R-6.20 label, meta and kind are known before the first item", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			for s, err := range input.All(ctx) {
				if err != nil {
					return err
				}
				if err := say(ctx, r, fmt.Sprint(s.MediaURN(), " ", s.Meta(), " ", s.IsSequence(), " ", s.IsUnbounded())); err != nil {
					return err
				}
			}
			return nil
		})
		req := h.Request(workCap)
		req.Stream("a", "media:a")
		req.WantItems("media:a map[] false false")
		req.Stream("b", "media:b;x=1", cartridgetest.Sequence, cartridgetest.Meta(map[string]any{"rate": 8000}))
		req.WantItems("media:b;x=1 map[rate:8000] true false")
		req.Stream("c", "any label", cartridgetest.Unbounded)
		req.WantItems("any label map[] false true")
		req.End().WantEnd()
	})
}

func TestInputItems(t *testing.T) {
	t.Run("R-6.21 R-6.22 scalar: one item per CHUNK, in order, whatever it holds", func(t *testing.T) {
		h := worker(t, 16, describing)
		req := h.Request(workCap)
		s := req.Stream("body", textMedia)
		s.Item([]byte("bytes"), map[string]any{"m": "first"})
		s.Item("text", nil)
		s.Item(uint64(7), nil).Item(-7, nil).Item(1.5, nil).Item(true, nil).Item(nil, nil)
		s.Item([]any{1, "two"}, nil)
		s.Item(map[string]any{"k": "v"}, nil)
		s.Item([]byte{}, nil)
		req.End()
		req.WantItems(`"bytes" first`, "text <nil>", "7 <nil>", "-7 <nil>", "1.5 <nil>", "true <nil>", "<nil> <nil>", "[1 two] <nil>",
			"map[k:v] <nil>", `"" <nil>`)
		req.WantEnd()
	})
	t.Run("R-6.22 sequence: one item whatever the number of CHUNKs, meta of its first", func(t *testing.T) {
		h := worker(t, 16, describing)
		req := h.Request(workCap)
		req.Stream("body", textMedia, cartridgetest.Sequence)
		enc := encoded(t, []byte("in three pieces"))
		req.Send(
			sequenceChunk(0, enc[:1], map[string]any{"m": "of the first"}),
			sequenceChunk(1, enc[1:5], map[string]any{"m": "ignored"}),
			sequenceChunk(2, enc[5:], map[string]any{"m": "ignored too"}),
			sequenceChunk(3, encoded(t, "whole"), map[string]any{"m": "own"}),
			sequenceChunk(4, encoded(t, "without"), nil),
		)
		req.End()
		req.WantItems(`"in three pieces" of the first`, "whole own", "without <nil>")
		req.WantEnd()
	})
	t.Run("R-6.22 several items in one CHUNK: its meta belongs to the item that begins it", func(t *testing.T) {
		h := worker(t, 16, describing)
		req := h.Request(workCap)
		req.Stream("body", textMedia, cartridgetest.Sequence)
		one, two, three, four := encoded(t, "one"), encoded(t, "two"), encoded(t, "three"), encoded(t, "four")
		req.Send(
			sequenceChunk(0, bytes.Join([][]byte{one, two, three[:2]}, nil), map[string]any{"m": "one's"}),
			sequenceChunk(1, append(append([]byte(nil), three[2:]...), four...), map[string]any{"m": "nobody's"}),
			sequenceChunk(2, one, map[string]any{"m": "again"}),
		)
		req.End()
		req.WantItems("one one's", "two <nil>", "three <nil>", "four <nil>", "one again")
		req.WantEnd()
	})
	t.Run("R-6.22 an empty CHUNK carries nothing, and no meta either", func(t *testing.T) {
		h := worker(t, 16, describing)
		req := h.Request(workCap)
		req.Stream("body", textMedia, cartridgetest.Sequence)
		enc := encoded(t, "item")
		req.Send(sequenceChunk(0, nil, map[string]any{"m": "nobody's"}).With(frame.KeyPayload, []byte{}),
			sequenceChunk(1, enc[:2], nil), sequenceChunk(2, []byte{}, nil), sequenceChunk(3, enc[2:], nil))
		req.End()
		req.WantItems("item <nil>")
		req.WantEnd()
	})
	t.Run("R-6.21 breaking out of the loop discards nothing", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			for range 3 {
				for it, err := range s.Items(ctx) {
					if err != nil {
						return err
					}
					if err := say(ctx, r, string(it.Bytes)); err != nil {
						return err
					}
					break
				}
			}
			_, err = s.Next(ctx)
			_, again := s.Next(ctx)
			return say(ctx, r, fmt.Sprint(errors.Is(err, io.EOF), errors.Is(again, io.EOF)))
		})
		req := h.Request(workCap).Chunk("a").Chunk("b").Chunk("c").End()
		req.WantItems("a", "b", "c", "true true")
		req.WantEnd()
	})
}

func TestInputStreamErrorsStay(t *testing.T) {
	virtual(t, "R-6.21 R-3.24 what came before a remote ERR is read, then its error, again and again", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			synctest.Wait() // everything has come
			if _, err := s.Next(ctx); err != nil {
				return fmt.Errorf("the item before the ERR: %w", err)
			}
			_, err = s.Next(ctx)
			_, again := s.Next(ctx)
			remote := new(failure.Remote)
			if !errors.As(again, &remote) || again.Error() != err.Error() {
				return fmt.Errorf("first %v, then %v", err, again)
			}
			return err
		})
		req := h.Request(workCap).Chunk("a").Fail("UPSTREAM", failure.Resource, "ran dry")
		got := req.WantErr("UPSTREAM", failure.Resource) // passes on unchanged
		assert.Equal(t, "ran dry", got.Message)
	})
	virtual(t, "R-6.21 R-8.20 after a cancel unread items are dropped and every read fails with it", func(t *testing.T) {
		errs := make(chan error, 2)
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			<-ctx.Done()
			for range cap(errs) {
				_, err := s.Next(context.WithoutCancel(ctx))
				errs <- err
			}
			return nil // not put on the wire
		})
		req := h.Request(workCap).Chunk("unread").Chunk("unread")
		wantStill(t, req)
		req.Cancel(failure.UserCancel())
		for range cap(errs) {
			var cancelled *failure.CancelledError
			require.ErrorAs(t, <-errs, &cancelled)
		}
		req.WantErr("CANCELLED", failure.User)
	})
}

func TestInputStreamClose(t *testing.T) {
	virtual(t, "R-6.25 R-10.24 after Close the sender is never held back", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			if _, err := s.Next(ctx); err != nil {
				return err
			}
			if err := errors.Join(s.Close(), s.Close()); err != nil {
				return err
			}
			if _, err := s.Next(ctx); !errors.Is(err, bifaci.ErrClosed) {
				return fmt.Errorf("a read after Close gave %v", err)
			}
			input, err := r.Input(ctx, "media:next")
			if err == nil {
				return fmt.Errorf("the input was taken, yet Input gave %v", input)
			}
			<-ctx.Done()
			return context.Cause(ctx)
		})
		req := h.Request(workCap)
		s := req.Stream("body", textMedia)
		for range 100 {
			s.Chunk("dropped")
		}
		s.End()
		wantStill(t, req)
		assert.LessOrEqual(t, sum(req.Grants("body")), uint64(100))
		assert.GreaterOrEqual(t, sum(req.Grants("body")), uint64(96))
		req.Cancel(failure.Unattributed()).WantErr("CANCELLED", failure.Internal)
	})
	virtual(t, "R-6.25 R-10.27 an unread stream holds back its own sender and no other", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			if _, err := input.Next(ctx); err != nil {
				return err
			}
			s, err := input.Next(ctx)
			if err != nil {
				return err
			}
			b, err := s.CollectBytes(ctx)
			if err != nil {
				return err
			}
			if err := say(ctx, r, fmt.Sprint(len(b))); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})
		req := h.Request(workCap)
		held, free := req.Stream("held", "media:held"), req.Stream("free", "media:free")
		for range 4 {
			held.Chunk("x")
		}
		for range 100 {
			free.Chunk("x")
		}
		free.End()
		req.WantItems("100")
		wantStill(t, req)
		assert.Empty(t, req.Grants("held"))
		req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
	})
	virtual(t, "R-6.25 R-3.32 what is discarded is still checked", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			if err := s.Close(); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})
		req := h.Request(workCap)
		req.Stream("body", textMedia).Chunk("fine")
		wantStill(t, req)
		req.Send(cartridgetest.ChunkFrame("body", 1, cartridgetest.Bytes("not so")).With(frame.KeyChecksum, uint64(1)))
		req.WantErr("CORRUPTED_DATA", failure.Internal)
	})
}

func TestInputReader(t *testing.T) {
	virtual(t, "R-6.26 bytes as they arrive, on an unbounded stream", func(t *testing.T) {
		h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			reader := s.Reader(ctx)
			buf := make([]byte, 64)
			for {
				n, err := reader.Read(buf)
				if errors.Is(err, io.EOF) {
					return reader.Close()
				}
				if err != nil {
					return err
				}
				if err := say(ctx, r, string(buf[:n])); err != nil {
					return err
				}
			}
		})
		req := h.Request(workCap)
		live := req.Stream("live", textMedia, cartridgetest.Unbounded)
		live.Chunk("a")
		req.WantItems("a")
		live.Chunk("").Chunk("bc") // an empty item is no end
		req.WantItems("bc")
		live.Item("text", nil).Item(uint64(5), nil)
		req.WantItems("text", string(encoded(t, 5)))
		req.End().WantEnd()
	})
	t.Run("R-6.26 R-6.23 the same bytes as CollectBytes, however they are read", func(t *testing.T) {
		h := worker(t, 32, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			for s, err := range input.All(ctx) {
				if err != nil {
					return err
				}
				var got []byte
				switch s.MediaURN() {
				case "media:small-reads":
					got, err = io.ReadAll(io.MultiReader(oneByte{s.Reader(ctx)}))
				case "media:write-to":
					var b bytes.Buffer
					_, err = io.Copy(&b, s.Reader(ctx))
					got = b.Bytes()
				default:
					got, err = s.CollectBytes(ctx)
				}
				if err != nil {
					return err
				}
				if err := r.Output().EmitItem(ctx, got, nil); err != nil {
					return err
				}
			}
			return nil
		})
		req := h.Request(workCap)
		for _, media := range []string{"media:collect", "media:small-reads", "media:write-to"} {
			s := req.Stream(media, media)
			s.Chunk("bytes,").Item("text,", nil).Item([]any{1, nil}, nil).Item(2.5, nil).Chunk("").Chunk("end")
		}
		req.End()
		want := "bytes,text," + string(encoded(t, []any{1, nil})) + "\xf9\x41\x00end" // a half, as it was sent
		req.WantItems(want, want, want)
		req.WantEnd()
	})
	virtual(t, "R-6.26 closing the reader discards the rest", func(t *testing.T) {
		h := worker(t, 2, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			reader := s.Reader(ctx)
			if _, err := reader.Read(make([]byte, 1)); err != nil {
				return err
			}
			if err := reader.Close(); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})
		req := h.Request(workCap)
		s := req.Stream("body", textMedia)
		for range 50 {
			s.Chunk("more than one byte")
		}
		req.Cancel(failure.UserCancel()).WantErr("CANCELLED", failure.User)
	})
}

// oneByte reads one byte at a time.
type oneByte struct{ r io.Reader }

func (o oneByte) Read(p []byte) (int, error) { return o.r.Read(p[:min(1, len(p))]) }

func TestItemTooLarge(t *testing.T) {
	for _, fragments := range []int{1, 3} {
		t.Run(fmt.Sprintf("R-6.29 an item above the bound poisons the request, in %d CHUNKs", fragments), func(t *testing.T) {
			h := generous(t, 32, describing, bifaci.WithMaxItemSize(1000))
			req := h.Request(workCap)
			s := req.Stream("body", textMedia, cartridgetest.Sequence)
			fits := encoded(t, strings.Repeat("x", 997)) // and a head of three bytes
			require.Len(t, fits, 1000)
			s.Item(strings.Repeat("x", 997), nil)
			req.WantItems(strings.Repeat("x", 997) + " <nil>")
			enc := encoded(t, strings.Repeat("y", 998))
			for i := range fragments {
				part := enc[i*len(enc)/fragments : (i+1)*len(enc)/fragments]
				req.Send(sequenceChunk(uint64(i+1), part, nil))
			}
			req.WantErr("ITEM_TOO_LARGE", failure.Resource)
		})
	}
	t.Run("R-6.29 0 means no bound", func(t *testing.T) {
		h := generous(t, 32, describing, bifaci.WithMaxItemSize(0))
		req := h.Request(workCap)
		req.Item(strings.Repeat("z", 5000)).End()
		req.WantItems(strings.Repeat("z", 5000) + " <nil>")
		req.WantEnd()
	})
	t.Run("R-6.29 many items are no large one", func(t *testing.T) {
		h := generous(t, 32, describing, bifaci.WithMaxItemSize(100))
		req := h.Request(workCap)
		for range 50 {
			req.Item("thirty bytes or something like it")
		}
		req.End()
		for range 50 {
			req.WantItems("thirty bytes or something like it <nil>")
		}
		req.WantEnd()
	})
}
