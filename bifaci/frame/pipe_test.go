package frame_test

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Every valid vector in one stream, cut in every way a pipe can cut it.
func TestReaderDoesNotCareWhereReadsSplit(t *testing.T) {
	all := validVectors(t)
	var stream []byte
	for _, v := range all {
		stream = append(stream, v.wire(t)...)
	}
	for _, c := range []struct {
		name string
		cut  func(io.Reader) io.Reader
	}{
		{"whole", func(r io.Reader) io.Reader { return r }},
		{"one byte at a time", iotest.OneByteReader},
		{"halves", iotest.HalfReader},
		{"data together with the end", iotest.DataErrReader},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := frame.NewReader(c.cut(bytes.NewReader(stream)))
			for _, v := range all {
				f, err := r.Read()
				require.NoError(t, err, v.Name)
				sameFrame(t, build(t, v.Decoded), f)
			}
			for range 2 {
				_, err := r.Read()
				require.Equal(t, io.EOF, err, "a clean end, again and again")
			}
		})
	}
}

// an end inside a frame, at every place, is not clean.
func TestR_2_31_TruncatedAnywhere(t *testing.T) {
	t.Run("R-2.31 truncated anywhere", func(t *testing.T) {
		wire := frame.Append(nil, chunk(20))
		for n := 1; n < len(wire); n++ {
			_, err := frame.NewReader(iotest.OneByteReader(bytes.NewReader(wire[:n]))).Read()
			want := "truncated-body"
			if n < frame.PrefixSize {
				want = "truncated-prefix"
			}
			require.Equal(t, want, frame.TokenOf(err), "after %d bytes", n)
			require.ErrorIs(t, err, io.ErrUnexpectedEOF)
		}
	})
}

func TestReaderNeverReadsBeyondItsFrame(t *testing.T) {
	in := bytes.NewReader(append(frame.Append(nil, chunk(100_000)), "rest"...))
	_, err := frame.NewReader(in).Read()
	require.NoError(t, err)
	assert.Equal(t, 4, in.Len())
}

func TestReaderErrorsStay(t *testing.T) {
	good := frame.Append(nil, chunk(1))
	r := frame.NewReader(bytes.NewReader(slices.Concat([]byte{0, 0, 0, 0}, good)))
	_, first := r.Read()
	require.Equal(t, "empty-frame", frame.TokenOf(first))
	_, second := r.Read()
	assert.Equal(t, first, second)

	broken := errors.New("device is gone")
	for n := range len(good) {
		_, err := frame.NewReader(io.MultiReader(bytes.NewReader(good[:n]), iotest.ErrReader(broken))).Read()
		assert.ErrorIs(t, err, broken, "after %d bytes", n)
	}
}

func TestReaderLimits(t *testing.T) {
	big := frame.Append(nil, chunk(4_000_000))
	_, err := frame.NewReader(bytes.NewReader(big)).Read()
	require.Equal(t, "frame-too-large", frame.TokenOf(err), "the default limit holds before the handshake")
	r := frame.NewReader(bytes.NewReader(big))
	r.SetLimits(frame.Limits{MaxFrame: 5_000_000})
	f, err := r.Read()
	require.NoError(t, err)
	assert.Len(t, f.Payload, 4_000_000)
	r = frame.NewReader(bytes.NewReader(big))
	r.SetLimits(frame.Limits{MaxFrame: uint64(len(big) - frame.PrefixSize)})
	_, err = r.Read()
	assert.NoError(t, err, "equality is allowed")
	r = frame.NewReader(bytes.NewReader(big))
	r.SetLimits(frame.Limits{MaxFrame: uint64(len(big) - frame.PrefixSize - 1)})
	_, err = r.Read()
	assert.Equal(t, "frame-too-large", frame.TokenOf(err))
}

// F13: a few bytes that promise gigabytes, and then silence. What is refused is refused at once and nothing large is
// allocated; what may be true waits without allocating.
func TestF13_HostilePrefixes(t *testing.T) {
	for _, c := range []struct{ name, bytes, token string }{
		{"zero", "00000000", "empty-frame"},
		{"limit and one", "00380001", "frame-too-large"},
		{"7fffffff", "7fffffff", "frame-too-large"},
		{"ffffffff", "ffffffff", "frame-too-large"},
	} {
		t.Run(c.name, func(t *testing.T) {
			silent, hold := io.Pipe()
			defer hold.Close()
			r := frame.NewReader(io.MultiReader(bytes.NewReader(unhex(t, c.bytes)), silent))
			var err error
			allocated := bytesAllocated(func() { _, err = r.Read() })
			assert.Equal(t, c.token, frame.TokenOf(err))
			assert.Less(t, allocated, uint64(1<<20))
		})
	}
	t.Run("the largest legal promise", func(t *testing.T) {
		var err error
		allocated := bytesAllocated(func() {
			_, err = frame.NewReader(bytes.NewReader(unhex(t, "00380000a4"))).Read()
		})
		assert.Equal(t, "truncated-body", frame.TokenOf(err))
		assert.Less(t, allocated, uint64(1<<20))
	})
}

