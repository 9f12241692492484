package wire

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"io"
	"math/bits"
	"math/rand"
	"testing"
	"testing/iotest"

	"github.com/fxamacker/cbor/v2"
)

func sample(r *rand.Rand) Frame {
	f := Frame{Version: 6, Type: uint64(r.Intn(16)), Has: r.Uint32() & (1<<numKeys - 1)}
	f.Has |= always
	num := func() uint64 { return r.Uint64() >> uint(r.Intn(64)) }
	text := func() []byte {
		b := make([]byte, r.Intn(300))
		for i := range b {
			b[i] = byte('a' + r.Intn(26))
		}
		return b
	}
	id := func() ID {
		if r.Intn(2) == 0 {
			return IntID(num())
		}
		var id ID
		r.Read(id.UUID[:])
		return id
	}
	f.ID = id()
	for k := uint(KSeq); k < numKeys; k++ {
		if !f.HasKey(k) {
			continue
		}
		switch k {
		case KSeq:
			f.Seq = num()
		case KContentType:
			f.ContentType = text()
		case KMeta:
			f.Meta, _ = cbor.Marshal(map[string]any{"a": num(), "b": string(text()), "c": []any{1.5, nil, map[string]int{"d": -4}}})
		case KPayload:
			f.Payload = make([]byte, r.Intn(70_000)>>r.Intn(12))
			r.Read(f.Payload)
		case KLen:
			f.Len = num()
		case KOffset:
			f.Offset = num()
		case KEOF:
			f.EOF = r.Intn(2) == 0
		case KCap:
			f.Cap = text()
		case KStreamID:
			f.StreamID = text()
		case KMediaURN:
			f.MediaURN = text()
		case KXID:
			f.XID = id()
		case KChunkIndex:
			f.ChunkIndex = num()
		case KChunkCount:
			f.ChunkCount = num()
		case KChecksum:
			f.Checksum = num()
		case KIsSequence:
			f.IsSequence = r.Intn(2) == 0
		case KForceKill:
			f.ForceKill = r.Intn(2) == 0
		case KCredit:
			f.Credit = num()
		case KUnbounded:
			f.Unbounded = r.Intn(2) == 0
		}
	}
	return f
}

func TestRoundTrip(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	for i := 0; i < 100; i++ {
		f := sample(r)
		b := f.Append(nil)
		if int(binary.BigEndian.Uint32(b)) != len(b)-4 {
			t.Fatal("length prefix")
		}
		var m map[uint64]any
		if err := cbor.Unmarshal(b[4:], &m); err != nil {
			t.Fatal(err)
		}
		if uint64(len(m)) != uint64(bits.OnesCount32(f.Has)) {
			t.Fatalf("%d keys, want %d", len(m), uint64(bits.OnesCount32(f.Has)))
		}
		var g Frame
		if err := Decode(b[4:], &g); err != nil {
			t.Fatal(err)
		}
		if g.Has != f.Has || !bytes.Equal(g.Append(nil), b) {
			t.Fatalf("round trip differs: %+v", f)
		}
		// The same map as another encoder writes it.
		other, err := cbor.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		if err := Decode(other, &g); err != nil {
			t.Fatal(err)
		}
		if f.HasKey(KPayload) && !bytes.Equal(g.Payload, f.Payload) {
			t.Fatal("payload differs")
		}
		for n := 0; n < len(b)-4; n += 1 + len(b)/15 {
			if Decode(b[4:4+n], &g) == nil {
				t.Fatalf("truncation to %d of %d accepted", n, len(b)-4)
			}
		}
	}
}

func TestDecodeGarbage(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	var g Frame
	for i := 0; i < 1000; i++ {
		f := sample(r)
		f.Has &^= 1 << KPayload
		b := f.Append(nil)[4:]
		for k := r.Intn(6); k >= 0; k-- {
			b[r.Intn(len(b))] = byte(r.Intn(256))
		}
		Decode(b, &g) // must not panic
		SkipItem(b)
	}
}

