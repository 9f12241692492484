package tones

import (
	"math"
	"strings"
	"unicode/utf8"
)

// unknown stands for marks that are no character.
const unknown = "\uFFFD"

// decoded is the reading of a run of marks.
type decoded struct {
	text    string
	known   float64 // share of the characters that exist
	residue float64 // root mean square distance of the lengths from the right ones, as logarithm
}

// decode reads marks and the spaces between them with a dot of the given seconds.
func decode(tones []tone, dot float64) decoded {
	var text, code strings.Builder
	var squares float64
	bad, lengths := 0, 0
	flush := func() {
		char := character(code.String())
		if char == unknown {
			bad++
		}
		text.WriteString(char)
		code.Reset()
	}
	for i, t := range tones {
		if i > 0 {
			space := math.Log(secondsOf(t.start-tones[i-1].end) / dot)
			nearest := nearestSpace(space)
			if nearest > 0 {
				flush()
			}
			if nearest > log3 {
				text.WriteByte(' ')
			}
			if nearest < log7 || space < log7 { // longer pauses are no error
				squares += (space - nearest) * (space - nearest)
				lengths++
			}
		}
		mark := math.Log(secondsOf(t.end-t.start) / dot)
		nearest := nearestMark(mark)
		squares += (mark - nearest) * (mark - nearest)
		lengths++
		if nearest > 0 {
			code.WriteByte('-')
		} else {
			code.WriteByte('.')
		}
	}
	flush()
	s := text.String()
	chars := utf8.RuneCountInString(s) - strings.Count(s, " ")
	return decoded{text: s, known: 1 - float64(bad)/float64(chars), residue: math.Sqrt(squares / float64(lengths))}
}

// secondsOf is the time of a number of samples, never zero or less so that it has a logarithm.
func secondsOf(samples int64) float64 { return float64(max(samples, 1)) / sampleRate }
