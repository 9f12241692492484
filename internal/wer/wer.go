package wer

import (
	"strings"
	"unicode"
)

// Compare returns the least number of insertions, deletions and replacements of words that turn hyp into ref, and
// the number of words of ref. Both texts are read by [Words]. The word error rate is errors / words; it can exceed 1,
// and for an empty ref every word of hyp is an error.
//
// Time grows with the product of the two lengths, memory with the length of hyp.
func Compare(ref, hyp string) (errors, words int) {
	want, got := Words(ref), Words(hyp)
	// row[j] is the distance between the words of ref read so far and the first j words of hyp.
	row := make([]int, len(got)+1)
	for j := range row {
		row[j] = j
	}
	for i, w := range want {
		diagonal := row[0]
		row[0] = i + 1
		for j, g := range got {
			replaced := diagonal
			if w != g {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(got)], len(want)
}

// Words splits text into words as a listener hears them: letter case and punctuation do not count, an apostrophe
// inside a word does ("don't", also in its typographic form), a hyphen separates ("cold-hearted" is two words).
func Words(text string) []string {
	text = strings.ToLower(strings.ReplaceAll(text, "\u2019", "'"))
	words := strings.FieldsFunc(text, func(r rune) bool {
		return r != '\'' && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	})
	kept := words[:0]
	for _, w := range words {
		if w = strings.Trim(w, "'"); w != "" {
			kept = append(kept, w)
		}
	}
	return kept
}