func TestSlabMatchesAppend(t *testing.T) {
	p := make([]byte, 5000)
	rand.New(rand.NewSource(3)).Read(p)
	s := NewSlab(p)
	for i := uint64(0); i < 100_000; i += 7777 {
		f := Frame{Version: 6, Type: Chunk, ID: IntID(i), XID: IntID(i * i), Has: 1<<KSeq | 1<<KXID | 1<<KStreamID | 1<<KChunkIndex,
			Seq: i, ChunkIndex: i, StreamID: []byte("stream")}
		got := s.Build(&f)
		if want := f.with(p).Append(nil); !bytes.Equal(got, want) {
			t.Fatalf("slab frame differs at %d", i)
		}
		front, tail := f.with(p).Around(nil, nil)
		if !bytes.Equal(append(append(front, p...), tail...), got) {
			t.Fatalf("Around differs at %d", i)
		}
	}
}

func (f Frame) with(p []byte) *Frame { f.Payload = p; return &f }

func TestChecksum(t *testing.T) {
	p := []byte("the quick brown fox")
	h := fnv.New64a()
	h.Write(p)
	if h.Sum64() != Checksum(p) {
		t.Fatal("checksum differs from hash/fnv")
	}
}

func TestChecksum4(t *testing.T) {
	r := rand.New(rand.NewSource(5))
	for i := 0; i < 200; i++ {
		var p [4][]byte
		for k := range p {
			p[k] = make([]byte, r.Intn(300))
			r.Read(p[k])
		}
		for k, sum := range Checksum4(&p) {
			if sum != Checksum(p[k]) {
				t.Fatal("interleaved checksum differs")
			}
		}
	}
}

func TestReader(t *testing.T) {
	r := rand.New(rand.NewSource(4))
	var all []byte
	var want []uint64
	for i := 0; i < 200; i++ {
		f := sample(r)
		want = append(want, f.Type)
		all = f.Append(all)
	}
	for _, src := range []io.Reader{bytes.NewReader(all), iotest.HalfReader(bytes.NewReader(all)), iotest.DataErrReader(bytes.NewReader(all))} {
		rd := NewReader(src, 4096)
		var g Frame
		for i, typ := range want {
			if err := rd.Next(&g); err != nil || g.Type != typ {
				t.Fatalf("frame %d: type %d, %v; want %d", i, g.Type, err, typ)
			}
		}
		if err := rd.Next(&g); err != io.EOF {
			t.Fatalf("at the end: %v", err)
		}
	}
	if err := NewReader(bytes.NewReader(all[:9]), 64).Next(new(Frame)); err != io.ErrUnexpectedEOF {
		t.Fatalf("truncated: %v", err)
	}
}

func TestItems(t *testing.T) {
	var seq []byte
	for i := 0; i < 10; i++ {
		b, _ := cbor.Marshal(map[string]any{"i": i, "v": bytes.Repeat([]byte{1}, i*40)})
		if n, err := SkipItem(b); err != nil || n != len(b) {
			t.Fatal(n, err)
		}
		for k := range b {
			if _, err := SkipItem(b[:k]); !IsShort(err) {
				t.Fatalf("prefix of %d bytes: %v", k, err)
			}
		}
		seq = append(seq, b...)
	}
	n := 0
	for len(seq) > 0 {
		k, err := SkipItem(seq)
		if err != nil {
			t.Fatal(err)
		}
		seq = seq[k:]
		n++
	}
	if n != 10 {
		t.Fatal(n)
	}
}

func sizeName(n int) string {
	if n == 64 {
		return "64B"
	}
	return "256KiB"
}

func sampleChunk(size int) Frame {
	return Frame{Version: 6, Type: Chunk, XID: IntID(7), Has: 1<<KSeq | 1<<KXID | 1<<KStreamID | 1<<KChunkIndex | 1<<KPayload | 1<<KChecksum,
		Seq: 1000, ChunkIndex: 998, StreamID: []byte("stream"), Payload: make([]byte, size), Checksum: 1 << 60}
}

func BenchmarkDecodeChunk(b *testing.B) {
	for _, size := range []int{64, 262144} {
		b.Run(sizeName(size), func(b *testing.B) {
			f := sampleChunk(size)
			enc := f.Append(nil)
			var g Frame
			b.ReportAllocs()
			for b.Loop() {
				if err := Decode(enc[4:], &g); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppendChunk(b *testing.B) {
	for _, size := range []int{64, 262144} {
		b.Run(sizeName(size), func(b *testing.B) {
			f := sampleChunk(size)
			var buf []byte
			b.ReportAllocs()
			for b.Loop() {
				buf = f.Append(buf[:0])
			}
		})
	}
}
