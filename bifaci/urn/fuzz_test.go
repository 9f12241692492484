package urn_test

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// seed adds every input of the golden rows.
func seed(f *testing.F) {
	for _, row := range vectors[parseRow](f, "urn_parse.json", 358) {
		f.Add(row.Input)
	}
	for _, row := range vectors[dispatchRow](f, "urn_dispatch.json", 556) {
		f.Add(row.Candidate)
	}
	for _, text := range []string{`x:a="?="`, `x:a="!=*"`, "x:a=\"\xff\"", `x:a="ǅ"`, `x:İ=İ`, "x:a=\"\u0085\"", "\u00a0x:a"} {
		f.Add(text)
	}
}

// checkParsed is what every parser promises: a refusal has a reason and a place, and a canonical form is read back as an
// equivalent URN with the same canonical form.
func checkParsed[U anyURN](t *testing.T, text string, parse func(string) (U, error), equivalent func(a, b U) bool) {
	t.Helper()
	got, err := parse(text)
	if err != nil {
		var fault *urn.ParseError
		if !errors.As(err, &fault) {
			t.Fatalf("%q: %T is no *ParseError", text, err)
		}
		if fault.Kind == "" || fault.URN != text || fault.Offset < 0 || fault.Offset > len(text) || fault.Error() == "" {
			t.Fatalf("%q: incomplete error %#v", text, fault)
		}
		return
	}
	if !utf8.ValidString(text) {
		t.Fatalf("%q was accepted and is not UTF-8", text)
	}
	canonical := got.String()
	again, err := parse(canonical)
	if err != nil {
		t.Fatalf("%q: canonical form %q is refused: %v", text, canonical, err)
	}
	if again.String() != canonical {
		t.Fatalf("%q: canonical form %q becomes %q", text, canonical, again)
	}
	if !equivalent(got, again) || got.Specificity() != again.Specificity() {
		t.Fatalf("%q: canonical form %q means something else", text, canonical)
	}
}

func FuzzParseTagged(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text string) {
		checkParsed(t, text, urn.ParseTagged, func(a, b urn.Tagged) bool {
			same, err := a.Equivalent(b)
			return err == nil && same
		})
		if u, err := urn.ParseTagged(text); err == nil {
			again, err := urn.NewTagged(u.Prefix(), u.Tags())
			if err != nil || again.String() != u.String() {
				t.Fatalf("%q: stored values give %q, %v", text, again, err)
			}
		}
	})
}

func FuzzParseMedia(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text string) {
		checkParsed(t, text, urn.ParseMedia, urn.Media.Equivalent)
		// What is not a media URN because of its prefix alone is one with the right prefix.
		if _, body, ok := strings.Cut(text, ":"); ok {
			checkParsed(t, "media:"+body, urn.ParseMedia, urn.Media.Equivalent)
		}
	})
}

func FuzzParseCap(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, text string) {
		checkParsed(t, text, urn.ParseCap, urn.Cap.Equivalent)
		c, err := urn.ParseCap(text)
		i, ok, lookupErr := urn.NewIndex([]urn.Cap{urn.MustCap("cap:other;out=media:x"), c}).LookupBytes([]byte(text))
		if (err == nil) != (lookupErr == nil) {
			t.Fatalf("%q: parser says %v, index says %v", text, err, lookupErr)
		}
		if err == nil && !c.IsDispatchable(c) {
			t.Fatalf("%q does not serve itself", text)
		}
		if err == nil && !ok {
			t.Fatalf("%q is registered and not found, got %d", text, i)
		}
	})
}
