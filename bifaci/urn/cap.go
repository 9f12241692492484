package urn

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

const capPrefix = "cap"

// Keys of a cap URN that are not ordinary tags.
const (
	keyEffect = "effect"
	keyIn     = "in"
	keyOut    = "out"
)

// Cap is a cap URN: what a capability takes (in), gives (out), how the two depend on each other (effect), and all its
// other tags. It is an immutable value that keeps its parts parsed. The zero value stands for no URN.
type Cap struct {
	in, out Media
	y       set // all other tags
	effect  Effect
	score   int
	text    string
}

// ParseCap reads a cap URN in any spelling (spec/urn.md section 8). Errors are of type *ParseError.
func ParseCap(text string) (Cap, error) {
	c, err := parseCoordinates(text, nil)
	if err != nil {
		return Cap{}, err
	}
	c.write(text)
	return c, nil
}

// MustCap is ParseCap for texts of the program itself; it panics on an error.
func MustCap(text string) Cap {
	c, err := ParseCap(text)
	if err != nil {
		panic(err)
	}
	return c
}

// room holds the tags of one cap while it is looked up, so that reading it needs no memory of its own.
type room struct{ y, in, out []tag }

// parseCoordinates reads and checks a cap URN without writing canonical forms. With room, the cap is good until room is
// used again; without, it owns its tags.
func parseCoordinates(text string, r *room) (c Cap, err *ParseError) {
	if r == nil {
		r = &room{}
	}
	prefix, s, body, err := parseSet(text, r.y[:0])
	if err != nil {
		switch err.Kind {
		case MissingPrefix, EmptyPrefix, PrefixMismatch:
			err.Kind = MissingCapPrefix
		case WhitespaceInInput:
			err.Kind = InvalidCharacter
		}
		return Cap{}, err
	}
	r.y = s.tags
	if prefix != capPrefix {
		return Cap{}, &ParseError{MissingCapPrefix, text, 0, "prefix " + quoted(prefix) + " where \"cap\" should be", nil}
	}
	offset := 0
	if c, err = fromSet(&s, r); err == nil {
		if err = c.check(); err == nil {
			return c, nil
		}
	} else {
		offset = offsetOf(text, body, reservedKeyOf(err.Kind))
	}
	err.URN, err.Offset = text, offset
	return Cap{}, err
}

// reservedKeyOf gives the key that a fault of fromSet is about.
func reservedKeyOf(kind Reason) string {
	switch kind {
	case InvalidEffect:
		return keyEffect
	case InvalidInSpec:
		return keyIn
	default:
		return keyOut
	}
}

// fromSet sorts the tags of a cap URN into the four coordinates, in the order in which faults are to be found. The tags of
// s are reused.
func fromSet(s *set, r *room) (c Cap, err *ParseError) {
	if t, ok := s.find(keyEffect); ok {
		if c.effect, ok = effectOf(t); !ok {
			return Cap{}, fault(InvalidEffect, 0,
				"effect %s; write declared, none, patch, or ?effect for any", quoted(t.stored()))
		}
	}
	if c.in.set, err = direction(s, keyIn, InvalidInSpec, r.in[:0]); err != nil {
		return Cap{}, err
	}
	r.in = c.in.set.tags
	if c.out.set, err = direction(s, keyOut, InvalidOutSpec, r.out[:0]); err != nil {
		return Cap{}, err
	}
	r.out = c.out.set.tags
	c.y = newSet(slices.DeleteFunc(s.tags, func(t tag) bool { return isReserved(t.key) }))
	c.sum()
	return c, nil
}

func isReserved(key string) bool { return key == keyIn || key == keyOut || key == keyEffect }

// direction reads the tag in or out. A bare one, like a missing one, is media:.
func direction(s *set, key string, kind Reason, room []tag) (set, *ParseError) {
	t, ok := s.find(key)
	switch {
	case !ok, t.form == Present:
		return set{}, nil
	case t.form != Exact:
		return set{}, fault(kind, 0, "%s is %s; it must be a media URN, or bare for media:", key, quoted(t.stored()))
	}
	media, err := parseMediaSet(t.value, room)
	if err != nil {
		outer := fault(kind, 0, "%s is no media URN: %s", key, err.Detail)
		outer.Err = err
		return set{}, outer
	}
	return media, nil
}

// sum computes the specificity (spec/urn.md section 11); the effect does not count.
func (c *Cap) sum() { c.score = 10_000*c.out.set.score + 100*c.in.set.score + c.y.score }

