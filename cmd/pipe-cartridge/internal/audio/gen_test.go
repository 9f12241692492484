package audio

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// wavChunk is a chunk of a test file that is not fmt and not data.
type wavChunk struct {
	name string
	body []byte
}

// wavFile writes WAV streams, right ones and others. It knows nothing of the parser.
type wavFile struct {
	format     Format
	magic      string // RIFF when empty
	fmtBytes   int    // 16 when 0; 40 and more are extensible
	before     []wavChunk
	data       []byte
	after      []wavChunk
	riffLength *uint32 // the right one when nil
	dataLength *uint32 // the right one when nil
	noPads     bool
}

func length(n uint32) *uint32 { return &n }

func (f wavFile) bytes() []byte {
	var out bytes.Buffer
	u16 := func(v uint16) { _ = binary.Write(&out, binary.LittleEndian, v) }
	u32 := func(v uint32) { _ = binary.Write(&out, binary.LittleEndian, v) }
	pad := func(n int) {
		if n%2 == 1 && !f.noPads {
			out.WriteByte(0)
		}
	}
	chunk := func(c wavChunk) {
		out.WriteString(c.name)
		u32(uint32(len(c.body)))
		out.Write(c.body)
		pad(len(c.body))
	}
	if f.magic == "" {
		f.magic = "RIFF"
	}
	out.WriteString(f.magic)
	u32(0)
	out.WriteString("WAVE")
	for _, c := range f.before {
		chunk(c)
	}
	size := max(f.fmtBytes, 16)
	out.WriteString("fmt ")
	u32(uint32(size))
	tag := uint16(1)
	if f.format.Encoding == F32LE || f.format.Encoding == F64LE {
		tag = 3
	}
	bits := map[Encoding]uint16{U8: 8, S16LE: 16, S24LE: 24, S32LE: 32, F32LE: 32, F64LE: 64}[f.format.Encoding]
	align := uint16(f.format.Channels) * bits / 8
	if size >= 40 {
		u16(0xfffe)
	} else {
		u16(tag)
	}
	u16(uint16(f.format.Channels))
	u32(uint32(f.format.Rate))
	u32(uint32(f.format.Rate) * uint32(align))
	u16(align)
	u16(bits)
	var extension bytes.Buffer
	if size >= 40 {
		for _, v := range []uint16{22, bits, 3, 0, tag} {
			_ = binary.Write(&extension, binary.LittleEndian, v)
		}
		extension.WriteString("\x00\x00\x00\x00\x10\x00\x80\x00\x00\xAA\x00\x38\x9B\x71")
	}
	out.Write(append(extension.Bytes(), make([]byte, size-16-extension.Len())...))
	pad(size)
	out.WriteString("data")
	if f.dataLength != nil {
		u32(*f.dataLength)
	} else {
		u32(uint32(len(f.data)))
	}
	out.Write(f.data)
	if len(f.after) > 0 || f.dataLength == nil {
		pad(len(f.data))
	}
	for _, c := range f.after {
		chunk(c)
	}
	file := out.Bytes()
	if f.riffLength != nil {
		binary.LittleEndian.PutUint32(file[4:], *f.riffLength)
	} else {
		binary.LittleEndian.PutUint32(file[4:], uint32(len(file)-8))
	}
	return file
}

// encode writes interleaved samples, each within ±1.
func encode(samples []float64, e Encoding) []byte {
	var out bytes.Buffer
	for _, s := range samples {
		full := func(bits int) int64 {
			top := math.Ldexp(1, bits-1)
			return int64(math.Round(max(-top, min(top-1, s*top))))
		}
		var v any
		switch e {
		case U8:
			v = uint8(full(8) + 128)
		case S16LE:
			v = int16(full(16))
		case S16BE:
			_ = binary.Write(&out, binary.BigEndian, int16(full(16)))
			continue
		case S24LE:
			n := full(24)
			v = [3]byte{byte(n), byte(n >> 8), byte(n >> 16)}
		case S32LE:
			v = int32(full(32))
		case F32LE:
			v = float32(s)
		case F64LE:
			v = s
		}
		_ = binary.Write(&out, binary.LittleEndian, v)
	}
	return out.Bytes()
}

// sine is n samples of a tone at so many cycles a sample.
func sine(n int, frequency, amplitude float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = amplitude * math.Sin(2*math.Pi*frequency*float64(i))
	}
	return out
}

// whiteNoise is n samples of Gaussian noise.
func whiteNoise(seed uint64, n int, rms float64) []float32 {
	r := rand.New(rand.NewPCG(seed, 0))
	out := make([]float32, n)
	for i := range out {
		out[i] = float32(r.NormFloat64() * rms)
	}
	return out
}

// pieces gives p in pieces of at most size bytes.
func pieces(p []byte, size int) Pull {
	return func(context.Context) ([]byte, time.Duration, error) {
		if len(p) == 0 {
			return nil, 0, io.EOF
		}
		n := min(size, len(p))
		piece := bytes.Clone(p[:n])
		p = p[n:]
		return piece, 0, nil
	}
}

// reading gives what r gives, in reads of at most size bytes.
func reading(r io.Reader, size int) Pull {
	buf := make([]byte, size)
	return func(context.Context) ([]byte, time.Duration, error) {
		n, err := r.Read(buf)
		return buf[:n], 0, err
	}
}

// decoded is what a decoder gave: runs of samples, each with the time it starts at.
type decoded struct {
	samples []float32
	gaps    []gapAt
}

type gapAt struct {
	sample int // in front of which it lies
	length time.Duration
}

// decodeAll collects the blocks.
func decodeAll(blocks iter.Seq2[engine.Block, error]) (decoded, error) {
	var d decoded
	for b, err := range blocks {
		if err != nil {
			return d, err
		}
		if b.Gap != 0 {
			d.gaps = append(d.gaps, gapAt{len(d.samples), b.Gap})
		}
		d.samples = append(d.samples, b.Samples...)
	}
	return d, nil
}

// feedWAV runs p through the parser in pieces of size bytes.
func feedWAV(w *WAV, p []byte, size int) ([]byte, error) {
	var out []byte
	emit := func(raw []byte) error {
		out = append(out, raw...)
		return nil
	}
	for len(p) > 0 {
		n := min(size, len(p))
		if err := w.Feed(bytes.Clone(p[:n]), emit); err != nil {
			return out, err
		}
		p = p[n:]
	}
	return out, w.Close(emit)
}

// resampleAll runs in through a new resampler in pieces of size samples.
func resampleAll(t require.TestingT, from, to int, in []float32, size int) []float32 {
	var out []float32
	emit := func(s []float32) error {
		out = append(out, s...)
		return nil
	}
	r := NewResampler(from, to)
	for len(in) > 0 {
		n := min(size, len(in))
		require.NoError(t, r.Feed(in[:n], emit))
		in = in[n:]
	}
	require.NoError(t, r.Flush(emit))
	return out
}

func toFloat32(in []float64) []float32 {
	out := make([]float32, len(in))
	for i, x := range in {
		out[i] = float32(x)
	}
	return out
}

var errTest = errors.New("test error")
