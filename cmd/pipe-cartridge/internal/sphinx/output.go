package sphinx

import (
	"errors"
	"math"
	"strconv"
	"strings"

	"github.com/pipe-cartridge/pipe/cmd/pipe-cartridge/internal/engine"
)

// maxLineBytes bounds a line of the child. Twenty seconds of speech are some 400 bytes.
const maxLineBytes = 64 << 10

// maxSeconds bounds the times that are believed: 30 years, so that sample counts never overflow.
const maxSeconds = 1e9

// errNoTimes is what the child is not allowed to do: a text without the times of its words.
var errNoTimes = errors.New("a text without word times")

// utterance is what the child heard, in its own time: samples since the first it was given.
type utterance struct {
	text       string
	start, end int64
	confidence float64 // mean of the words' posteriors, 0 to 1
}

// transcript reads the child's standard output, line by line. With -time yes an utterance is its text, one line, and
// then a line for each word and each filler between words: the word, start and end in seconds, and its posterior. The
// zero value is ready.
//
// The text is put together from the words' lines: the program's grammar scanner echoes characters that it does not
// know to standard output, where they stick to the first text. No mark follows the last word, so the text is needed to
// know how many words to wait for; and a line with a text may be missing altogether when only fillers were heard.
type transcript struct {
	expected int // words of the text whose lines have not all come
	heard    []string
	start    float64 // seconds
	end      float64
	sum      float64 // of posteriors
}

// line takes the next line without its end. It returns the utterance that is now complete, or nil.
func (t *transcript) line(line string) (*utterance, error) {
	word, start, end, posterior, ok := parseWord(line)
	if !ok {
		texts := strings.Fields(line)
		before, err := t.finish()
		t.expected = len(texts)
		return before, err
	}
	if t.expected == 0 || filler(word) {
		return nil, nil
	}
	if len(t.heard) == 0 {
		t.start = start
	}
	t.heard = append(t.heard, spelling(word))
	t.end = end
	t.sum += posterior
	if len(t.heard) < t.expected {
		return nil, nil
	}
	return t.finish()
}

// finish ends the text that is being read: at the end of the output, or because another one begins.
func (t *transcript) finish() (*utterance, error) {
	words, expected := len(t.heard), t.expected
	defer func() { *t = transcript{} }()
	switch {
	case expected == 0:
		return nil, nil
	case words == 0:
		return nil, errNoTimes
	}
	// The end that is printed is the beginning of the last frame.
	start, end := samples(t.start), samples(t.end)+frameSamples
	return &utterance{
		text:       strings.Join(t.heard, " "),
		start:      start,
		end:        max(start, end),
		confidence: t.sum / float64(words),
	}, nil
}

// parseWord reads "word 0.460 0.630 0.997303". Everything else is a text: no dictionary has a word that is spelled
// like a number with a point.
func parseWord(line string) (word string, start, end, posterior float64, ok bool) {
	fields := strings.Fields(line)
	if len(fields) != 4 {
		return "", 0, 0, 0, false
	}
	var numbers [3]float64
	for i := range numbers {
		n, err := strconv.ParseFloat(fields[i+1], 64)
		if err != nil || !strings.Contains(fields[i+1], ".") || math.IsNaN(n) || n < 0 || n > maxSeconds {
			return "", 0, 0, 0, false
		}
		numbers[i] = n
	}
	// Rounding makes posteriors of 1.0001.
	return fields[0], numbers[0], numbers[1], min(numbers[2], 1), true
}

// filler reports what is no word: sentence marks, silence, and noises like [SPEECH] or ++COUGH++.
func filler(word string) bool {
	return strings.HasPrefix(word, "<") || strings.HasPrefix(word, "[") || strings.HasPrefix(word, "++") || word == "(NULL)"
}

// spelling takes the number of the pronunciation off: "and(2)" is "and".
func spelling(word string) string {
	at := strings.LastIndexByte(word, '(')
	if at <= 0 || !strings.HasSuffix(word, ")") {
		return word
	}
	if _, err := strconv.ParseUint(word[at+1:len(word)-1], 10, 16); err != nil {
		return word
	}
	return word[:at]
}

func samples(seconds float64) int64 { return int64(math.Round(seconds * engine.SampleRate)) }
