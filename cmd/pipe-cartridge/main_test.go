package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// command runs a command line of the cartridge in this process.
func command(t testing.TB, stdin io.Reader, words ...string) (stdout string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	err = newCartridge().RunCLI(t.Context(), words, stdin, &out, &errs)
	require.Empty(t, errs.String(), "standard error")
	return out.String(), err
}

// heard is one segment as the ndjson format writes it.
type heard struct {
	StartMS    int64   `json:"start_ms"`
	EndMS      int64   `json:"end_ms"`
	Text       string  `json:"text"`
	Engine     string  `json:"engine"`
	Confidence float64 `json:"confidence"`
}

// segments reads an ndjson answer.
func segments(t testing.TB, text string) (all []heard) {
	t.Helper()
	for line := range strings.Lines(text) {
		var h heard
		require.NoError(t, json.Unmarshal([]byte(line), &h), line)
		all = append(all, h)
	}
	return all
}

func texts(all []heard) (words []string) {
	for _, h := range all {
		words = append(words, h.Text)
	}
	return words
}

// transcribed is what the tones engine hears in a WAV stream.
func transcribed(t testing.TB, wav io.Reader) []heard {
	t.Helper()
	out, err := command(t, wav, "transcribe", "--engine", "tones")
	require.NoError(t, err)
	return segments(t, out)
}

// morse is a text in Morse code with some silence around it.
func morse(t testing.TB, text string, o tonegen.MorseOptions) tonegen.Signal {
	t.Helper()
	s, err := tonegen.Morse(text, o)
	require.NoError(t, err)
	return joined(t, tonegen.Silence(s.Rate, 300*time.Millisecond), s, tonegen.Silence(s.Rate, 200*time.Millisecond))
}

func joined(t testing.TB, signals ...tonegen.Signal) tonegen.Signal {
	t.Helper()
	s, err := tonegen.Join(signals...)
	require.NoError(t, err)
	return s
}

// wavFile is a signal as a whole WAV file.
func wavFile(t testing.TB, s tonegen.Signal, o tonegen.WAVOptions) []byte {
	t.Helper()
	file, err := tonegen.WAV(s, o)
	require.NoError(t, err)
	return file
}

// samples are a signal as raw samples.
func samples(t testing.TB, s tonegen.Signal, f tonegen.Format) []byte {
	t.Helper()
	raw, err := tonegen.Encode(s.Samples, f, 1)
	require.NoError(t, err)
	return raw
}

// reads gives p in reads of a size.
func reads(p []byte, size int) io.Reader { return &sizedReader{bytes.NewReader(p), size} }

type sizedReader struct {
	r    io.Reader
	size int
}

func (r *sizedReader) Read(p []byte) (int, error) { return r.r.Read(p[:min(len(p), r.size)]) }

// wantFailure compares the identity of a failure and asks for a word in its message.
func wantFailure(t testing.TB, err error, code string, class failure.Class, word string) {
	t.Helper()
	var f failure.Classified
	require.ErrorAs(t, err, &f)
	assert.Equal(t, code, f.FailureCode())
	assert.Equal(t, class, f.FailureClass())
	assert.Contains(t, f.FailureMessage(), word)
}

func TestManifestIsValidAndEveryCapHasItsHandler(t *testing.T) {
	c := newCartridge()
	text, err := c.Manifest().IndentedJSON()
	require.NoError(t, err)
	m, err := manifest.Parse(text)
	require.NoError(t, err)
	require.NoError(t, m.Validate())
	served := 0
	for def := range m.Caps() {
		pattern, _, ok := c.FindHandler(def.URN)
		assert.True(t, ok, def.URN)
		assert.Equal(t, def.URN, pattern, "its own handler, not a more general one")
		served++
	}
	assert.Equal(t, 5, served)
	printed, err := command(t, strings.NewReader(""), "manifest")
	require.NoError(t, err)
	assert.Equal(t, string(text), printed)
}
