package tonegen

import (
	"encoding/binary"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEncodeWritesEachFormatToTheByte(t *testing.T) {
	for format, want := range map[Format][]byte{ // 0, half scale, just beyond full scale, negative full scale
		U8:  {128, 192, 255, 0},
		S16: {0, 0, 0, 0x40, 0xff, 0x7f, 0, 0x80},
		S24: {0, 0, 0, 0, 0, 0x40, 0xff, 0xff, 0x7f, 0, 0, 0x80},
		S32: {0, 0, 0, 0, 0, 0, 0, 0x40, 0xff, 0xff, 0xff, 0x7f, 0, 0, 0, 0x80},
	} {
		got, err := Encode([]float64{0, 0.5, 1.2, -1}, format, 1)
		require.NoError(t, err)
		assert.Equal(t, want, got, "%s", format)
	}
	got, err := Encode([]float64{1.5}, F32, 1)
	require.NoError(t, err)
	assert.Equal(t, float32(1.5), math.Float32frombits(binary.LittleEndian.Uint32(got)))
	got, err = Encode([]float64{-0.1}, F64, 1)
	require.NoError(t, err)
	assert.Equal(t, -0.1, math.Float64frombits(binary.LittleEndian.Uint64(got)))
}

func TestEncodeRepeatsSamplesForChannels(t *testing.T) {
	got, err := Encode([]float64{0.5, -0.5}, U8, 3)
	require.NoError(t, err)
	assert.Equal(t, []byte{192, 192, 192, 64, 64, 64}, got)
	_, err = Encode(nil, U8, 0)
	assert.ErrorContains(t, err, "0 channels")
	_, err = Encode(nil, "s17", 1)
	assert.ErrorContains(t, err, `format "s17"`)
}

func TestWAVIsLaidOutAsTheHeaderSays(t *testing.T) {
	s := Signal{Rate: 8000, Samples: []float64{0, 0.5, -0.5}}
	file, err := WAV(s, WAVOptions{Format: U8})
	require.NoError(t, err)
	want := "RIFF\x28\x00\x00\x00WAVEfmt \x10\x00\x00\x00" + // 40 bytes follow the size
		"\x01\x00\x01\x00\x40\x1f\x00\x00\x40\x1f\x00\x00\x01\x00\x08\x00" + "data\x03\x00\x00\x00\x80\xc0\x40\x00"
	assert.Equal(t, want, string(file))
}

func TestWAVHeaderSaysWhatItIsTold(t *testing.T) {
	header, err := WAVHeader(WAVOptions{
		Format: F32, Rate: 48_000, Channels: 2, Length: UnknownLength, Extensible: true, Before: []Chunk{{"LIST", []byte("abc")}},
	})
	require.NoError(t, err)
	assert.Equal(t, uint32(0xffff_ffff), binary.LittleEndian.Uint32(header[4:]))
	assert.Equal(t, "fmt \x28\x00\x00\x00\xfe\xff\x02\x00", string(header[12:24]))
	assert.Equal(t, uint32(48_000*8), binary.LittleEndian.Uint32(header[28:]))
	assert.Equal(t, uint16(3), binary.LittleEndian.Uint16(header[44:]), "first two bytes of the sub-format: float")
	assert.Equal(t, "LIST\x03\x00\x00\x00abc\x00data\xff\xff\xff\xff", string(header[60:]))

	lie, err := WAVHeader(WAVOptions{Format: S16, Rate: 8000, Length: 1000})
	require.NoError(t, err)
	assert.Equal(t, uint32(1036), binary.LittleEndian.Uint32(lie[4:]))
	assert.Equal(t, uint32(1000), binary.LittleEndian.Uint32(lie[40:]))
}

func TestWAVHeaderRefusesNonsense(t *testing.T) {
	for name, o := range map[string]WAVOptions{
		"no format": {Rate: 8000}, "no rate": {Format: U8}, "channels": {Format: U8, Rate: 1, Channels: 70_000},
		"chunk name": {Format: U8, Rate: 8000, Before: []Chunk{{ID: "abcde"}}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := WAVHeader(o)
			assert.ErrorContains(t, err, "want")
		})
	}
}

func TestTimesOfSamplesAreExactForDays(t *testing.T) {
	assert.Equal(t, 72*time.Hour+time.Second/2, at(72*3600*11_025+5512, 11_025).Round(time.Millisecond))
	assert.Equal(t, 11_025, count(time.Second, 11_025))
	assert.Zero(t, count(-time.Second, 8000))
}
