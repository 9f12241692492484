package sphinx

import (
	"bytes"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
	"github.com/pipe-cartridge/pipe/internal/wer"
)

// Tests in this file run the real program over recordings of real speech.

const testData = "/usr/share/pocketsphinx/test/data"

// needSpeech skips when the packages are missing, unless PIPE_REQUIRE_SPEECH=1 says that they may not be.
func needSpeech(t testing.TB, programs ...string) {
	t.Helper()
	missing := New(Config{}).Available()
	if _, err := os.Stat(filepath.Join(testData, "goforward.raw")); missing == nil {
		missing = err
	}
	for _, program := range programs {
		if _, err := exec.LookPath(program); missing == nil {
			missing = err
		}
	}
	switch {
	case missing == nil:
	case os.Getenv("PIPE_REQUIRE_SPEECH") == "1":
		require.NoError(t, missing, "PIPE_REQUIRE_SPEECH=1 needs pocketsphinx, pocketsphinx-en-us, pocketsphinx-testdata and flite")
	default:
		t.Skipf("needs the Debian packages pocketsphinx, pocketsphinx-en-us, pocketsphinx-testdata and flite: %v", missing)
	}
}

func readTestData(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(testData, name))
	require.NoError(t, err)
	return raw
}

// rawSpeech reads a recording without a header.
func rawSpeech(t testing.TB, name string) []float32 {
	t.Helper()
	return fromS16(t, readTestData(t, name))
}

// wavSpeech reads the samples of a 16 kHz mono 16-bit WAV: those of its data chunk, nothing of its header.
func wavSpeech(t testing.TB, file []byte) []float32 {
	t.Helper()
	at := bytes.Index(file, []byte("data"))
	require.Positive(t, at, "no data chunk")
	data := file[at+8:]
	size := int(binary.LittleEndian.Uint32(file[at+4:]))
	return fromS16(t, data[:min(size, len(data))])
}

// said speaks text with flite's voice rms and trims what is not audible, so that the truth about times is known.
func said(t testing.TB, text string) []float32 {
	t.Helper()
	path := filepath.Join(t.TempDir(), "said.wav")
	out, err := exec.Command("flite", "-voice", "rms", "-t", text, "-o", path).CombinedOutput()
	require.NoError(t, err, "flite: %s", out)
	file, err := os.ReadFile(path)
	require.NoError(t, err)
	samples := wavSpeech(t, file)
	const audible = 0.01
	loud := func(x float32) bool { return x > audible || x < -audible }
	first, last := 0, len(samples)-1
	for ; !loud(samples[first]); first++ {
	}
	for ; !loud(samples[last]); last-- {
	}
	return samples[first : last+1]
}

// transcription reads the reference texts of the test data: "<s> text </s> (name)".
func transcription(t testing.TB, name string) map[string]string {
	t.Helper()
	references := map[string]string{}
	for line := range strings.Lines(string(readTestData(t, name))) {
		text, id, found := strings.Cut(strings.TrimSpace(line), "(")
		require.True(t, found, "line %q", line)
		text = strings.NewReplacer("<s>", "", "</s>", "").Replace(text)
		references[strings.TrimSuffix(id, ")")] = strings.TrimSpace(text)
	}
	return references
}

func cards(t testing.TB) *Engine {
	t.Helper()
	return New(Config{Grammar: string(readTestData(t, "cards/cards.gram"))})
}

func TestAccuracyOpenSpeechGoforwardAndSomethingAreExact(t *testing.T) {
	needSpeech(t)
	for name, want := range map[string]string{
		"goforward.raw": "go forward ten meters",
		"something.raw": "go somewhere and do something",
	} {
		t.Run(name, func(t *testing.T) {
			segments, err := transcribe(t, New(Config{}), cutInto(rawSpeech(t, name), 1600))
			require.NoError(t, err)
			require.Equal(t, []string{want}, texts(segments))
			assert.Equal(t, "pocketsphinx", segments[0].Engine)
			assert.Greater(t, segments[0].Confidence, 0.5, "every word of this one is heard well")
			assert.LessOrEqual(t, segments[0].Confidence, 1.0)
		})
	}
}

