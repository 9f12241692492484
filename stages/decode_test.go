package stages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// pieces reads in pieces of the given sizes, over and over, and may give the last one together with io.EOF.
type pieces struct {
	rest    []byte
	sizes   []byte
	eofWith bool
	n       int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	size := len(b)
	if len(p.sizes) > 0 {
		size = min(size, int(p.sizes[p.n%len(p.sizes)]))
		p.n++
	}
	n := copy(b[:size], p.rest)
	p.rest = p.rest[n:]
	if p.eofWith && len(p.rest) == 0 {
		return n, io.EOF
	}
	return n, nil
}

// decodeAll reads everything, keeps what it got, and gives the error it ended with.
func decodeAll(d *Decoder) (frames []frame.Frame, err error) {
	for {
		var f frame.Frame
		block, err := d.Next(&f)
		if err != nil {
			return frames, err
		}
		d.Keep(&f, block)
		frames = append(frames, f)
	}
}

// readAll is the same by frame.Reader.
func readAll(b []byte, maxFrame uint64) (frames []frame.Frame, err error) {
	r := frame.NewReader(bytes.NewReader(b))
	r.SetLimits(frame.Limits{MaxFrame: maxFrame})
	for {
		f, err := r.Read()
		if err != nil {
			return frames, err
		}
		k := *f
		for _, p := range []*[]byte{&k.Payload, &k.Meta, &k.StreamID, &k.MediaURN, &k.Cap, &k.ContentType} {
			if *p != nil {
				*p = append([]byte{}, *p...)
			}
		}
		frames = append(frames, k)
	}
}

// requireSameEnd compares two errors of readers: a clean end, an end inside a frame, or a refusal.
func requireSameEnd(t require.TestingT, want, got error) {
	require.Equal(t, want == io.EOF, got == io.EOF, "%v against %v", want, got)
	var a, b *frame.SyntaxError
	require.Equal(t, errors.As(want, &a), errors.As(got, &b), "%v against %v", want, got)
	if a != nil {
		require.Equal(t, a.Token, b.Token)
		require.Equal(t, errors.Is(want, io.ErrUnexpectedEOF), errors.Is(got, io.ErrUnexpectedEOF))
	}
}

// mixture is frames of sizes around all borders of the decoder.
func mixture() (wire []byte, payloads [][]byte) {
	rng := rand.New(rand.NewPCG(1, 2))
	for i, n := range []int{0, 1, 16200, 16300, 16384, 17000, 100, 300_000, 64 << 10, 5, 3 << 20, 70_000, 0, 260_000, 12} {
		p := make([]byte, n)
		for j := range p {
			p[j] = byte(rng.Uint32())
		}
		payloads = append(payloads, p)
		wire = frame.Append(wire, chunkFrame("s", i, p))
	}
	return wire, payloads
}