// F13 as well: a body whose CBOR promises what is not there.
func TestF13_HostileBodies(t *testing.T) {
	const base = "0006 0107 0205 0300"
	deep := "a5" + base + "05 a1 61 6b" + string(bytes.Repeat([]byte("81"), 40)) + "01"
	tags := "a5" + base + "05 a1 61 6b" + string(bytes.Repeat([]byte("c1"), 100_000)) + "01"
	for _, c := range []struct{ name, body, token string }{
		{"array of 2^63", "a5" + base + "05 a1 61 6b 9b 8000000000000000", "bad-cbor"},
		{"payload of 4 GiB", "a5" + base + "06 5b 0000000100000000 00", "bad-cbor"},
		{"map of 2^64-1", "bb ffffffffffffffff", "bad-cbor"},
		{"nested arrays", deep, "too-deep"},
		{"a hundred thousand tags", tags, "too-deep"},
		{"duplicate key", "a2 00 06 00 07", "duplicate-key"},
		{"NaN as key", "a5" + base + "f9 7e00 00", "bad-key"},
		{"array as key", "a5" + base + "80 00", "bad-key"},
		{"a tag", "c1 a4" + base, "not-a-map"},
		{"negative index", "a8 0006 0103 0205 0300 0640 0e20 1000 0b6161", "wrong-type"},
		{"a byte too many", "a4" + base + "00", "trailing-bytes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			body := unhex(t, c.body)
			var (
				err error
				f   frame.Frame
			)
			allocated := bytesAllocated(func() { err = frame.Decode(body, &f) })
			assert.Equal(t, c.token, frame.TokenOf(err))
			assert.Less(t, allocated, uint64(1<<20))
		})
	}
}

// Maps made to be slow for a duplicate search by comparison: hundreds of thousands of keys, out of order.
func TestHostileMapsCostLittle(t *testing.T) {
	const n = 300_000
	body := unhex(t, "a5 0006 0107 0205 0300 05 a1 61 6b ba 000493e0")
	for i := range n {
		k := uint32(n - i)
		body = append(body, 0x1a, byte(k>>24), byte(k>>16), byte(k>>8), byte(k), 0)
	}
	done := make(chan error, 1)
	go func() {
		var f frame.Frame
		done <- frame.Decode(body, &f)
	}()
	select {
	case err := <-done:
		assert.NoError(t, err)
	case <-time.After(time.Minute): // by comparing each with all before it, it takes minutes
		t.Fatal("the duplicate search does not end")
	}
	body[len(body)-2] = byte(n & 0xff) // the last key becomes the first
	body[len(body)-3], body[len(body)-4] = byte(n>>8&0xff), byte(n>>16)
	var f frame.Frame
	assert.Equal(t, "duplicate-key", frame.TokenOf(frame.Decode(body, &f)))
}

// bytesAllocated is what the heap hands out while f runs.
func bytesAllocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

func TestWriterWritesWholeFrames(t *testing.T) {
	var out bytes.Buffer
	w := frame.NewWriter(&out)
	var want []byte
	for _, v := range validVectors(t) {
		f := build(t, v.Decoded)
		require.NoError(t, w.Write(f))
		want = frame.Append(want, f)
	}
	assert.Zero(t, out.Len(), "small frames wait for Flush")
	require.NoError(t, w.Flush())
	assert.Equal(t, want, out.Bytes())
	require.NoError(t, w.Flush())
	assert.Equal(t, len(want), out.Len())

	require.NoError(t, w.Write(chunk(100_000)))
	assert.Greater(t, out.Len(), len(want)+100_000, "large ones do not")
}

// a frame that is too large is an error to its sender only.
func TestWriterRefusesLargeFrames(t *testing.T) {
	t.Run("R-6.92 too large is not written and the writer goes on", func(t *testing.T) {
		var out bytes.Buffer
		w := frame.NewWriter(&out)
		small := chunk(10)
		size := uint64(frame.BodySize(small, 10))
		w.SetLimits(frame.Limits{MaxFrame: size})
		err := w.Write(chunk(11))
		require.Equal(t, "frame-too-large", frame.TokenOf(err))
		assert.Contains(t, err.Error(), "chunk frame of")
		require.NoError(t, w.Write(small))
		require.NoError(t, w.Flush())
		assert.Equal(t, frame.Append(nil, small), out.Bytes())
	})
	w := frame.NewWriter(io.Discard)
	w.SetLimits(frame.Limits{MaxFrame: 1 << 40})
	assert.Equal(t, "frame-too-large", frame.TokenOf(w.Write(chunk(16<<20))), "16 MiB hold whatever was negotiated")
}

func TestWriterErrorsStay(t *testing.T) {
	r, pipe := io.Pipe()
	require.NoError(t, r.Close())
	w := frame.NewWriter(pipe)
	require.NoError(t, w.Write(chunk(1)))
	assert.ErrorIs(t, w.Flush(), io.ErrClosedPipe)
	assert.ErrorIs(t, w.Write(chunk(1)), io.ErrClosedPipe)
	assert.ErrorIs(t, w.Flush(), io.ErrClosedPipe)
}
