package urn

import (
	"strings"
)

const mediaPrefix = "media"

// Media is a media URN: it describes data. It is an immutable value. The zero value stands for no URN; the relations and
// predicates treat it like media:, which describes any data.
type Media struct {
	set  set
	text string
}

// ParseMedia reads a media URN in any spelling (spec/urn.md section 7). Errors are of type *ParseError: those of the
// tagged form, InvalidPrefix, and VoidNotAtomic.
func ParseMedia(text string) (Media, error) {
	s, err := parseMediaSet(text, nil)
	if err != nil {
		return Media{}, err
	}
	return Media{set: s, text: s.canonical(mediaPrefix, text)}, nil
}

// MustMedia is ParseMedia for texts of the program itself; it panics on an error.
func MustMedia(text string) Media {
	m, err := ParseMedia(text)
	if err != nil {
		panic(err)
	}
	return m
}

func parseMediaSet(text string, room []tag) (set, *ParseError) {
	prefix, s, body, err := parseSet(text, room)
	if err != nil {
		return set{}, err
	}
	if prefix != mediaPrefix {
		err = fault(InvalidPrefix, 0, "prefix %s where \"media\" should be", quoted(prefix))
	} else if err = checkVoid(&s); err != nil {
		err.Offset = offsetOf(text, body, keyVoid)
	}
	if err != nil {
		err.URN = text
		return set{}, err
	}
	return s, nil
}

const keyVoid = "void"

// checkVoid refuses the key void, in any form, beside another key.
func checkVoid(s *set) *ParseError {
	if len(s.tags) < 2 {
		return nil
	}
	if _, ok := s.find(keyVoid); ok {
		return fault(VoidNotAtomic, 0, "void beside other tags; void is no data and has no properties")
	}
	return nil
}

// MediaFromTags builds a media URN from a map of keys to stored values. Errors are of type *ParseError.
func MediaFromTags(tags map[string]string) (Media, error) {
	s, err := setFromMap(tags)
	if err != nil {
		return Media{}, err
	}
	return makeMedia(s)
}

func makeMedia(s set) (Media, error) {
	if err := checkVoid(&s); err != nil {
		return Media{}, err
	}
	return Media{set: s, text: s.canonical(mediaPrefix, "")}, nil
}

// anyData is media:.
func anyData() Media { return Media{text: MediaTop} }

// String gives the canonical form (spec/urn.md section 3); "" for the zero value.
func (m Media) String() string { return m.text }

// IsZero reports the zero value.
func (m Media) IsZero() bool { return m.text == "" }

// Tagged gives the same URN as a tagged URN.
func (m Media) Tagged() Tagged { return Tagged{prefix: mediaPrefix, set: m.set, text: m.text} }

// Tag gives the stored value of a key in any case: "*" for a bare key, the value itself for key=value.
func (m Media) Tag(key string) (value string, ok bool) { return m.set.stored(key) }

// Tags gives the stored values of all keys. The caller may keep and change the map.
func (m Media) Tags() map[string]string { return m.set.toMap() }

// Specificity is the sum of the scores of all tags (spec/urn.md section 6), 0 or more.
func (m Media) Specificity() int { return m.set.score }

// WithTag gives a copy in which the key has this stored value. The copy is checked as a media URN again.
func (m Media) WithTag(key, value string) (Media, error) {
	t, err := newTag(key, value)
	if err != nil {
		return Media{}, err
	}
	return makeMedia(m.set.with(t))
}

// WithoutTag gives a copy that lacks the key.
func (m Media) WithoutTag(key string) Media {
	s := m.set.without(strings.ToLower(key))
	return Media{set: s, text: s.canonical(mediaPrefix, "")}
}

// ConformsTo reports m ⪯ o: everything m describes is described by o too (spec/urn.md 5.2). Use it between two declared
// types. What m does not mention, it says nothing about.
func (m Media) ConformsTo(o Media) bool { return conforms(&m.set, &o.set) }

// Accepts reports o ⪯ m.
func (m Media) Accepts(o Media) bool { return conforms(&o.set, &m.set) }

// Meets reports that one thing could be described by both. It is symmetric, and too weak to route by.
func (m Media) Meets(o Media) bool { return meets(&m.set, &o.set) }

// Satisfies reports m ⊨ o: a value that exists, with m as its complete media, fits the description o. Keys that m does
// not mention are absent; o stays open.
func (m Media) Satisfies(o Media) bool { return satisfies(&m.set, &o.set) }

// Equivalent reports m ≡ o: each conforms to the other. Such URNs differ at most in ?x tags.
func (m Media) Equivalent(o Media) bool { return equivalent(&m.set, &o.set) }

// Comparable reports that one of the two conforms to the other.
func (m Media) Comparable(o Media) bool { return related(&m.set, &o.set) }

// Compare orders media URNs by their sorted (key, stored value) pairs, for sorting only. It is -1, 0 or 1.
func (m Media) Compare(o Media) int { return compare(&m.set, &o.set) }

// MarshalText gives the canonical form; the zero value has none and is an error.
func (m Media) MarshalText() ([]byte, error) { return marshal(m.text) }

// UnmarshalText reads any spelling.
func (m *Media) UnmarshalText(text []byte) (err error) {
	*m, err = ParseMedia(string(text))
	return err
}

// Join gives a media URN to which every input conforms (spec/urn.md 7.5): media: for none, the input itself for one, else
// the keys that all have, with their stored value where it is the same, bare where plain values differ.
func Join(inputs ...Media) Media {
	if len(inputs) == 0 {
		return anyData()
	}
	joined := inputs[0].set
	for i := range inputs[1:] {
		joined = join(&joined, &inputs[1+i].set)
	}
	// Keys of a join stand in every input, so void cannot come to stand beside another key.
	return Media{set: joined, text: joined.canonical(mediaPrefix, "")}
}

func join(a, b *set) set {
	var kept []tag
	for _, t := range a.tags {
		o, ok := b.find(t.key)
		switch {
		case !ok:
		case t.sameStored(o):
			kept = append(kept, t)
		case isPlain(t) && isPlain(o):
			kept = append(kept, tag{key: t.key, form: Present})
		}
	}
	return newSet(kept)
}

// isPlain reports a stored value that does not begin with ? or !.
func isPlain(t tag) bool {
	stored := t.stored()
	return !strings.HasPrefix(stored, storedAny) && !strings.HasPrefix(stored, storedAbsent)
}
