package wer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/internal/wer"
)

func TestCompareCountsEachKindOfError(t *testing.T) {
	for _, c := range []struct {
		name, ref, hyp string
		errors, words  int
	}{
		{"exact", "go forward ten meters", "go forward ten meters", 0, 4},
		{"one replaced", "go forward ten meters", "go forward two meters", 1, 4},
		{"one deleted", "go forward ten meters", "go ten meters", 1, 4},
		{"one inserted", "ten of clubs", "five ten of clubs", 1, 3},
		{"one of each", "a b c d", "x a c e", 3, 4},
		{"nothing heard", "a b c", "", 3, 3},
		{"nothing said", "", "a fan", 2, 0},
		{"both empty", "", " \n", 0, 0},
		{"a swap is two", "a b", "b a", 2, 2},
		{"more errors than words", "a", "b c d", 3, 1},
		{"letters are not words", "kitten", "sitting", 1, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			errors, words := wer.Compare(c.ref, c.hyp)
			assert.Equal(t, c.errors, errors, "errors of %q against %q", c.hyp, c.ref)
			assert.Equal(t, c.words, words, "words of %q", c.ref)
		})
	}
}

func TestWordsIgnoresCaseAndPunctuationButKeepsApostrophes(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"case and commas", "Ten, of CLUBS!", []string{"ten", "of", "clubs"}},
		{"apostrophe inside", "don't I\u2019ve", []string{"don't", "i've"}},
		{"quotes around", "'quoted' '' it", []string{"quoted", "it"}},
		{"hyphen and dash", "cold-hearted\u2014rather", []string{"cold", "hearted", "rather"}},
		{"any white space", "a\tb\r\nc\u00a0d", []string{"a", "b", "c", "d"}},
		{"other scripts", "Größe, e\u0301te\u0301 42", []string{"größe", "e\u0301te\u0301", "42"}},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, wer.Words(c.text)) })
	}
}

// distance is the definition, written without a table: the model for Compare.
func distance(a, b []string) int {
	switch {
	case len(a) == 0:
		return len(b)
	case len(b) == 0:
		return len(a)
	case a[0] == b[0]:
		return distance(a[1:], b[1:])
	}
	return 1 + min(distance(a[1:], b), distance(a, b[1:]), distance(a[1:], b[1:]))
}

func TestCompareAgreesWithTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c"}), 0, 6)
		ref, hyp := text.Draw(t, "ref"), text.Draw(t, "hyp")
		errors, words := wer.Compare(strings.Join(ref, " "), strings.Join(hyp, " "))
		assert.Equal(t, distance(ref, hyp), errors)
		assert.Equal(t, len(ref), words)
		slices.Reverse(ref)
		slices.Reverse(hyp)
		backwards, _ := wer.Compare(strings.Join(ref, " "), strings.Join(hyp, " "))
		assert.Equal(t, errors, backwards, "the distance does not depend on the direction")
	})
}
