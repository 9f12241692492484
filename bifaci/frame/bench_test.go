package frame_test

import (
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

func BenchmarkDecodeVector(b *testing.B) {
	for _, v := range vectors(b) {
		switch v.Name {
		case "credit-request", "log-info", "heartbeat-probe", "stream-start-scalar":
			body := v.wire(b)[frame.PrefixSize:]
			b.Run(v.Name, func(b *testing.B) {
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
}

// chunk is a CHUNK as a runtime sends it, with a payload of n bytes.
func chunk(n int) *frame.Frame {
	f := &frame.Frame{Type: frame.TypeChunk, ID: frame.NewUUID(), Seq: 300, StreamID: []byte("arg0"),
		Payload: make([]byte, n), ChunkIndex: 298, Checksum: 0x89079b86e57ae3b0}
	f.Has = f.Has.With(frame.KeyStreamID).With(frame.KeyPayload).With(frame.KeyChunkIndex).With(frame.KeyChecksum)
	return f.WithRouting(frame.UintID(7))
}
