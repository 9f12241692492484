package main

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// cutTexts are texts with characters of every length, and broken ones.
var cutTexts = map[string]struct {
	text, upper         string
	lines, words, bytes int
}{
	"empty":            {"", "", 0, 0, 0},
	"ascii":            {"one  two\nthree", "ONE  TWO\nTHREE", 1, 3, 14},
	"two bytes":        {"grüße öl", "GRÜßE ÖL", 0, 2, 11},
	"three bytes":      {"日本 語 ⓐ\n", "日本 語 Ⓐ\n", 1, 3, 15},
	"four bytes":       {"𐐨x 😀\n\n", "𐐀X 😀\n\n", 2, 2, 12},
	"wide blanks":      {"a\u2003b\u00a0c", "A\u2003B\u00a0C", 0, 3, 8},
	"not UTF-8":        {"a\xffb \xc3 \xf0\x9f\x98", "A\xffB \xc3 \xf0\x9f\x98", 0, 3, 9},
	"cut off":          {"x \xe6\x97", "X \xe6\x97", 0, 2, 4},
	"a real U+FFFD":    {"\ufffd\ufffd a", "\ufffd\ufffd A", 0, 2, 8},
	"head in the tail": {"\xe6\xe6\x97\xa5 \xf0\xc3\xbc", "\xe6\xe6\x97\xa5 \xf0\xc3\x9c", 0, 2, 8},
}

func TestTextsCutAtEveryByte(t *testing.T) {
	for name, c := range cutTexts {
		t.Run(name, func(t *testing.T) {
			require.Len(t, c.text, c.bytes)
			counted := fmt.Sprintf(`{"lines":%d,"words":%d,"bytes":%d}`, c.lines, c.words, c.bytes)
			check := func(first, second string, what string) {
				out, err := command(t, &pieces{[]string{first, second}}, "words")
				require.NoError(t, err)
				assert.JSONEq(t, counted, out, what)
				out, err = command(t, &pieces{[]string{first, second}}, "upper")
				require.NoError(t, err)
				assert.Equal(t, c.upper, out, what)
			}
			for at := range len(c.text) + 1 {
				check(c.text[:at], c.text[at:], fmt.Sprintf("cut at %d", at))
			}
			out, err := command(t, iotest.OneByteReader(strings.NewReader(c.text)), "words")
			require.NoError(t, err)
			assert.JSONEq(t, counted, out, "one byte at a time")
			out, err = command(t, iotest.OneByteReader(strings.NewReader(c.text)), "upper")
			require.NoError(t, err)
			assert.Equal(t, c.upper, out, "one byte at a time")
		})
	}
}

// pieces gives each text that is not empty as one read.
type pieces struct{ left []string }

func (p *pieces) Read(b []byte) (int, error) {
	for len(p.left) > 0 && p.left[0] == "" {
		p.left = p.left[1:]
	}
	if len(p.left) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.left[0])
	p.left[0] = p.left[0][n:]
	return n, nil
}

// FuzzRunes: whatever the bytes and wherever the cuts, the pieces joined are the text, and the characters are those of a whole read.
func FuzzRunes(f *testing.F) {
	for _, c := range cutTexts {
		f.Add([]byte(c.text), uint8(1), uint8(3))
	}
	f.Fuzz(func(t *testing.T, text []byte, one, two uint8) {
		var got, want []rune
		var back []byte
		each := func(r rune, b []byte) {
			got = append(got, r)
			back = append(back, b...)
		}
		var rr runeReader
		for i, rest := 0, text; len(rest) > 0; i++ {
			n := min(1+int([]uint8{one, two}[i%2]%5), len(rest))
			rr.feed(rest[:n], each)
			rest = rest[n:]
		}
		rr.close(each)
		for rest := text; len(rest) > 0; {
			r, n := utf8.DecodeRune(rest)
			want = append(want, r)
			rest = rest[n:]
		}
		require.Equal(t, want, got)
		require.True(t, bytes.Equal(text, back))
	})
}
