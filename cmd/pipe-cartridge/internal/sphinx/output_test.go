package sphinx

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// read gives every utterance of an output, and the first error.
func read(output string) (heard []utterance, err error) {
	var t transcript
	add := func(u *utterance, e error) {
		if u != nil {
			heard = append(heard, *u)
		}
		if err == nil {
			err = e
		}
	}
	for line := range strings.Lines(output) {
		add(t.line(strings.TrimSuffix(line, "\n")))
	}
	add(t.finish())
	return heard, err
}

const goforward = `go forward ten meters
<s> 0.000 0.240 1.000000
<sil> 0.250 0.450 0.706282
go 0.460 0.630 0.900000
forward 0.640 1.160 1.000100
ten 1.170 1.520 0.300000
meters 1.530 2.110 0.800000
</s> 2.120 2.600 1.000000
`

func TestTranscriptReadsWordsWithTimes(t *testing.T) {
	heard, err := read(goforward)
	require.NoError(t, err)
	require.Len(t, heard, 1)
	u := heard[0]
	assert.Equal(t, "go forward ten meters", u.text)
	assert.Equal(t, int64(0.46*16000), u.start, "the start of the first word, not of the silence before it")
	assert.Equal(t, int64(2.12*16000), u.end, "the end of the last word's last frame")
	assert.InDelta(t, (0.9+1+0.3+0.8)/4, u.confidence, 1e-9, "mean posterior, clipped to 1")
}

func TestTranscriptCases(t *testing.T) {
	for _, c := range []struct {
		name, output string
		want         []string
		err          error
	}{
		{"nothing", "", nil, nil},
		{"two utterances", goforward + goforward, []string{"go forward ten meters", "go forward ten meters"}, nil},
		{"pronunciations are not part of the word", "and do\nand(2) 1.0 1.1 1.0\ndo(13) 1.2 1.3 1.0\n", []string{"and do"}, nil},
		{"noises are not words", "up\n[SPEECH] 0.1 0.2 1.0\nup 0.3 0.4 1.0\n++NOISE++ 0.5 0.6 1.0\n", []string{"up"}, nil},
		{"an utterance of fillers only has no text", "<s> 0.0 0.2 1.0\n<sil> 0.3 0.4 1.0\n" + goforward, []string{"go forward ten meters"}, nil},
		{"an empty text", "\n<sil> 0.3 0.4 1.0\n" + goforward, []string{"go forward ten meters"}, nil},
		{"echoed characters stick to the first text and are dropped", "@@" + goforward, []string{"go forward ten meters"}, nil},
		{"a word too few is told when the next begins", "a b c\na 0.1 0.2 1.0\nb 0.2 0.3 1.0\n" + goforward, []string{"a b", "go forward ten meters"}, nil},
		{"a word too few is told at the end", "a b c\na 0.1 0.2 1.0\nb 0.2 0.3 1.0\n", []string{"a b"}, nil},
		{"a text without times", "hello world\n", nil, errNoTimes},
		{"four words are a text", "one two three four\none 0.1 0.2 1.0\n", []string{"one"}, nil},
		{"whole numbers are a text", "ten 1 2 3\nten 0.1 0.2 1.0\n", []string{"ten"}, nil},
		{"impossible times are a text", "a -1.0 2.0 1.0\n", nil, errNoTimes},
		{"overflowing times are a text", "a 1.0e300 2.0 1.0\n", nil, errNoTimes},
		{"a parenthesis that is no number stays", "a(b)\na(b) 0.1 0.2 1.0\n", []string{"a(b)"}, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			heard, err := read(c.output)
			assert.Equal(t, c.err, err)
			var got []string
			for _, u := range heard {
				got = append(got, u.text)
			}
			assert.Equal(t, c.want, got)
		})
	}
}

func TestTranscriptTellsAnUtteranceWithItsLastWordNotWithTheNextOne(t *testing.T) {
	var reader transcript
	var told string
	for line := range strings.Lines(goforward) {
		u, err := reader.line(strings.TrimSuffix(line, "\n"))
		require.NoError(t, err)
		if u != nil {
			told = line
		}
	}
	assert.Equal(t, "meters 1.530 2.110 0.800000\n", told)
}

func FuzzTranscript(f *testing.F) {
	f.Add(goforward)
	f.Add("@" + goforward + "a b\n\n[X] 0.1 NaN Inf\n")
	f.Add("a 0.0 999999999.0 .5\nb(2) 0x.1p3 1_0.0 1.e5")
	f.Fuzz(func(t *testing.T, output string) {
		heard, _ := read(output)
		for _, u := range heard {
			assert.NotEmpty(t, u.text)
			assert.GreaterOrEqual(t, u.start, int64(0))
			assert.GreaterOrEqual(t, u.end, u.start)
			assert.True(t, u.confidence >= 0 && u.confidence <= 1, "confidence %v", u.confidence)
			for word := range strings.FieldsSeq(u.text) {
				assert.Contains(t, output, word, "nothing is invented")
			}
		}
	})
}
