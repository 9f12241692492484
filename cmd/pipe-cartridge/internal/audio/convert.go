package audio

import (
	"encoding/binary"
	"math"
)

// loudest is where float samples are clamped: 12 dB over full scale, far above what happens between converters and far
// below what would drown the sums behind.
const loudest = 4

// converterFrames is how many frames are converted at once.
const converterFrames = 2048

// Converter is the stage that makes mono floats of the bytes of samples: full scale is ±1, channels are mixed with
// equal weight. A sample that is not a number, or not finite, is silence: it spoils nothing behind it.
type Converter struct {
	format Format
	cut    []byte // the start of a frame that has not yet ended
	mixed  []float32
	mono   []float32
}

// NewConverter makes the stage for one stream. The format must be valid; see [Format.Validate].
func NewConverter(f Format) *Converter {
	c := &Converter{format: f, cut: make([]byte, 0, f.FrameBytes()), mono: make([]float32, converterFrames)}
	if f.Channels > 1 {
		c.mixed = make([]float32, converterFrames*f.Channels)
	}
	return c
}

// Feed takes the next bytes and emits one float a frame, at most a few thousand at once. A frame that is cut waits for
// its other part; the end of the input may simply leave it. An error of emit is returned at once.
func (c *Converter) Feed(p []byte, emit func(mono []float32) error) error {
	frame := c.format.FrameBytes()
	if len(c.cut) > 0 {
		n := min(frame-len(c.cut), len(p))
		c.cut = append(c.cut, p[:n]...)
		p = p[n:]
		if len(c.cut) < frame {
			return nil
		}
		whole := c.cut
		c.cut = c.cut[:0]
		if err := emit(c.convert(whole)); err != nil {
			return err
		}
	}
	for len(p) >= frame {
		n := min(len(p)/frame, converterFrames) * frame
		if err := emit(c.convert(p[:n])); err != nil {
			return err
		}
		p = p[n:]
	}
	c.cut = append(c.cut, p...)
	return nil
}

// Reset forgets a frame that is cut: bytes were lost, and the next ones start a frame.
func (c *Converter) Reset() { c.cut = c.cut[:0] }

// convert makes mono of whole frames, at most converterFrames of them.
func (c *Converter) convert(p []byte) []float32 {
	mono := c.mono[:len(p)/c.format.FrameBytes()]
	if c.format.Channels == 1 {
		decode(mono, p, c.format.Encoding)
		return mono
	}
	mixed := c.mixed[:len(mono)*c.format.Channels]
	decode(mixed, p, c.format.Encoding)
	if c.format.Channels == 2 {
		for i := range mono {
			mono[i] = (mixed[2*i] + mixed[2*i+1]) * 0.5
		}
		return mono
	}
	weight := 1 / float32(c.format.Channels)
	for i := range mono {
		var sum float32
		for _, s := range mixed[i*c.format.Channels : (i+1)*c.format.Channels] {
			sum += s
		}
		mono[i] = sum * weight
	}
	return mono
}

// decode fills dst with the samples of p, which has exactly as many.
func decode(dst []float32, p []byte, e Encoding) {
	switch e {
	case U8:
		for i := range dst {
			dst[i] = float32(int(p[i])-1<<7) / (1 << 7)
		}
	case S16LE:
		for i := range dst {
			dst[i] = float32(int16(binary.LittleEndian.Uint16(p[2*i:]))) / (1 << 15)
		}
	case S16BE:
		for i := range dst {
			dst[i] = float32(int16(binary.BigEndian.Uint16(p[2*i:]))) / (1 << 15)
		}
	case S24LE:
		for i := range dst {
			s := p[3*i : 3*i+3]
			dst[i] = float32(int32(uint32(s[0])<<8|uint32(s[1])<<16|uint32(s[2])<<24)) / (1 << 31)
		}
	case S32LE:
		for i := range dst {
			dst[i] = float32(int32(binary.LittleEndian.Uint32(p[4*i:]))) / (1 << 31)
		}
	case F32LE:
		for i := range dst {
			dst[i] = sane(float64(math.Float32frombits(binary.LittleEndian.Uint32(p[4*i:]))))
		}
	case F64LE:
		for i := range dst {
			dst[i] = sane(math.Float64frombits(binary.LittleEndian.Uint64(p[8*i:])))
		}
	}
}

// sane clamps x, and makes silence of what is no finite number.
func sane(x float64) float32 {
	switch {
	case math.IsNaN(x) || math.IsInf(x, 0):
		return 0
	case x > loudest:
		return loudest
	case x < -loudest:
		return -loudest
	}
	return float32(x)
}