func TestDecoder(t *testing.T) {
	wire, payloads := mixture()
	check := func(t *testing.T, r io.Reader) {
		pool := new(Pool)
		d := NewDecoder(r, pool, frame.MaxBody)
		for i, want := range payloads {
			var f frame.Frame
			block, err := d.Next(&f)
			require.NoError(t, err)
			require.Equal(t, uint64(i), f.ChunkIndex)
			require.True(t, bytes.Equal(want, f.Payload), "frame %d", i)
			require.Equal(t, len(frame.Append(nil, &f))-frame.PrefixSize > maxAliasedBody, block != nil)
			block.Release()
		}
		_, err := d.Next(new(frame.Frame))
		require.Equal(t, io.EOF, err)
		frames, n := d.Counts()
		require.Equal(t, []uint64{uint64(len(payloads)), uint64(len(wire))}, []uint64{frames, n})
	}
	t.Run("R-2.31 one byte at a time", func(t *testing.T) { check(t, iotest.OneByteReader(bytes.NewReader(wire))) })
	t.Run("half of what is asked for", func(t *testing.T) { check(t, iotest.HalfReader(bytes.NewReader(wire))) })
	t.Run("the end together with the last bytes", func(t *testing.T) { check(t, iotest.DataErrReader(bytes.NewReader(wire))) })
	t.Run("all at once", func(t *testing.T) { check(t, bytes.NewReader(wire)) })
	t.Run("in pieces of any size", func(t *testing.T) { check(t, &pieces{rest: wire, sizes: []byte{255, 1, 0, 17, 200}}) })

	t.Run("R-2.31 an end anywhere but between frames is not clean, and stays", func(t *testing.T) {
		small := frame.Append(nil, chunkFrame("s", 0, []byte("x")))
		large := frame.Append(nil, chunkFrame("s", 0, make([]byte, 20_000)))
		for _, whole := range [][]byte{small, large} {
			for cut := 1; cut < len(whole); cut += 1 + cut/300 {
				pool := new(Pool)
				d := NewDecoder(bytes.NewReader(whole[:cut]), pool, frame.MaxBody)
				_, err := d.Next(new(frame.Frame))
				require.ErrorIs(t, err, io.ErrUnexpectedEOF, "cut at %d", cut)
				_, again := d.Next(new(frame.Frame))
				require.Equal(t, err, again)
			}
		}
	})
	t.Run("an error of the input is passed on, inside a body as well", func(t *testing.T) {
		for _, cut := range []int{2, 10, 16_000, 40_000} {
			large := frame.Append(nil, chunkFrame("s", 0, make([]byte, 60_000)))
			pool := new(Pool)
			d := NewDecoder(io.MultiReader(bytes.NewReader(large[:cut]), iotest.ErrReader(errGone)), pool, frame.MaxBody)
			_, err := d.Next(new(frame.Frame))
			require.ErrorIs(t, err, errGone)
			require.NotErrorIs(t, err, io.ErrUnexpectedEOF)
			if cut > frame.PrefixSize {
				require.NotZero(t, pool.Held(), "the block of the unfinished body, cut at %d", cut)
			}
		}
	})
	t.Run("an input that never gives anything", func(t *testing.T) {
		for _, front := range [][]byte{nil, {0, 0}, frame.Append(nil, chunkFrame("s", 0, make([]byte, 60_000)))[:30_000]} {
			d := NewDecoder(io.MultiReader(bytes.NewReader(front), silent{}), new(Pool), frame.MaxBody)
			_, err := d.Next(new(frame.Frame))
			require.ErrorIs(t, err, io.ErrNoProgress)
		}
	})
	t.Run("F13 a promise costs no more than a class until bytes come", func(t *testing.T) {
		prefix := binary.BigEndian.AppendUint32(nil, frame.MaxBody)
		d := NewDecoder(io.MultiReader(bytes.NewReader(prefix), iotest.ErrReader(errGone)), new(Pool), frame.MaxBody)
		got := testing.AllocsPerRun(1, func() {}) // warm up
		require.Zero(t, got)
		_, err := d.Next(new(frame.Frame))
		require.ErrorIs(t, err, errGone)
		require.LessOrEqual(t, d.pool.Held(), 256<<10+blockSlack)
	})
	t.Run("R-2.32 max_frame holds from the moment it is set", func(t *testing.T) {
		d := NewDecoder(bytes.NewReader(wire), new(Pool), frame.MaxBody)
		_, err := d.Next(new(frame.Frame))
		require.NoError(t, err)
		d.SetMaxFrame(10)
		_, err = d.Next(new(frame.Frame))
		var syntax *frame.SyntaxError
		require.ErrorAs(t, err, &syntax)
	})
	t.Run("a small frame lives in the read buffer until Keep", func(t *testing.T) {
		two := frame.Append(frame.Append(nil, withMeta(chunkFrame("first", 0, []byte("payload")), []byte{0xa0})), chunkFrame("s", 1, bytes.Repeat([]byte("z"), 9000)))
		for range 4 {
			two = append(two, two...)
		}
		d := NewDecoder(bytes.NewReader(two), new(Pool), frame.MaxBody)
		var f frame.Frame
		block, err := d.Next(&f)
		require.NoError(t, err)
		d.Keep(&f, block)
		_, err = decodeAll(d) // the buffer is used for what follows
		require.Equal(t, io.EOF, err)
		require.Equal(t, []string{"first", "payload", "\xa0"}, []string{string(f.StreamID), string(f.Payload), string(f.Meta)})
	})
}

// silent is a broken reader.
type silent struct{}

func (silent) Read([]byte) (int, error) { return 0, nil }

// The decoder of the runtime reads what the plain reader of package frame reads, however the input is cut.
func FuzzDecoder(f *testing.F) {
	for _, b := range vectorFrames(f) {
		f.Add(b, []byte{1}, false)
		f.Add(append(append([]byte(nil), b...), b...), []byte{3, 1, 100}, true)
	}
	large := frame.Append(nil, chunkFrame("s", 0, make([]byte, 20_000)))
	f.Add(large, []byte{255, 7}, true)
	f.Add(large[:19_000], []byte{200}, false)
	f.Add(append(large, large...), []byte{}, false)
	f.Add([]byte{0, 0, 0}, []byte{1}, false)
	f.Fuzz(func(t *testing.T, input, sizes []byte, eofWith bool) {
		for _, size := range sizes {
			if size == 0 {
				return // reads of nothing are the business of another test
			}
		}
		const maxFrame = 1 << 20
		want, wantErr := readAll(input, maxFrame)
		d := NewDecoder(&pieces{rest: input, sizes: sizes, eofWith: eofWith}, new(Pool), maxFrame)
		got, err := decodeAll(d)
		requireSameEnd(t, wantErr, err)
		require.Equal(t, len(want), len(got))
		for i := range want {
			require.Equal(t, want[i], got[i])
		}
		fed := NewDecodeStage(new(Pool), maxFrame)
		var staged []frame.Frame
		emit := func(p Parcel) error { staged = append(staged, p.Frame); return nil }
		cut := &pieces{rest: input, sizes: sizes}
		stagedErr := error(nil)
		for buf := make([]byte, 4096); stagedErr == nil; {
			n, end := cut.Read(buf)
			if end != nil {
				if stagedErr = fed.Flush(emit); stagedErr == nil {
					stagedErr = io.EOF
				}
				break
			}
			stagedErr = fed.Step(buf[:n], emit)
		}
		requireSameEnd(t, wantErr, stagedErr)
		require.Equal(t, len(want), len(staged))
		for i := range want {
			require.Equal(t, want[i], staged[i])
		}
	})
}
