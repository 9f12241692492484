package bifaci_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
)

const keptItems = 5000

// keptItem is the content of item i: mostly small, sometimes too large for the read buffer to be aliased, sometimes large
// enough for a block.
func keptItem(i int) []byte {
	size := 16 + i%200
	switch {
	case i%97 == 0:
		size = 20 << 10
	case i%31 == 0:
		size = 5000
	}
	b := make([]byte, size)
	for at := 0; at+8 <= size; at += 8 {
		binary.LittleEndian.PutUint64(b[at:], uint64(i)<<32|uint64(at))
	}
	return b
}

// compare fails at the first item that is not what was sent.
func compare(items [][]byte) error {
	if len(items) != keptItems {
		return fmt.Errorf("%d items, want %d", len(items), keptItems)
	}
	for i, got := range items {
		if !bytes.Equal(got, keptItem(i)) {
			return fmt.Errorf("item %d is not what was sent: %d bytes %.32x", i, len(got), got)
		}
	}
	return nil
}

// TestKeptItemsStayIntact is field case F3: the buffer must not come back under the handler's feet.
func TestKeptItemsStayIntact(t *testing.T) {
	ways := map[string]func(context.Context, *bifaci.Request, *bifaci.InputStream) error{
		"Items": func(ctx context.Context, _ *bifaci.Request, s *bifaci.InputStream) error {
			var kept [][]byte
			for it, err := range s.Items(ctx) {
				if err != nil {
					return err
				}
				kept = append(kept, it.Bytes)
			}
			return compare(kept)
		},
		"Next and Value": func(ctx context.Context, _ *bifaci.Request, s *bifaci.InputStream) error {
			var kept [][]byte
			for range keptItems {
				it, err := s.Next(ctx)
				if err != nil {
					return err
				}
				v, err := it.Value()
				if err != nil {
					return err
				}
				kept = append(kept, v.([]byte))
			}
			return compare(kept)
		},
		"Release of every second": func(ctx context.Context, _ *bifaci.Request, s *bifaci.InputStream) error {
			var kept [][]byte
			for it, err := range s.Items(ctx) {
				switch {
				case err != nil:
					return err
				case len(kept)%2 == 1:
					kept = append(kept, bytes.Clone(it.Bytes))
					it.Release()
				default:
					kept = append(kept, it.Bytes)
				}
			}
			return compare(kept)
		},
		"CollectItems": func(ctx context.Context, _ *bifaci.Request, s *bifaci.InputStream) error {
			var kept [][]byte
			items, err := s.CollectItems(ctx)
			for _, it := range items {
				kept = append(kept, it.Bytes)
			}
			if err != nil {
				return err
			}
			return compare(kept)
		},
		"CollectBytes": func(ctx context.Context, _ *bifaci.Request, s *bifaci.InputStream) error {
			b, err := s.CollectBytes(ctx)
			if err != nil {
				return err
			}
			return compare(cutUp(b))
		},
		"Reader": func(ctx context.Context, _ *bifaci.Request, s *bifaci.InputStream) error {
			b, err := io.ReadAll(s.Reader(ctx))
			if err != nil {
				return err
			}
			return compare(cutUp(b))
		},
	}
	for name, way := range ways {
		for kind, opts := range map[string][]cartridgetest.StreamOption{"scalar": nil, "sequence": {cartridgetest.Sequence}} {
			t.Run(fmt.Sprintf("F3 R-6.21 %s of a %s", name, kind), func(t *testing.T) {
				h := generous(t, 32, func(ctx context.Context, r *bifaci.Request) error {
					s, err := firstStream(ctx, r)
					if err != nil {
						return err
					}
					return way(ctx, r, s)
				})
				req := h.Request(workCap)
				s := req.Stream("body", textMedia, opts...)
				for i := range keptItems {
					s.Chunk(string(keptItem(i)))
				}
				req.End().WantEnd()
			})
		}
	}
	t.Run("F3 pieces that are kept and forwarded at the end", func(t *testing.T) {
		h := generous(t, 32, func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			var kept []bifaci.Piece
			for p, err := range s.Pieces(ctx) {
				if err != nil {
					return err
				}
				kept = append(kept, p)
			}
			for _, p := range kept {
				if err := r.Output().Forward(ctx, p); err != nil {
					return err
				}
			}
			return nil
		})
		req := h.Request(workCap)
		var want bytes.Buffer
		for i := range keptItems {
			want.Write(keptItem(i))
			req.Chunk(string(keptItem(i)))
		}
		req.End()
		require.Equal(t, want.String(), req.Collect())
		req.WantEnd()
	})
}

// cutUp cuts joined items apart.
func cutUp(b []byte) (items [][]byte) {
	for i := 0; len(b) > 0 && i < keptItems; i++ {
		n := min(len(keptItem(i)), len(b))
		items = append(items, b[:n])
		b = b[n:]
	}
	if len(b) > 0 {
		items = append(items, b)
	}
	return items
}
