package main

import (
	"context"
	"encoding/json"
	"unicode"
	"unicode/utf8"

	"github.com/pipe-cartridge/pipe/bifaci"
)

// counts is what words answers.
type counts struct {
	Lines int64 `json:"lines"` // newline characters
	Words int64 `json:"words"` // runs of what is not white space
	Bytes int64 `json:"bytes"`
}

// words counts a text of any length in constant memory.
func words(ctx context.Context, r *bifaci.Request) error {
	text, err := r.Input(ctx, mediaText)
	if err != nil {
		return err
	}
	var c counter
	for item, err := range text.Items(ctx) {
		if err != nil {
			return err
		}
		c.add(item.Bytes)
		item.Release()
	}
	answer, err := json.Marshal(c.close())
	if err != nil {
		return err
	}
	_, err = r.Output().WriteContext(ctx, answer)
	return err
}

// counter counts a text that comes in pieces, cut anywhere.
type counter struct {
	counts
	runes  runeReader
	inWord bool
}

func (c *counter) add(p []byte) {
	c.Bytes += int64(len(p))
	c.runes.feed(p, c.rune)
}

func (c *counter) rune(r rune, _ []byte) {
	if r == '\n' {
		c.Lines++
	}
	space := unicode.IsSpace(r)
	if !space && !c.inWord {
		c.Words++
	}
	c.inWord = !space
}

func (c *counter) close() counts {
	c.runes.close(c.rune)
	return c.counts
}

// runeReader takes UTF-8 apart that comes in pieces, cut anywhere, also inside a character. Bytes that are no UTF-8 come as
// utf8.RuneError, one at a time.
type runeReader struct {
	cut [utf8.UTFMax]byte // the beginning of a character
	n   int
}

// feed calls each with every complete character and its bytes.
func (rr *runeReader) feed(p []byte, each func(r rune, bytes []byte)) {
	for rr.n > 0 && len(p) > 0 {
		rr.cut[rr.n] = p[0]
		rr.n++
		p = p[1:]
		if !utf8.FullRune(rr.cut[:rr.n]) {
			continue
		}
		rr.drain(each)
	}
	for len(p) > 0 {
		if p[0] >= utf8.RuneSelf && !utf8.FullRune(p) {
			rr.n = copy(rr.cut[:], p)
			return
		}
		r, size := utf8.DecodeRune(p)
		each(r, p[:size])
		p = p[size:]
	}
}

// drain gives out what is complete of the held bytes.
func (rr *runeReader) drain(each func(r rune, bytes []byte)) {
	held := rr.cut
	p := held[:rr.n]
	rr.n = 0
	for len(p) > 0 && utf8.FullRune(p) {
		r, size := utf8.DecodeRune(p)
		each(r, p[:size])
		p = p[size:]
	}
	rr.n = copy(rr.cut[:], p)
}

// close gives out a character that was cut off at the end, as the broken bytes it is.
func (rr *runeReader) close(each func(r rune, bytes []byte)) {
	for i := range rr.n {
		each(utf8.RuneError, rr.cut[i:i+1])
	}
	rr.n = 0
}
