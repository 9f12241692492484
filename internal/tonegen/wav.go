package tonegen

import (
	"encoding/binary"
	"fmt"
)

// Chunk is any piece of a RIFF file besides the format and the data.
type Chunk struct {
	ID   string // four characters
	Data []byte // a padding byte follows when the length is odd
}

// UnknownLength makes a header say that the data has no known end, as programs do that write to a pipe.
const UnknownLength = -1

// WAVOptions says what a WAV header looks like. Format and Rate must be set.
type WAVOptions struct {
	Format     Format
	Rate       int
	Channels   int     // 0 for 1
	Length     int     // bytes of data that the header announces; UnknownLength writes the largest number
	Extensible bool    // use the 40-byte format chunk with a sub-format
	Before     []Chunk // between the format and the data
}

// WAVHeader writes everything that stands in front of the samples. The announced length need not be the true one:
// headers that lie are something readers must survive. It fails for formats, rates and chunk names that do not exist.
func WAVHeader(o WAVOptions) ([]byte, error) {
	channels := max(o.Channels, 1)
	width := o.Format.Bytes()
	if width == 0 || o.Rate < 1 || channels > 0xffff {
		return nil, fmt.Errorf("write wav header: format %q, %d samples a second, %d channels: want a known format, a positive rate, at most 65535 channels", o.Format, o.Rate, channels)
	}
	tag := uint16(1) // integer PCM
	if o.Format == F32 || o.Format == F64 {
		tag = 3 // IEEE float
	}
	block := width * channels
	fields := func(tag uint16) []byte {
		b := binary.LittleEndian.AppendUint16(nil, tag)
		b = binary.LittleEndian.AppendUint16(b, uint16(channels))
		b = binary.LittleEndian.AppendUint32(b, uint32(o.Rate))
		b = binary.LittleEndian.AppendUint32(b, uint32(o.Rate*block))
		b = binary.LittleEndian.AppendUint16(b, uint16(block))
		return binary.LittleEndian.AppendUint16(b, uint16(width*8))
	}
	format := fields(tag)
	if o.Extensible {
		format = binary.LittleEndian.AppendUint16(fields(0xfffe), 22) // bytes that follow
		format = binary.LittleEndian.AppendUint16(format, uint16(width*8))
		format = binary.LittleEndian.AppendUint32(format, 0) // no speaker is named
		format = binary.LittleEndian.AppendUint16(format, tag)
		format = append(format, "\x00\x00\x00\x00\x10\x00\x80\x00\x00\xaa\x00\x38\x9b\x71"...) // rest of the sub-format's GUID
	}
	body := []byte("WAVE")
	for _, c := range append([]Chunk{{ID: "fmt ", Data: format}}, o.Before...) {
		if len(c.ID) != 4 {
			return nil, fmt.Errorf("write wav header: chunk name %q, want four bytes", c.ID)
		}
		body = append(body, c.ID...)
		body = binary.LittleEndian.AppendUint32(body, uint32(len(c.Data)))
		body = append(body, c.Data...)
		if len(c.Data)%2 == 1 {
			body = append(body, 0)
		}
	}
	body = append(body, "data"...)
	riff, data := uint32(0xffff_ffff), uint32(0xffff_ffff)
	if o.Length != UnknownLength {
		data = uint32(o.Length)
		riff = uint32(len(body)+4+o.Length) + data%2 // odd data is padded as well
	}
	body = binary.LittleEndian.AppendUint32(body, data)
	return append(binary.LittleEndian.AppendUint32([]byte("RIFF"), riff), body...), nil
}

// WAV is a whole file: the header with the true length, the encoded samples, and a padding byte when needed. Length in
// the options is used only when it is UnknownLength.
func WAV(s Signal, o WAVOptions) ([]byte, error) {
	data, err := Encode(s.Samples, o.Format, max(o.Channels, 1))
	if err != nil {
		return nil, err
	}
	if o.Length != UnknownLength {
		o.Length = len(data)
	}
	o.Rate = orDefault(o.Rate, s.Rate)
	header, err := WAVHeader(o)
	if err != nil {
		return nil, err
	}
	file := append(header, data...)
	if o.Length != UnknownLength && len(data)%2 == 1 {
		file = append(file, 0)
	}
	return file, nil
}