// check refuses what may not be declared (spec/urn.md 8.3 and 9.1).
func (c *Cap) check() *ParseError {
	switch c.effect {
	case EffectDeclared:
		if len(c.in.set.tags)+len(c.out.set.tags)+len(c.y.tags) == 0 {
			return fault(IllegalDeclaration, 0,
				"it says nothing: in and out are media:, the effect is declared, and there is no tag; add one")
		}
	case EffectNone:
		if !conforms(&c.in.set, &c.out.set) {
			return fault(IllegalDeclaration, 0, "with effect=none, in must conform to out, and it does not")
		}
	}
	// For patch, applying the change from in to out to in gives exactly out, so there is nothing to refuse.
	return nil
}

// write fills in the canonical forms. text is shared when it is canonical already.
func (c *Cap) write(text string) {
	c.in.text = c.in.set.canonical(mediaPrefix, "")
	c.out.text = c.out.set.canonical(mediaPrefix, "")
	tags := slices.Clone(c.y.tags)
	if !c.in.IsTop() {
		tags = append(tags, tag{key: keyIn, value: c.in.text, form: Exact})
	}
	if !c.out.IsTop() {
		tags = append(tags, tag{key: keyOut, value: c.out.text, form: Exact})
	}
	switch c.effect {
	case EffectNone, EffectPatch:
		tags = append(tags, tag{key: keyEffect, value: c.effect.String(), form: Exact})
	case EffectAny:
		tags = append(tags, tag{key: keyEffect, form: Any})
	}
	all := newSet(tags)
	c.text = all.canonical(capPrefix, text)
}

// String gives the canonical form (spec/urn.md 8.2); "" for the zero value.
func (c Cap) String() string { return c.text }

// IsZero reports the zero value.
func (c Cap) IsZero() bool { return c.text == "" }

// Hash gives the lower-case hexadecimal SHA-256 of the canonical form.
func (c Cap) Hash() string {
	sum := sha256.Sum256([]byte(c.text))
	return hex.EncodeToString(sum[:])
}

// In gives the media that the cap takes.
func (c Cap) In() Media { return c.in }

// Out gives the media that the cap gives.
func (c Cap) Out() Media { return c.out }

// Effect gives how the output follows from the input.
func (c Cap) Effect() Effect { return c.effect }

// Specificity is 10000 times that of out, 100 times that of in, and that of the other tags (spec/urn.md section 11).
func (c Cap) Specificity() int { return c.score }

// Tag gives the value of in, out or effect, which are always there, or else the stored value of a tag. The case of the
// key does not count.
func (c Cap) Tag(key string) (value string, ok bool) {
	switch key = strings.ToLower(key); key {
	case keyIn:
		return c.in.text, true
	case keyOut:
		return c.out.text, true
	case keyEffect:
		return c.effect.String(), true
	}
	return c.y.stored(key)
}

// Tags gives the stored values of all tags but in, out and effect. The caller may keep and change the map.
func (c Cap) Tags() map[string]string { return c.y.toMap() }

// HasTag reports that Tag gives this value.
func (c Cap) HasTag(key, value string) bool {
	stored, ok := c.Tag(key)
	return ok && stored == value
}

// HasMarker reports a bare tag.
func (c Cap) HasMarker(key string) bool { return c.HasTag(key, storedPresent) }

// Compare orders caps by in, out, effect and the other tags, for sorting only (spec/urn.md 8.7). It is -1, 0 or 1.
func (c Cap) Compare(o Cap) int {
	return cmp.Or(c.in.Compare(o.in), c.out.Compare(o.out), cmp.Compare(c.effect, o.effect), compare(&c.y, &o.y))
}

// MarshalText gives the canonical form; the zero value has none and is an error.
func (c Cap) MarshalText() ([]byte, error) { return marshal(c.text) }

// UnmarshalText reads any spelling.
func (c *Cap) UnmarshalText(text []byte) (err error) {
	*c, err = ParseCap(string(text))
	return err
}

// CapKind describes a cap by whether data flows into and out of it (spec/urn.md 8.5). No relation looks at it.
type CapKind uint8

// The kinds of caps.
const (
	KindTransform  CapKind = iota // data in, data out
	KindIdentity                  // any data in, the same data out
	KindSource                    // void in
	KindSink                      // void out
	KindSideEffect                // void in and out
)

// String gives the kind's name: transform, identity, source, sink or effect.
func (k CapKind) String() string {
	switch k {
	case KindIdentity:
		return "identity"
	case KindSource:
		return "source"
	case KindSink:
		return "sink"
	case KindSideEffect:
		return "effect"
	default:
		return "transform"
	}
}

// Kind describes the cap.
func (c Cap) Kind() CapKind {
	switch {
	case c.in.IsTop() && c.out.IsTop() && len(c.y.tags) == 0 && c.effect == EffectNone:
		return KindIdentity
	case c.in.IsVoid() && c.out.IsVoid():
		return KindSideEffect
	case c.in.IsVoid():
		return KindSource
	case c.out.IsVoid():
		return KindSink
	}
	return KindTransform
}
