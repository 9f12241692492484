package peer

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type vector struct {
	Name, Hex, Layer, Error string
	Canonical               bool
	Decoded                 struct{ Type any }
}

func vectors(t *testing.T) []vector {
	t.Helper()
	raw, err := os.ReadFile("../vectors/frames.json")
	require.NoError(t, err)
	var all []vector
	require.NoError(t, json.Unmarshal(raw, &all))
	require.NotEmpty(t, all)
	return all
}

func TestDecodeAgreesWithTheVectors(t *testing.T) {
	canonical := 0
	for _, v := range vectors(t) {
		if v.Error != "" || !v.Canonical {
			continue
		}
		t.Run(v.Name, func(t *testing.T) {
			wire, err := hex.DecodeString(v.Hex)
			require.NoError(t, err)
			f, got, err := ReadFrame(bytes.NewReader(wire))
			require.NoError(t, err)
			assert.Equal(t, wire, got)
			if f.Type() == TypeChunk {
				assert.Equal(t, Checksum(f.Payload()), f.Uint(KeyChecksum))
			}
			again, err := Decode(f.Encode()[4:])
			require.NoError(t, err)
			assert.Equal(t, f, again)
		})
		canonical++
	}
	assert.Greater(t, canonical, 20, "canonical vectors")
}

func TestDecodeRefusesWhatIsNoFrame(t *testing.T) {
	for name, text := range map[string]string{
		"version 4":     "a400040107020503 00",
		"type 2":        "a4000601020205 0300",
		"no id":         "a3000601070300",
		"duplicate key": "a5000601070205030003 00",
		"short id":      "a4000601070241ff 0300",
		"not a map":     "80",
		"trailing byte": "a400060107020503 0000",
	} {
		t.Run(name, func(t *testing.T) {
			body, err := hex.DecodeString(string(bytes.ReplaceAll([]byte(text), []byte(" "), nil)))
			require.NoError(t, err)
			_, err = Decode(body)
			assert.Error(t, err)
		})
	}
}

func TestReadFrameTellsACleanEndFromACut(t *testing.T) {
	wire := HeartbeatFrame(`{"all":2}`).Encode()
	_, _, err := ReadFrame(bytes.NewReader(nil))
	assert.Equal(t, io.EOF, err)
	for n := 1; n < len(wire); n++ {
		_, _, err := ReadFrame(bytes.NewReader(wire[:n]))
		assert.ErrorIs(t, err, io.ErrUnexpectedEOF, "%d of %d bytes", n, len(wire))
	}
	_, _, err = ReadFrame(bytes.NewReader([]byte{0, 0, 0, 0}))
	assert.ErrorContains(t, err, "prefix of 0")
}

func TestChecksumIsThatOfTheSpecification(t *testing.T) {
	for text, want := range map[string]uint64{"": 0xcbf29ce484222325, "a": 0xaf63dc4c8601ec8c, "foobar": 0x85944171f73967e8,
		identityPayload: 0x89079b86e57ae3b0} {
		assert.Equal(t, want, Checksum([]byte(text)), "%q", text)
	}
}
