package audio

import (
	"encoding/binary"
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// The format tags that are read.
const (
	tagPCM        = 0x0001
	tagFloat      = 0x0003
	tagExtensible = 0xfffe
)

// Sizes of the fmt chunk: plain, and with the extension that carries the real tag.
const (
	plainFmtBytes      = 16
	extensibleFmtBytes = 40
)

// subFormatTail is what follows the tag in the sub-format of an extensible fmt chunk; another GUID is another system.
const subFormatTail = "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"

const readable = "use PCM of 8, 16, 24 or 32 bits, or float of 32 or 64 bits"

// parseFmt reads a fmt chunk; p is its first bytes, at most extensibleFmtBytes of them.
func parseFmt(p []byte) (Format, error) {
	if len(p) < plainFmtBytes {
		return Format{}, bad("fmt chunk has %d bytes: it takes at least %d", len(p), plainFmtBytes)
	}
	var (
		tag        = binary.LittleEndian.Uint16(p)
		channels   = int(binary.LittleEndian.Uint16(p[2:]))
		rate       = binary.LittleEndian.Uint32(p[4:])
		blockAlign = int(binary.LittleEndian.Uint16(p[12:]))
		bits       = int(binary.LittleEndian.Uint16(p[14:]))
	)
	if tag == tagExtensible {
		if len(p) < extensibleFmtBytes {
			return Format{}, bad("extensible fmt chunk has %d bytes: it takes at least %d", len(p), extensibleFmtBytes)
		}
		tag = binary.LittleEndian.Uint16(p[24:])
		if tail := string(p[26:40]); tail != subFormatTail {
			return Format{}, unsupported("WAV sub-format %x is not known: %s", p[24:40], readable)
		}
	}
	if rate > MaxRate {
		return Format{}, unsupported("WAV sample rate %d is out of range: use 1 to %d", rate, MaxRate)
	}
	f := Format{Rate: int(rate), Channels: channels, Encoding: wavEncoding(tag, bits)}
	if f.Encoding == 0 {
		return Format{}, unsupported("WAV holds %s of %d bits: %s", tagName(tag), bits, readable)
	}
	if err := f.Validate(); err != nil {
		return Format{}, err
	}
	// The byte rate in p[8:12] is often wrong and nothing depends on it; the frame size decides where samples start.
	if blockAlign != f.FrameBytes() {
		return Format{}, bad("fmt chunk says %d bytes a frame, but %d channels of %d bits take %d", blockAlign, channels, bits, f.FrameBytes())
	}
	return f, nil
}

// wavEncoding is the encoding of a format tag and a container size; 0 for those that are not read.
func wavEncoding(tag uint16, bits int) Encoding {
	switch {
	case tag == tagPCM && bits == 8:
		return U8
	case tag == tagPCM && bits == 16:
		return S16LE
	case tag == tagPCM && bits == 24:
		return S24LE
	case tag == tagPCM && bits == 32:
		return S32LE
	case tag == tagFloat && bits == 32:
		return F32LE
	case tag == tagFloat && bits == 64:
		return F64LE
	}
	return 0
}

// tagName says what people call a format tag.
func tagName(tag uint16) string {
	switch tag {
	case tagPCM:
		return "PCM"
	case tagFloat:
		return "float"
	case 0x0002:
		return "Microsoft ADPCM"
	case 0x0006:
		return "A-law"
	case 0x0007:
		return "mu-law"
	case 0x0011:
		return "IMA ADPCM"
	case 0x0031:
		return "GSM 6.10"
	case 0x0050:
		return "MPEG audio"
	case 0x0055:
		return "MP3"
	}
	return fmt.Sprintf("format 0x%04x", tag)
}

// notWAV says what the first bytes are instead of a WAV header.
func notWAV(p []byte) error {
	const want = "a WAV stream starts with RIFF, a length and WAVE"
	starts := func(magic string) bool { return len(p) >= len(magic) && string(p[:len(magic)]) == magic }
	switch {
	case starts("RIFX"):
		return unsupported("this is RIFX, the big-endian WAV: convert it to RIFF")
	case starts("RIFF") && len(p) >= 12:
		return bad("this RIFF file holds %q and not WAVE: %s", p[8:12], want)
	case starts("OggS"):
		return unsupported("this is Ogg and not WAV: %s", want)
	case starts("fLaC"):
		return unsupported("this is FLAC and not WAV: %s", want)
	case starts("ID3"):
		return unsupported("this is MP3 and not WAV: %s", want)
	case starts("FORM"):
		return unsupported("this is AIFF and not WAV: %s", want)
	}
	return bad("not a WAV stream, it starts with %q: %s", p[:min(len(p), 12)], want)
}

func bad(format string, args ...any) error {
	return failure.Newf(CodeBad, failure.Input, format, args...)
}

func unsupported(format string, args ...any) error {
	return failure.Newf(CodeUnsupported, failure.Input, format, args...)
}
