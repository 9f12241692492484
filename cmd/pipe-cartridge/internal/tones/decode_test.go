package tones

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// clock turns lengths in dots, mark and space in turn, into marks at the given samples a dot.
func clock(dot float64, units ...float64) []tone {
	var tones []tone
	at := 1000.0
	for i, u := range units {
		if i%2 == 0 {
			tones = append(tones, tone{start: int64(at), end: int64(at + u*dot), kind: morse, hz: 600, power: 0.1, purity: 1})
		}
		at += u * dot
	}
	return tones
}

func TestDecodeReadsExactLengths(t *testing.T) {
	d := decode(clock(960, 3, 1, 1, 1, 3, 1, 1, 3, 3, 1, 3, 1, 1, 1, 3, 7, 1), 0)
	assert.Equal(t, "CQ E", d.text)
	assert.InDelta(t, 0.06, d.dot, 0.002)
	assert.Equal(t, 1.0, d.known)
	assert.Less(t, d.residue, 0.03)
}

func TestDecodeMarksWhatIsNoCharacter(t *testing.T) {
	d := decode(clock(960, 3, 1, 1, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 3, 3), 0)
	assert.Equal(t, "N\uFFFDT", d.text)
	assert.InDelta(t, 2.0/3, d.known, 1e-9)
}

func TestDecodeAllowsForEdgesThatShortenMarks(t *testing.T) {
	tones := clock(550, 1, 1, 3, 3, 3, 1, 1, 1, 1, 1, 1, 7, 3, 1, 1, 1, 3, 1, 1, 3, 1, 1, 1, 1, 1, 1, 3) // 35 words a minute
	for i := range tones {
		tones[i].end -= 160 // 10 ms of 34
	}
	d := decode(tones, 0)
	assert.Equal(t, "AB CV", d.text)
	assert.Less(t, d.residue, 0.05)
}

func TestDecodeFindsAnySpeedInSpiteOfAnUnsteadyHand(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dot := rapid.Float64Range(0.034, 0.12).Draw(t, "dot") * sampleRate
		hand := func() float64 { return rapid.Float64Range(0.85, 1.15).Draw(t, "hand") }
		var units []float64
		var want strings.Builder
		codes := []string{".-", "-...", "-.-.", "--.", "..-.", "----.", "..---", "-..-.", "..--..", "-...-"}
		letters := []string{"A", "B", "C", "G", "F", "9", "2", "/", "?", "="}
		for i := range rapid.IntRange(3, 12).Draw(t, "characters") {
			c := rapid.IntRange(0, len(codes)-1).Draw(t, "character")
			if i > 0 {
				if rapid.Bool().Draw(t, "word") {
					units = append(units, 7*hand())
					want.WriteByte(' ')
				} else {
					units = append(units, 3*hand())
				}
			}
			want.WriteString(letters[c])
			for j, element := range codes[c] {
				if j > 0 {
					units = append(units, hand())
				}
				if element == '-' {
					units = append(units, 3*hand())
				} else {
					units = append(units, hand())
				}
			}
		}
		d := decode(clock(dot, units...), 0)
		if d.text != want.String() {
			t.Fatalf("%q, want %q", d.text, want.String())
		}
		if d.dot < 0.85*dot/sampleRate || d.dot > 1.15*dot/sampleRate {
			t.Fatalf("dot of %v s, want %v", d.dot, dot/sampleRate)
		}
	})
}

func TestTimingSurvivesAClickAndALongPause(t *testing.T) {
	var clean, disturbed timing
	for range 6 {
		for _, timing := range []*timing{&clean, &disturbed} {
			timing.mark(0.05)
			timing.space(0.05)
			timing.mark(0.15)
			timing.space(0.15)
		}
	}
	disturbed.mark(0.001)
	disturbed.space(3)
	assert.InDelta(t, 0.05, clean.dot(), 0.001)
	assert.Equal(t, clean.dot(), disturbed.dot())
}

func TestAlphabetHasEveryCharacterOnce(t *testing.T) {
	seen := map[string]string{}
	var walk func(code string)
	walk = func(code string) {
		if c := character(code); c != unknown {
			require.NotContains(t, seen, c, "%q and %q are the same character", seen[c], code)
			seen[c] = code
		}
		if len(code) < 8 {
			walk(code + ".")
			walk(code + "-")
		}
	}
	walk("")
	for _, c := range `ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789É.,:?'-/()"=+@` {
		assert.Contains(t, seen, string(c))
	}
	assert.Len(t, seen, 50)
	assert.Equal(t, unknown, character(""))
}
