package frame_test

import (
	"hash/fnv"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// The table of spec/wire.md 8.1.
func TestChecksumOfTheSpecification(t *testing.T) {
	assert.Equal(t, uint64(0xcbf29ce484222325), frame.Checksum(nil))
	assert.Equal(t, uint64(0xaf63dc4c8601ec8c), frame.Checksum([]byte("a")))
	assert.Equal(t, uint64(0x85944171f73967e8), frame.Checksum([]byte("foobar")))
	assert.Equal(t, uint64(0x89079b86e57ae3b0), frame.Checksum([]byte("\x47\x66\x62\x69\x66\x61\x63\x69")))
}

func TestChecksumOfEveryChunkVector(t *testing.T) {
	seen := 0
	for _, v := range validVectors(t) {
		f := build(t, v.Decoded)
		if f.Type != frame.TypeChunk {
			continue
		}
		seen++
		assert.Equal(t, f.Checksum, frame.Checksum(f.Payload), v.Name)
		assert.NoError(t, f.CheckSum(), v.Name)
	}
	assert.Greater(t, seen, 15)
}

// Four at once give what the standard library gives for each, whatever their lengths.
func TestChecksum4AgreesWithTheStandardLibrary(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var p [4][]byte
		var want, got [4]uint64
		for i := range p {
			// Lengths that are equal, empty or anything.
			n := rapid.OneOf(rapid.Just(0), rapid.Just(17), rapid.IntRange(0, 100)).Draw(t, "length")
			p[i] = rapid.SliceOfN(rapid.Byte(), n, n).Draw(t, "bytes")
			h := fnv.New64a()
			_, _ = h.Write(p[i])
			want[i] = h.Sum64()
			assert.Equal(t, want[i], frame.Checksum(p[i]))
		}
		in := p
		got = [4]uint64{1, 2, 3, 4} // what was there before does not matter
		frame.Checksum4(&p, &got)
		assert.Equal(t, want, got)
		assert.Equal(t, in, p, "the payloads stay as they were")
	})
}

func TestChecksumsDoNotAllocate(t *testing.T) {
	four, sums := [4][]byte{make([]byte, 100), make([]byte, 70), nil, make([]byte, 100)}, [4]uint64{}
	assert.Zero(t, testing.AllocsPerRun(100, func() {
		sums[0] = frame.Checksum(four[0])
		frame.Checksum4(&four, &sums)
	}))
}
