package bench

import (
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// chunk is a CHUNK as a runtime sends it, with a payload of n bytes.
func chunk(n int) *frame.Frame {
	f := &frame.Frame{Type: frame.TypeChunk, ID: frame.NewUUID(), Seq: 300, StreamID: []byte("arg0"),
		Payload: make([]byte, n), ChunkIndex: 298, Checksum: 0x89079b86e57ae3b0}
	f.Has = f.Has.With(frame.KeyStreamID).With(frame.KeyPayload).With(frame.KeyChunkIndex).With(frame.KeyChecksum)
	return f.WithRouting(frame.UintID(7))
}

var payloadSizes = []struct {
	name string
	size int
}{{"64B", 64}, {"256KiB", 256 << 10}}

func BenchmarkAppend(b *testing.B) {
	for _, p := range payloadSizes {
		b.Run("chunk="+p.name, func(b *testing.B) {
			f, buf := chunk(p.size), []byte(nil)
			b.ReportAllocs()
			b.SetBytes(int64(p.size))
			for b.Loop() {
				buf = frame.Append(buf[:0], f)
			}
		})
	}
}

func BenchmarkAppendSplit(b *testing.B) {
	f, buf := chunk(0), []byte(nil)
	b.ReportAllocs()
	for b.Loop() {
		buf, _ = frame.AppendSplit(buf[:0], f, 256<<10)
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, p := range payloadSizes {
		b.Run("chunk="+p.name, func(b *testing.B) {
			body := frame.Append(nil, chunk(p.size))[frame.PrefixSize:]
			var f frame.Frame
			b.ReportAllocs()
			for b.Loop() {
				if err := frame.Decode(body, &f); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