func TestAccuracyCardsWithGrammarHaveAtMostOneWordWrong(t *testing.T) {
	needSpeech(t)
	errors, words := 0, 0
	for name, reference := range transcription(t, "cards/cards.transcription") {
		segments, err := transcribe(t, cards(t), cutInto(wavSpeech(t, readTestData(t, "cards/"+name+".wav")), 320))
		require.NoError(t, err)
		e, w := wer.Compare(reference, joined(segments))
		t.Logf("%s: %d of %d words wrong: said %q, heard %q", name, e, w, reference, joined(segments))
		errors, words = errors+e, words+w
		for _, s := range segments {
			assert.Negative(t, s.Confidence, "with a grammar the program knows no confidence, so none may be claimed")
		}
	}
	assert.Equal(t, 21, words)
	assert.LessOrEqual(t, errors, 1)
}

func TestAccuracyLibriVoxHasAtMost40PercentOfWordsWrong(t *testing.T) {
	needSpeech(t)
	errors, words := 0, 0
	for name, reference := range transcription(t, "librivox/transcription") {
		segments, err := transcribe(t, New(Config{}), cutInto(wavSpeech(t, readTestData(t, "librivox/"+name+".wav")), 4096))
		require.NoError(t, err)
		e, w := wer.Compare(reference, joined(segments))
		t.Logf("%s: %d of %d words wrong: heard %q", name, e, w, joined(segments))
		errors, words = errors+e, words+w
	}
	assert.Equal(t, 71, words)
	assert.LessOrEqual(t, float64(errors)/float64(words), 0.40)
}

func TestAccuracyFliteCardNamesWithGrammarAreExact(t *testing.T) {
	needSpeech(t, "flite")
	for _, name := range []string{"ten of clubs", "queen of hearts", "seven of diamonds", "ace of spades", "three of clubs"} {
		t.Run(name, func(t *testing.T) {
			audio := append(silence(300*time.Millisecond), said(t, name)...)
			audio = append(audio, silence(600*time.Millisecond)...)
			segments, err := transcribe(t, cards(t), cutInto(audio, 777))
			require.NoError(t, err)
			assert.Equal(t, []string{name}, texts(segments))
		})
	}
}

func TestTimesAreThoseOfTheInputWithSilencesAndGapsBetween(t *testing.T) {
	needSpeech(t, "flite")
	const tolerance = 150 * time.Millisecond
	var (
		list   []engine.Block
		at     time.Duration
		starts []time.Duration
		ends   []time.Duration
		names  []string
	)
	add := func(samples []float32) {
		for b := range cutInto(samples, 1000) {
			list = append(list, b)
		}
		at += time.Duration(len(samples)) * samplePeriod
	}
	say := func(name string) {
		speech := said(t, name)
		names, starts = append(names, name), append(starts, at)
		add(speech)
		ends = append(ends, at)
	}
	gap := func(d time.Duration) {
		list = append(list, engine.Block{Gap: d})
		at += d
	}
	add(silence(time.Second))
	say("ten of clubs")
	add(silence(1500 * time.Millisecond))
	say("queen of hearts")
	add(silence(45 * time.Second))
	say("seven of diamonds")
	gap(time.Hour) // ends the utterance at once
	say("ace of spades")
	gap(10 * time.Millisecond)
	gap(90 * time.Minute)
	add(silence(2 * time.Second))
	say("three of clubs") // and nothing behind it

	segments, err := transcribe(t, cards(t), blocks(list...))
	require.NoError(t, err)
	require.Equal(t, names, texts(segments))
	for i, s := range segments {
		t.Logf("%-18s truth %v to %v, told %v to %v", s.Text, starts[i], ends[i], s.Start, s.End)
		assert.InDelta(t, starts[i].Seconds(), s.Start.Seconds(), tolerance.Seconds(), "start of %q", s.Text)
		assert.InDelta(t, ends[i].Seconds(), s.End.Seconds(), tolerance.Seconds(), "end of %q", s.Text)
	}
}
