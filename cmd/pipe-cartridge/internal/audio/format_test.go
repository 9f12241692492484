package audio

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// requireInput checks that err is a failure of class input with this code that says all these words.
func requireInput(t *testing.T, err error, code string, words ...string) {
	t.Helper()
	var f *failure.Failure
	require.ErrorAs(t, err, &f)
	assert.Equal(t, code, f.Code)
	assert.Equal(t, failure.Input, f.Class)
	for _, w := range words {
		assert.Contains(t, f.Message, w)
	}
}

func TestEncodingNamesReadBack(t *testing.T) {
	sizes := map[string]int{"u8": 1, "s16le": 2, "s16be": 2, "s24le": 3, "s32le": 4, "f32le": 4, "f64le": 8}
	for name, size := range sizes {
		e, err := ParseEncoding(name)
		require.NoError(t, err)
		assert.Equal(t, name, e.String())
		assert.Equal(t, size, e.Bytes(), name)
	}
	assert.Equal(t, len(sizes)+1, len(encodings))
}

func TestUnknownEncodingIsAnInputFailureThatListsTheKnownOnes(t *testing.T) {
	for _, name := range []string{"", "S16LE", "s16", "mulaw", "none"} {
		_, err := ParseEncoding(name)
		requireInput(t, err, CodeUnsupported, `"`+name+`"`, "s16le", "f64le")
	}
	assert.Equal(t, "none", Encoding(0).String())
	assert.Equal(t, "none", Encoding(200).String())
}

func TestFormatValidateNamesWhatIsOutOfRange(t *testing.T) {
	assert.NoError(t, Format{1, 1, U8}.Validate())
	assert.NoError(t, Format{MaxRate, MaxChannels, F64LE}.Validate())
	requireInput(t, Format{0, 1, U8}.Validate(), CodeUnsupported, "sample rate 0")
	requireInput(t, Format{MaxRate + 1, 1, U8}.Validate(), CodeUnsupported, "sample rate 768001", "768000")
	requireInput(t, Format{8000, 0, U8}.Validate(), CodeUnsupported, "0 channels")
	requireInput(t, Format{8000, 9, U8}.Validate(), CodeUnsupported, "9 channels", "8")
	requireInput(t, Format{8000, 1, 0}.Validate(), CodeUnsupported, "sample format")
	assert.Equal(t, 64, Format{1, 8, F64LE}.FrameBytes())
}
