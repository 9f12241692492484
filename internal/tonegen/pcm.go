package tonegen

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Format is how one sample lies in a file, little-endian.
type Format string

// The formats that Encode knows.
const (
	U8  Format = "u8"  // unsigned, 128 is zero
	S16 Format = "s16" // two's complement, 2 bytes
	S24 Format = "s24" // two's complement, 3 bytes, packed
	S32 Format = "s32" // two's complement, 4 bytes
	F32 Format = "f32" // IEEE 754, full scale ±1, 4 bytes
	F64 Format = "f64" // IEEE 754, full scale ±1, 8 bytes
)

// Formats lists all of them.
func Formats() []Format { return []Format{U8, S16, S24, S32, F32, F64} }

// Bytes is the size of one sample; 0 for a format that does not exist.
func (f Format) Bytes() int {
	switch f {
	case U8:
		return 1
	case S16:
		return 2
	case S24:
		return 3
	case S32, F32:
		return 4
	case F64:
		return 8
	}
	return 0
}

// Encode writes samples in the format, each one repeated for every channel. Integer formats round to the nearest step
// and clip at full scale. It fails for a format that does not exist and for fewer than one channel.
func Encode(samples []float64, f Format, channels int) ([]byte, error) {
	if f.Bytes() == 0 {
		return nil, fmt.Errorf("encode samples: format %q, want one of %v", f, Formats())
	}
	if channels < 1 {
		return nil, fmt.Errorf("encode samples: %d channels, want 1 or more", channels)
	}
	out := make([]byte, 0, len(samples)*f.Bytes()*channels)
	for _, v := range samples {
		for range channels {
			out = appendSample(out, v, f)
		}
	}
	return out, nil
}

func appendSample(dst []byte, v float64, f Format) []byte {
	switch f {
	case U8:
		return append(dst, byte(step(v, 8)+128))
	case S16:
		return binary.LittleEndian.AppendUint16(dst, uint16(step(v, 16)))
	case S24:
		u := uint32(step(v, 24))
		return append(dst, byte(u), byte(u>>8), byte(u>>16))
	case S32:
		return binary.LittleEndian.AppendUint32(dst, uint32(step(v, 32)))
	case F32:
		return binary.LittleEndian.AppendUint32(dst, math.Float32bits(float32(v)))
	default:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(v))
	}
}

// step is v in steps of a two's complement converter with that many bits, clipped.
func step(v float64, bits int) int64 {
	full := math.Ldexp(1, bits-1)
	return int64(math.Max(-full, math.Min(full-1, math.Round(v*full))))
}
