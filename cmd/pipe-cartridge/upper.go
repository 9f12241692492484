package main

import (
	"context"
	"unicode"
	"unicode/utf8"

	"github.com/pipe-cartridge/pipe/bifaci"
)

// upper turns a text into upper case piece by piece; characters that a border between pieces has cut come out whole, and bytes
// that are no UTF-8 as they are.
func upper(ctx context.Context, r *bifaci.Request) error {
	text, err := r.Input(ctx, mediaText)
	if err != nil {
		return err
	}
	out := r.Output()
	if text.IsUnbounded() {
		if err := out.StartUnbounded(); err != nil {
			return err
		}
	}
	var runes runeReader
	var piece []byte
	add := func(r rune, bytes []byte) {
		if r == utf8.RuneError {
			piece = append(piece, bytes...)
			return
		}
		piece = utf8.AppendRune(piece, unicode.ToUpper(r))
	}
	for item, err := range text.Items(ctx) {
		if err != nil {
			return err
		}
		piece = piece[:0]
		runes.feed(item.Bytes, add)
		item.Release()
		if _, err := out.WriteContext(ctx, piece); err != nil {
			return err
		}
		if err := out.Flush(ctx); err != nil {
			return err
		}
	}
	piece = piece[:0]
	runes.close(add)
	_, err = out.WriteContext(ctx, piece)
	return err
}
