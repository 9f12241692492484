package tonegen

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// MorseOptions says how a text is keyed. Zero fields take the default in brackets.
type MorseOptions struct {
	WPM       float64       // speed in words a minute by the word PARIS, 50 units each [20]
	Hz        float64       // pitch [600]
	Rate      int           // samples a second [16000]
	Amplitude float64       // of the tone, full scale 1 [0.5]
	Rise      time.Duration // length of each raised-cosine edge, inside the mark [5 ms]; negative for hard keying
	Jitter    float64       // hand keying: every mark and space is longer or shorter by up to this share [0]
	Drift     float64       // Hz a second that the pitch rises [0]
	Seed      uint64        // of the jitter
}

func (o MorseOptions) withDefaults() MorseOptions {
	o.WPM = orDefault(o.WPM, 20)
	o.Hz = orDefault(o.Hz, 600)
	o.Rate = orDefault(o.Rate, 16_000)
	o.Amplitude = orDefault(o.Amplitude, 0.5)
	o.Rise = orDefault(o.Rise, 5*time.Millisecond)
	return o
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Morse keys text: letters of either case, digits, "?", "/", "=", and single spaces between words. The signal starts
// with the first mark and ends with the last, and has one span over all of it, whose text is in capitals. Edges lie
// inside the marks, at half amplitude half a rise later than the mark's nominal start. It fails on any other
// character, on an empty text, and on a speed, pitch or rate that cannot be keyed.
func Morse(text string, o MorseOptions) (Signal, error) {
	o = o.withDefaults()
	if o.WPM < 0 || o.Rate < 0 || o.Hz < 0 || o.Hz*2 >= float64(o.Rate) {
		return Signal{}, fmt.Errorf("key morse: %v wpm, %v Hz at %d samples a second: want positive values and a pitch below half the rate", o.WPM, o.Hz, o.Rate)
	}
	text = strings.ToUpper(text)
	units, err := keying(text)
	if err != nil {
		return Signal{}, err
	}
	random := rand.New(rand.NewPCG(o.Seed, 0x6d6f727365)) // a stream of its own, apart from the noise with the same seed
	unit := 1.2 / o.WPM                                   // seconds: PARIS has 50 units, 60 s / 50 = 1.2 s
	var edges []int                                       // sample at which mark and space end, in turn
	var t float64
	for _, u := range units {
		t += float64(u) * unit * (1 + o.Jitter*(2*random.Float64()-1))
		edges = append(edges, int(t*float64(o.Rate)+0.5))
	}
	s := Signal{Rate: o.Rate, Samples: make([]float64, edges[len(edges)-1]), Power: o.Amplitude * o.Amplitude / 2}
	start := 0
	for i, end := range edges {
		if i%2 == 0 {
			key(s.Samples[start:end], o.Rate, count(o.Rise, o.Rate), o.Amplitude, o.Hz, o.Drift, start)
		}
		start = end
	}
	s.Spans = []Span{{Start: 0, End: s.Duration(), Text: text}}
	return s, nil
}

// keying turns text into lengths in units: mark, space, mark, …, mark.
func keying(text string) ([]int, error) {
	var units []int
	space := 0
	for i, r := range text {
		if r == ' ' {
			if space != 3 {
				return nil, fmt.Errorf("key morse: space at byte %d of %q: want single spaces between words only", i, text)
			}
			space = 7
			continue
		}
		code, ok := codeOf(r)
		if !ok {
			return nil, fmt.Errorf("key morse: %q at byte %d: want letters, digits, \"?\", \"/\", \"=\" or a space", r, i)
		}
		for _, element := range code {
			if space > 0 {
				units = append(units, space)
			}
			units = append(units, element)
			space = 1
		}
		space = 3
	}
	if space != 3 {
		return nil, fmt.Errorf("key morse: %q: want a text that is not empty and ends with a character", text)
	}
	return units, nil
}

// codeOf gives the lengths of a character's marks.
func codeOf(r rune) ([]int, bool) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	codes := [...]string{
		"13", "3111", "3131", "311", "1", "1131", "331", "1111", "11", "1333", "313", "1311", "33", "31", "333", "1331", "3313",
		"131", "111", "3", "113", "1113", "133", "3113", "3133", "3311",
	}
	var code string
	switch i := strings.IndexRune(letters, r); {
	case i >= 0:
		code = codes[i]
	case r >= '0' && r <= '5':
		code = strings.Repeat("1", int(r-'0')) + strings.Repeat("3", 5-int(r-'0'))
	case r >= '6' && r <= '9':
		code = strings.Repeat("3", int(r-'5')) + strings.Repeat("1", 5-int(r-'5'))
	case r == '?':
		code = "113311"
	case r == '/':
		code = "31131"
	case r == '=':
		code = "31113"
	default:
		return nil, false
	}
	lengths := make([]int, len(code))
	for i := range code {
		lengths[i] = int(code[i] - '0')
	}
	return lengths, true
}
