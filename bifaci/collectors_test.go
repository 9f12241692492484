package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

func TestCollectors(t *testing.T) {
	// collecting serves a handler that collects its first stream with collect and says what it got.
	collecting := func(t *testing.T, collect func(context.Context, *bifaci.InputStream) (string, error)) *cartridgetest.Host {
		return generous(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			input, err := r.TakeInput()
			if err != nil {
				return err
			}
			s, err := input.Next(ctx)
			if err != nil {
				return err
			}
			text, err := collect(ctx, s)
			if err != nil {
				return err
			}
			if err := r.Output().EmitItem(ctx, []byte(text), nil); err != nil {
				return err
			}
			if _, err := input.Next(ctx); !errors.Is(err, io.EOF) { // the end of the body
				return fmt.Errorf("a second stream, or %w", err)
			}
			return nil
		})
	}
	collectBytes := func(ctx context.Context, s *bifaci.InputStream) (string, error) {
		b, err := s.CollectBytes(ctx)
		return string(b), err
	}
	collectItems := func(ctx context.Context, s *bifaci.InputStream) (string, error) {
		items, err := s.CollectItems(ctx)
		text := ""
		for _, it := range items {
			text += fmt.Sprintf("%q %v;", it.Bytes, it.Meta["m"])
		}
		return text, err
	}
	collectValue := func(ctx context.Context, s *bifaci.InputStream) (string, error) {
		v, err := s.CollectValue(ctx)
		return fmt.Sprintf("%T %v", v, v), err
	}
	t.Run("R-6.23 CollectBytes: raw bytes of byte strings and texts, the encoding of everything else", func(t *testing.T) {
		h := collecting(t, collectBytes)
		for _, opts := range [][]cartridgetest.StreamOption{nil, {cartridgetest.Sequence}} {
			req := h.Request(workCap)
			s := req.Stream("body", textMedia, opts...)
			s.Chunk("raw ").Item("text ", nil).Item(uint64(300), nil).Item(nil, nil).Item([]any{"a"}, nil).Chunk("")
			req.End()
			req.WantItems("raw text \x19\x01\x2c\xf6\x81\x61a")
			req.WantEnd()
		}
	})
	t.Run("R-6.23 CollectItems: one pair per item", func(t *testing.T) {
		h := collecting(t, collectItems)
		req := h.Request(workCap)
		s := req.Stream("body", textMedia, cartridgetest.Sequence)
		s.Item([]byte("a"), map[string]any{"m": 1}).Item("b", nil).Item(false, map[string]any{"m": "x"})
		req.End()
		req.WantItems(`"a" 1;"b" <nil>;"\xf4" x;`)
		req.WantEnd()
	})
	for want, v := range map[string]any{
		"[]uint8 [97 98]": []byte("ab"), "string ab": "ab", "int64 -5": -5, "float64 0.5": 0.5, "bool true": true, "<nil> <nil>": nil,
		"[]interface {} [a b]": []string{"a", "b"}, "map[string]interface {} map[k:v]": map[string]string{"k": "v"},
	} {
		t.Run("R-6.23 CollectValue gives "+want, func(t *testing.T) {
			h := collecting(t, collectValue)
			req := h.Request(workCap)
			s := req.Stream("body", textMedia)
			s.Item(v, nil)
			for range 100 { // the remainder is discarded and credited
				s.Chunk("rest")
			}
			req.End()
			req.WantItems(want)
			req.WantEnd()
		})
	}
	t.Run("R-6.23 an empty stream", func(t *testing.T) {
		for _, collect := range []func(context.Context, *bifaci.InputStream) (string, error){collectBytes, collectItems} {
			h := collecting(t, collect)
			req := h.Request(workCap)
			req.Stream("body", textMedia)
			req.End()
			req.WantItems("")
			req.WantEnd()
		}
		h := collecting(t, func(ctx context.Context, s *bifaci.InputStream) (string, error) {
			_, err := s.CollectValue(ctx)
			return fmt.Sprint(errors.Is(err, bifaci.ErrStreamEmpty)), nil
		})
		req := h.Request(workCap)
		req.Stream("body", textMedia)
		req.End()
		req.WantItems("true")
		req.WantEnd()
	})
	for name, collect := range map[string]func(context.Context, *bifaci.InputStream) (string, error){
		"CollectBytes": collectBytes, "CollectItems": collectItems, "CollectValue": collectValue,
	} {
		virtual(t, "R-6.24 L16 "+name+" refuses an unbounded stream before it reads anything", func(t *testing.T) {
			errs := make(chan error, 1)
			h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
				s, err := firstStream(ctx, r)
				if err != nil {
					return err
				}
				_, err = collect(ctx, s)
				errs <- err
				for it, err := range s.Items(ctx) { // nothing of it is lost
					if err != nil {
						return err
					}
					if err := say(ctx, r, string(it.Bytes)); err != nil {
						return err
					}
				}
				return nil
			})
			req := h.Request(workCap)
			req.Stream("live", textMedia, cartridgetest.Unbounded).Chunk("still there")
			err := <-errs
			assert.ErrorIs(t, err, bifaci.ErrUnbounded)
			assert.ErrorContains(t, err, name)
			req.WantItems("still there")
			req.End().WantEnd()
		})
	}
	virtual(t, "R-6.23 an error in the middle gives no half of a value", func(t *testing.T) {
		for name, collect := range map[string]func(context.Context, *bifaci.InputStream) (string, error){"CollectBytes": collectBytes, "CollectItems": collectItems} {
			h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
				s, err := firstStream(ctx, r)
				if err != nil {
					return err
				}
				text, err := collect(ctx, s)
				if err == nil || text != "" {
					return fmt.Errorf("%s gave %q, %v", name, text, err)
				}
				return err
			})
			h.Request(workCap).Chunk("one half").Fail("UPSTREAM", failure.Input, "the other half is missing").WantErr("UPSTREAM", failure.Input)
		}
		synctest.Wait()
	})
}
