package audio

import (
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// Codes of the failures of this package, all of class input.
const (
	CodeBad         = "BAD_AUDIO"         // the bytes are damaged, or not what they were said to be
	CodeUnsupported = "UNSUPPORTED_AUDIO" // sound, but of a kind that is not read here
)

// What a format may be.
const (
	MaxRate     = 768_000 // samples a second and channel; the lowest rate is 1
	MaxChannels = 8
)

// Encoding says how one sample is written.
type Encoding uint8

// The encodings that are read. Integers are full scale at their range, floats at ±1.
const (
	U8 Encoding = iota + 1 // unsigned, 128 is silence
	S16LE
	S16BE
	S24LE
	S32LE
	F32LE
	F64LE
)

// encodings has the name and the size in bytes of each encoding.
var encodings = [...]struct {
	name  string
	bytes int
}{U8: {"u8", 1}, S16LE: {"s16le", 2}, S16BE: {"s16be", 2}, S24LE: {"s24le", 3}, S32LE: {"s32le", 4}, F32LE: {"f32le", 4}, F64LE: {"f64le", 8}}

// ParseEncoding reads the name of an encoding: u8, s16le, s16be, s24le, s32le, f32le or f64le, in small letters.
// Any other name is a failure of class input that lists them.
func ParseEncoding(name string) (Encoding, error) {
	names := make([]string, 0, len(encodings))
	for i, e := range encodings {
		if e.name == "" {
			continue
		}
		if e.name == name {
			return Encoding(i), nil
		}
		names = append(names, e.name)
	}
	return 0, failure.Newf(CodeUnsupported, failure.Input, "sample format %q is not known: use one of %s", name, strings.Join(names, ", "))
}

// String is the name that [ParseEncoding] reads, or "none".
func (e Encoding) String() string {
	if e.Bytes() == 0 {
		return "none"
	}
	return encodings[e].name
}

// Bytes is the size of one sample, 1 to 8; 0 when e is not one of the constants.
func (e Encoding) Bytes() int {
	if int(e) >= len(encodings) {
		return 0
	}
	return encodings[e].bytes
}

// Format is how samples are laid out: frames of Channels samples, Rate frames a second.
type Format struct {
	Rate     int // frames a second, 1 to [MaxRate]
	Channels int // 1 to [MaxChannels]
	Encoding Encoding
}

// FrameBytes is the size of one frame.
func (f Format) FrameBytes() int { return f.Channels * f.Encoding.Bytes() }

// Validate returns nil, or a failure of class input that names the part that is out of range.
func (f Format) Validate() error {
	switch {
	case f.Rate < 1 || f.Rate > MaxRate:
		return failure.Newf(CodeUnsupported, failure.Input, "sample rate %d is out of range: use 1 to %d", f.Rate, MaxRate)
	case f.Channels < 1 || f.Channels > MaxChannels:
		return failure.Newf(CodeUnsupported, failure.Input, "%d channels are out of range: use 1 to %d", f.Channels, MaxChannels)
	case f.Encoding.Bytes() == 0:
		return failure.Newf(CodeUnsupported, failure.Input, "no sample format is given: use for example %v", S16LE)
	}
	return nil
}
