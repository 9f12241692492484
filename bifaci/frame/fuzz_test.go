package frame_test

import (
	"bytes"
	"errors"
	"io"
	"testing"
	"testing/iotest"

	"github.com/fxamacker/cbor/v2"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// FuzzDecode: what we accept, an independent strict decoder accepts with the same fields; our own encoding of it is
// accepted again and means the same.
func FuzzDecode(f *testing.F) {
	for _, v := range vectors(f) {
		if wire := v.wire(f); len(wire) > frame.PrefixSize {
			f.Add(wire[frame.PrefixSize:])
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var got frame.Frame
		err := frame.Decode(body, &got)
		if err != nil {
			var syntax *frame.SyntaxError
			if !errors.As(err, &syntax) || syntax.Token == "" || syntax.Error() == "" {
				t.Fatalf("body %x: error %v is none of ours", body, err)
			}
			return
		}
		var plain map[uint64]cbor.RawMessage
		if err := strict.Unmarshal(body, &plain); err != nil {
			t.Fatalf("body %x: only the library refuses: %v", body, err)
		}
		for key := frame.KeyContentType; key <= frame.KeyUnbounded; key++ {
			if _, there := plain[uint64(key)]; there != got.Has.Has(key) {
				t.Fatalf("body %x: key %d: library %v, we %v", body, key, there, !there)
			}
		}
		var payload []byte
		if got.Has.Has(frame.KeyPayload) {
			if err := cbor.Unmarshal(plain[uint64(frame.KeyPayload)], &payload); err != nil || !bytes.Equal(payload, got.Payload) {
				t.Fatalf("body %x: payload %x, library %x (%v)", body, got.Payload, payload, err)
			}
		}
		var seq uint64
		if raw, there := plain[uint64(frame.KeySeq)]; there && (cbor.Unmarshal(raw, &seq) != nil || seq != got.Seq) {
			t.Fatalf("body %x: seq %d, library %d", body, got.Seq, seq)
		}
		if got.Has.Has(frame.KeyMeta) {
			if _, err := frame.DecodeMeta(got.Meta); err != nil {
				t.Fatalf("body %x: accepted meta does not decode: %v", body, err)
			}
		}
		judgeEverything(&got)

		wire := frame.Append(nil, &got)
		var again frame.Frame
		if err := frame.Decode(wire[frame.PrefixSize:], &again); err != nil {
			t.Fatalf("body %x: our encoding %x is refused: %v", body, wire, err)
		}
		if second := frame.Append(nil, &again); !bytes.Equal(wire, second) {
			t.Fatalf("body %x: encodings %x and %x differ", body, wire, second)
		}
		if frame.BodySize(&got, len(got.Payload)) != len(wire)-frame.PrefixSize {
			t.Fatalf("body %x: wrong BodySize", body)
		}
	})
}

// judgeEverything calls every accessor; none may panic, whatever the type.
func judgeEverything(f *frame.Frame) {
	_ = f.CheckShape()
	_ = f.CheckSum()
	_, _ = f.LogRecord()
	_, _ = f.Failure()
	_, _ = f.CreditDirection()
	_, _ = f.Hello(frame.RoleCartridge)
	_, _ = f.Hello(frame.RoleHost)
	_, _ = f.Policy()
	_, _ = f.HeartbeatReply()
	_, _, _ = f.DesiredCapacities()
	_, _ = f.EndStatus()
	_ = f.CancelReason()
	_ = f.ParentID()
	_, _ = f.TargetCartridge()
}

// FuzzDecodeMeta: accepted metas survive our own encoder, and the library reads the result.
func FuzzDecodeMeta(f *testing.F) {
	for _, v := range validVectors(f) {
		if m := decoded(f, v).Meta; m != nil {
			f.Add(m)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := frame.DecodeMeta(raw)
		if err != nil {
			return
		}
		encoded, err := frame.AppendMeta(nil, m)
		if err != nil {
			t.Fatalf("meta %x: cannot be encoded: %v", raw, err)
		}
		var independent map[string]cbor.RawMessage
		if err := strict.Unmarshal(encoded, &independent); err != nil || len(independent) != len(m) {
			t.Fatalf("meta %x: encoding %x: library: %v", raw, encoded, err)
		}
		back, err := frame.DecodeMeta(encoded)
		if err != nil {
			t.Fatalf("meta %x: encoding %x: %v", raw, encoded, err)
		}
		second, err := frame.AppendMeta(nil, back)
		if err != nil || !bytes.Equal(encoded, second) {
			t.Fatalf("meta %x: encodings %x and %x differ (%v)", raw, encoded, second, err)
		}
	})
}

// FuzzDecodeValue: what the value decoder accepts is well formed, and it accepts what it encoded.
func FuzzDecodeValue(f *testing.F) {
	for _, v := range validVectors(f) {
		f.Add(v.wire(f)[frame.PrefixSize:])
		if p := decoded(f, v).Payload; p != nil {
			f.Add(p)
		}
	}
	f.Fuzz(func(t *testing.T, p []byte) {
		v, err := frame.DecodeValue(p)
		if err != nil {
			return
		}
		if err := frame.WellFormed(p); err != nil {
			t.Fatalf("%x: decoded, but not well formed: %v", p, err)
		}
		encoded, err := frame.AppendValue(nil, v)
		if err != nil {
			t.Fatalf("%x: cannot be encoded: %v", p, err)
		}
		back, err := frame.DecodeValue(encoded)
		if err != nil {
			t.Fatalf("%x: encoding %x: %v", p, encoded, err)
		}
		second, err := frame.AppendValue(nil, back)
		if err != nil || !bytes.Equal(encoded, second) {
			t.Fatalf("%x: encodings %x and %x differ (%v)", p, encoded, second, err)
		}
	})
}

// FuzzReader: a stream gives the same frames and the same end whether it comes whole or byte by byte, and every frame
// is what Decode makes of its body.
func FuzzReader(f *testing.F) {
	var stream []byte
	for _, v := range vectors(f) {
		f.Add(v.wire(f))
		if v.Decoded != nil && len(stream) < 500 {
			stream = append(stream, v.wire(f)...)
		}
	}
	f.Add(stream)
	f.Fuzz(func(t *testing.T, stream []byte) {
		whole := frame.NewReader(bytes.NewReader(stream))
		single := frame.NewReader(iotest.OneByteReader(bytes.NewReader(stream)))
		at := 0
		for {
			a, errA := whole.Read()
			b, errB := single.Read()
			if frame.TokenOf(errA) != frame.TokenOf(errB) || (errA == io.EOF) != (errB == io.EOF) {
				t.Fatalf("stream %x: whole %v, byte by byte %v", stream, errA, errB)
			}
			if errA == io.EOF && at != len(stream) {
				t.Fatalf("stream %x: clean end at %d of %d", stream, at, len(stream))
			}
			if errA != nil {
				return
			}
			if !bytes.Equal(frame.Append(nil, a), frame.Append(nil, b)) {
				t.Fatalf("stream %x: frames differ", stream)
			}
			size := int(stream[at])<<24 | int(stream[at+1])<<16 | int(stream[at+2])<<8 | int(stream[at+3])
			var direct frame.Frame
			if err := frame.Decode(stream[at+4:at+4+size], &direct); err != nil {
				t.Fatalf("stream %x: read, but not decoded: %v", stream, err)
			}
			at += 4 + size
		}
	})
}
