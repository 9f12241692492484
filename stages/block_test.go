package stages

import (
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestPool(t *testing.T) {
	t.Run("a second Release is ignored, nil and foreign blocks are fine", func(t *testing.T) {
		p := new(Pool)
		b := p.Get(20 << 10)
		b.Release()
		held := p.Held()
		b.Release()
		require.Equal(t, held, p.Held())
		(*Block)(nil).Release()
		(&Block{Buf: make([]byte, 10)}).Release()
		require.Equal(t, held, p.Held())
	})
	t.Run("what is above the largest class is the collector's", func(t *testing.T) {
		p := new(Pool)
		b := p.Get(9 << 20)
		require.Len(t, b.Buf, 9<<20)
		b.Release()
		require.Zero(t, p.Held())
	})
	t.Run("a block whose slice was replaced by another does not go back", func(t *testing.T) {
		p := new(Pool)
		b := p.Get(20 << 10)
		b.Buf = make([]byte, 10)
		b.Release()
		require.Zero(t, p.Held())
	})
	t.Run("a frame around max_chunk fits the class of max_chunk", func(t *testing.T) {
		require.Equal(t, classOf(256<<10), classOf(256<<10+blockSlack))
	})
}

// Any order of gets and releases: no two owners share memory, lengths are right, and what is kept stays under the ceiling.
func TestPoolBehavesLikeAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := new(Pool)
		var out []*Block
		marks := map[*Block]byte{}
		next := byte(0)
		t.Repeat(map[string]func(*rapid.T){
			"get": func(t *rapid.T) {
				n := rapid.SampledFrom([]int{1, 1000, 16 << 10, 17 << 10, 18 << 10, 300 << 10, 1 << 20}).Draw(t, "n")
				b := p.Get(n)
				require.Len(t, b.Buf, n)
				next++
				for i := 0; i < n; i += 4096 {
					b.Buf[i] = next
				}
				marks[b] = next
				out = append(out, b)
			},
			"release": func(t *rapid.T) {
				if len(out) == 0 {
					return
				}
				i := rapid.IntRange(0, len(out)-1).Draw(t, "i")
				b := out[i]
				for k := 0; k < len(b.Buf); k += 4096 {
					if b.Buf[k] != marks[b] {
						t.Fatalf("somebody else has written into byte %d of %d", k, len(b.Buf))
					}
				}
				out = append(out[:i], out[i+1:]...)
				b.Release()
				require.Zero(t, len(b.Buf), "a released block gives nothing more to write into")
			},
			"": func(t *rapid.T) { require.LessOrEqual(t, p.Held(), poolMaxBytes) },
		})
	})
}

func TestSlab(t *testing.T) {
	t.Run("pieces do not overlap, not even when appended to", func(t *testing.T) {
		var s slab
		a := s.keep([]byte("first"))
		b := s.keep([]byte("second"))
		a = append(a, " more"...)
		require.Equal(t, "second", string(b))
		require.Equal(t, "first more", string(a))
	})
	t.Run("a kept piece pins a slab at most", func(t *testing.T) {
		var s slab
		for _, n := range []int{1, 1000, slabSize / 4, slabSize/4 + 1, 3 * slabSize} {
			require.LessOrEqual(t, cap(s.keep(make([]byte, n))), max(n+n/4+64, 64), "%d bytes", n)
		}
		require.NotNil(t, s.keep(nil), "an empty payload is not an absent one")
	})
}
