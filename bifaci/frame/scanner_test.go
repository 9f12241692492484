package frame_test

import (
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// deepMode is an independent decoder that sees the same nesting bound as a Scanner.
var deepMode = func() cbor.DecMode {
	mode, err := cbor.DecOptions{MaxNestedLevels: 256, MaxArrayElements: 1 << 20, MaxMapPairs: 1 << 20, UTF8: cbor.UTF8DecodeInvalid}.DecMode()
	if err != nil {
		panic(err)
	}
	return mode
}()

// scan feeds p in pieces of at most step bytes and returns where items end.
func scan(s *frame.Scanner, p []byte, step int) (ends []int, err error) {
	at := 0
	for at < len(p) {
		n, done, err := s.Feed(p[at:min(len(p), at+step)])
		at += n
		if err != nil {
			return ends, err
		}
		if done {
			ends = append(ends, at)
		}
	}
	return ends, nil
}

func TestScannerFindsEndsWhateverThePieces(t *testing.T) {
	items := []string{"00", "1903e8", "3bffffffffffffffff", "40", "4401020304", "5f 4101 40 420203 ff", "60", "7f 6161 ff", "80", "83 01 82 02 03 a0",
		"9f ff", "9f 01 9f ff a0 ff", "a0", "a2 6161 01 6162 80", "bf ff", "bf 01 02 03 9f ff ff", "c1 1a 00000000", "c1 c2 41 00", "f4", "f6", "f7",
		"f820", "f93c00", "fb3ff0000000000000", "d9d9f7 82 00 00", "a1 bf ff 9f ff", "81 4161", "5800", "9a00000001 00",
		strings.Repeat("81", 255) + "80", strings.Repeat("9f", 256) + strings.Repeat("ff", 256), strings.Repeat("81", 20) + "5f ff"}
	var sequence []byte
	var want []int
	for _, item := range items {
		sequence = append(sequence, unhex(t, item)...)
		want = append(want, len(sequence))
	}
	for _, item := range items {
		var s frame.Scanner
		_, done, err := s.Feed(unhex(t, item))
		require.NoError(t, err)
		assert.True(t, done && !s.InItem(), item)
	}
	for _, step := range []int{1, 2, 3, 5, 7, 64, 1 << 20} {
		var s frame.Scanner
		got, err := scan(&s, sequence, step)
		require.NoError(t, err)
		require.Equal(t, want, got, "pieces of %d bytes", step)
		assert.False(t, s.InItem())
	}
	for i, item := range items { // cut short anywhere, the item is not over
		b := unhex(t, item)
		for n := range b {
			var s frame.Scanner
			ends, err := scan(&s, b[:n], 3)
			require.NoError(t, err)
			require.Empty(t, ends)
			require.Equal(t, n > 0, s.InItem(), "item %d", i)
		}
	}
}

func TestScannerRefusesMalformedItems(t *testing.T) {
	for _, c := range []struct{ item, token string }{
		{"1c", "bad-cbor"}, {"ff", "bad-cbor"}, {"f81f", "bad-cbor"}, {"81ff", "bad-cbor"}, {"a1ff", "bad-cbor"}, {"bf00ff", "bad-cbor"},
		{"5f6161ff", "bad-cbor"}, {"7f4161ff", "bad-cbor"}, {"5f5fffff", "bad-cbor"}, {"7f00ff", "bad-cbor"}, {"c1ff", "bad-cbor"}, {"1f", "bad-cbor"}, {"df00", "bad-cbor"},
		{"bb8000000000000000", "bad-cbor"}, {"9bffffffffffffffff", "bad-cbor"},
		{strings.Repeat("81", 257), "too-deep"}, {strings.Repeat("c1", 257), "too-deep"}, {strings.Repeat("9f", 257), "too-deep"},
	} {
		for _, step := range []int{1, 1000} {
			var s frame.Scanner
			_, err := scan(&s, unhex(t, c.item), step)
			assert.Equal(t, c.token, frame.TokenOf(err), c.item)
			_, _, again := s.Feed([]byte{0})
			assert.Equal(t, err, again, "only Reset helps")
			s.Reset()
			n, done, err := s.Feed([]byte{0, 1})
			assert.Equal(t, []any{1, true, nil}, []any{n, done, err})
		}
	}
}

func TestScannerDoesNotAllocate(t *testing.T) {
	long := append([]byte{0x83, 0x5a, 0, 4, 0, 0}, make([]byte, 256<<10)...)
	long = append(long, 0xa1, 0x01, 0x9f, 0xff, 0x00)
	assert.Zero(t, testing.AllocsPerRun(10, func() {
		var s frame.Scanner
		for at := 0; at < len(long); {
			n, _, err := s.Feed(long[at:min(len(long), at+1000)])
			if err != nil {
				panic(err)
			}
			at += n
		}
		if s.InItem() || frame.WellFormed(long) != nil {
			panic("not at the end")
		}
	}))
}

func TestWellFormed(t *testing.T) {
	for _, c := range []struct{ item, token string }{
		{"00", ""}, {"a2 01 02 01 03", ""}, {"a1 80 00", ""}, {strings.Repeat("81", 255) + "80", ""}, {strings.Repeat("81", 256) + "80", "too-deep"},
		{"", "bad-cbor"}, {"0000", "trailing-bytes"}, {"61ff", "invalid-utf8"}, {"7f 61c3 61a9 ff", "invalid-utf8"}, {"41ff", ""}, {"8200", "bad-cbor"},
		{"9f00", "bad-cbor"}, {"bf00ff", "bad-cbor"}, {"ff", "bad-cbor"}, {"c1", "bad-cbor"},
	} {
		err := frame.WellFormed(unhex(t, c.item))
		assert.Equal(t, c.token, frame.TokenOf(err), c.item)
		if c.token == "too-deep" {
			continue
		}
		independent := deepMode.Wellformed(unhex(t, c.item)) // does not look at UTF-8
		assert.Equal(t, c.token == "" || c.token == "invalid-utf8", independent == nil, c.item)
	}
}

func TestInnerBytes(t *testing.T) {
	for _, c := range []struct{ payload, want string }{
		{"40", ""}, {"4568656c6c6f", "68656c6c6f"}, {"58020102", "0102"},
	} {
		inner, ok := frame.InnerBytes(unhex(t, c.payload))
		assert.True(t, ok, c.payload)
		assert.Equal(t, unhex(t, c.want), append([]byte{}, inner...))
	}
	for _, payload := range []string{"", "41", "410000", "6161", "5f4100ff", "c24100", "00", "5b7fffffffffffffff"} {
		_, ok := frame.InnerBytes(unhex(t, payload))
		assert.False(t, ok, payload)
	}
}

// FuzzScanner compares the scanner with an independent decoder that is given the whole sequence.
func FuzzScanner(f *testing.F) {
	for _, v := range vectors(f) {
		if wire := v.wire(f); len(wire) > 4 {
			f.Add(wire[4:], uint8(3))
		}
	}
	f.Add([]byte{0x9f, 0x01, 0xff, 0x00, 0x5f, 0x41, 0x00, 0xff}, uint8(1))
	f.Fuzz(func(t *testing.T, p []byte, step uint8) {
		var s frame.Scanner
		got, err := scan(&s, p, int(step)+1)
		var want []int
		rest := p
		var problem error
		for len(rest) > 0 {
			var raw cbor.RawMessage
			var after []byte
			if after, problem = deepMode.UnmarshalFirst(rest, &raw); problem != nil {
				break
			}
			rest = after
			want = append(want, len(p)-len(rest))
		}
		if len(got) < len(want) || !equalPrefix(got, want) {
			t.Fatalf("input %x: scanner ends %v, library %v (%v, %v)", p, got, want, err, problem)
		}
		if err == nil && problem == nil && s.InItem() {
			t.Fatalf("input %x: scanner still inside an item", p)
		}
		if err != nil && problem == nil { // the library has bounds of its own, so the other way round may happen
			t.Fatalf("input %x: only the scanner refuses: %v", p, err)
		}
		whole := frame.WellFormed(p)
		if whole == nil && (len(got) != 1 || got[0] != len(p)) {
			t.Fatalf("input %x: well formed, but the scanner ends at %v (%v)", p, got, err)
		}
	})
}

func equalPrefix(long, short []int) bool {
	for i := range short {
		if long[i] != short[i] {
			return false
		}
	}
	return true
}
