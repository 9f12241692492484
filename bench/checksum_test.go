package bench

import (
	"fmt"
	"hash/fnv"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

func BenchmarkChecksum(b *testing.B) {
	for _, size := range []int{64, 4 << 10, 256 << 10} {
		p := make([]byte, size)
		b.Run(fmt.Sprintf("hash-fnv/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			h := fnv.New64a()
			for b.Loop() {
				h.Reset()
				_, _ = h.Write(p)
				_ = h.Sum64()
			}
		})
		b.Run(fmt.Sprintf("serial/%d", size), func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(size))
			var sum uint64
			for b.Loop() {
				sum ^= frame.Checksum(p)
			}
		})
		b.Run(fmt.Sprintf("four/%d", size), func(b *testing.B) {
			four, sums := [4][]byte{p, p, p, p}, [4]uint64{}
			b.ReportAllocs()
			b.SetBytes(int64(4 * size))
			for b.Loop() {
				frame.Checksum4(&four, &sums)
			}
		})
	}
}
