package tones

import (
	"math"
	"strings"
)

const (
	unknown  = "\uFFFD" // stands for marks that are no character
	mostBias = 0.35     // of a dot, that edges may take from a mark
)

// decoded is the reading of a run of marks.
type decoded struct {
	text    string
	dot     float64 // seconds
	known   float64 // share of the characters that exist
	residue float64 // root mean square distance of the lengths from the right ones, as logarithm
}

// decode reads marks and the spaces between them. known is a speed heard before, as seconds of a dot, or 0.
func decode(tones []tone, known float64) decoded {
	marks, spaces := lengthsOf(tones)
	dot := fit(marks, spaces, known)
	// Slow edges make all marks shorter and all spaces longer by the same time, which matters most at high speed.
	bias := biasOf(marks, spaces, dot)
	for i := range marks {
		marks[i] = max(marks[i]+bias, dot/4)
	}
	for i := range spaces {
		spaces[i] = max(spaces[i]-bias, dot/4)
	}
	return read(marks, spaces, fit(marks, spaces, known))
}

// lengthsOf gives the seconds of marks and of the spaces behind all but the last.
func lengthsOf(tones []tone) (marks, spaces []float64) {
	for i, t := range tones {
		marks = append(marks, secondsOf(t.end-t.start))
		if i > 0 {
			spaces = append(spaces, secondsOf(t.start-tones[i-1].end))
		}
	}
	return marks, spaces
}

func fit(marks, spaces []float64, known float64) float64 {
	t := timing{known: known}
	for _, m := range marks {
		t.mark(m)
	}
	for _, s := range spaces {
		t.space(s)
	}
	return t.dot()
}

// biasOf is the time by which marks are too short and spaces too long, in seconds. What marks and spaces have in common
// is no bias but an error of dot. Without spaces inside or between characters there is nothing to compare.
func biasOf(marks, spaces []float64, dot float64) float64 {
	excess := func(lengths []float64, nearest func(float64) float64) (mean float64, n int) {
		for _, x := range lengths {
			if right := nearest(math.Log(x / dot)); right < log7 {
				mean += x - math.Exp(right)*dot
				n++
			}
		}
		return mean / float64(max(n, 1)), n
	}
	onMarks, _ := excess(marks, nearestMark)
	onSpaces, n := excess(spaces, nearestSpace)
	if n == 0 {
		return 0
	}
	return max(-mostBias*dot, min(mostBias*dot, (onSpaces-onMarks)/2))
}

// read turns lengths into text, given the dot.
func read(marks, spaces []float64, dot float64) decoded {
	var text, code strings.Builder
	var squares float64
	chars, bad, lengths := 0, 0, 0
	flush := func() {
		char := character(code.String())
		if chars++; char == unknown {
			bad++
		}
		text.WriteString(char)
		code.Reset()
	}
	for i, m := range marks {
		if i > 0 {
			space := math.Log(spaces[i-1] / dot)
			nearest := nearestSpace(space)
			if nearest > 0 {
				flush()
			}
			if nearest == log7 {
				text.WriteByte(' ')
			}
			if space < log7 { // a longer pause is no error
				squares += (space - nearest) * (space - nearest)
				lengths++
			}
		}
		mark := math.Log(m / dot)
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
	return decoded{text: text.String(), dot: dot, known: 1 - float64(bad)/float64(chars), residue: math.Sqrt(squares / float64(lengths))}
}

// secondsOf is the time of a number of samples, never zero or less so that it has a logarithm.
func secondsOf(samples int64) float64 { return float64(max(samples, 1)) / sampleRate }
