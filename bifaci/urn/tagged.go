package urn

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Tagged is a URN of any prefix: PREFIX:TAGS. It is an immutable value; the zero value has no prefix and stands for no
// URN.
type Tagged struct {
	prefix string
	set    set
	text   string
}

// ParseTagged reads a tagged URN (spec/urn.md section 1). Errors are of type *ParseError.
func ParseTagged(text string) (Tagged, error) {
	prefix, s, _, err := parseSet(text, nil)
	if err != nil {
		return Tagged{}, err
	}
	return Tagged{prefix: prefix, set: s, text: s.canonical(prefix, text)}, nil
}

// parseSet reads a tagged URN without writing its canonical form. The tags go into room, which is then owned by the set;
// body is the offset of the tags.
func parseSet(text string, room []tag) (prefix string, s set, body int, err *ParseError) {
	prefix, body, err = split(text)
	if err == nil {
		var tags []tag
		if tags, err = scan(text, body, room); err == nil {
			return prefix, newSet(tags), body, nil
		}
	}
	err.URN = text
	return "", set{}, 0, err
}

// NewTagged builds a tagged URN from a map of keys to stored values. Errors are of type *ParseError.
func NewTagged(prefix string, tags map[string]string) (Tagged, error) {
	lower := strings.ToLower(prefix)
	first, _ := utf8.DecodeRuneInString(prefix)
	switch {
	case prefix == "":
		return Tagged{}, fault(EmptyPrefix, 0, "no prefix")
	case unicode.IsSpace(first), strings.Contains(prefix, ":"), !utf8.ValidString(prefix):
		return Tagged{}, fault(InvalidCharacter, 0, "prefix %s: it cannot begin with white space or contain a colon",
			quoted(prefix))
	}
	s, err := setFromMap(tags)
	if err != nil {
		return Tagged{}, err
	}
	return makeTagged(lower, s), nil
}

// setFromMap goes through the keys in order, so that the same map always gives the same error.
func setFromMap(tags map[string]string) (set, *ParseError) {
	keys := make([]string, 0, len(tags))
	for key := range tags {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	list := make([]tag, 0, len(keys))
	seen := make(map[string]struct{}, len(keys))
	for _, key := range keys {
		t, err := newTag(key, tags[key])
		if err != nil {
			return set{}, err
		}
		if _, ok := seen[t.key]; ok {
			return set{}, fault(DuplicateKey, 0, "key %s is given in two spellings", quoted(t.key))
		}
		seen[t.key] = struct{}{}
		list = append(list, t)
	}
	return newSet(list), nil
}

func makeTagged(prefix string, s set) Tagged {
	return Tagged{prefix: prefix, set: s, text: s.canonical(prefix, "")}
}

// String gives the canonical form (spec/urn.md section 3); "" for the zero value.
func (u Tagged) String() string { return u.text }

// IsZero reports the zero value.
func (u Tagged) IsZero() bool { return u.text == "" }

// Prefix gives what stands before the first colon, in lower case.
func (u Tagged) Prefix() string { return u.prefix }

// Tag gives the stored value of a key in any case.
func (u Tagged) Tag(key string) (value string, ok bool) { return u.set.stored(key) }

// Tags gives the stored values of all keys. The caller may keep and change the map.
func (u Tagged) Tags() map[string]string { return u.set.toMap() }

func (s *set) toMap() map[string]string {
	tags := make(map[string]string, len(s.tags))
	for _, t := range s.tags {
		tags[t.key] = t.stored()
	}
	return tags
}

// Specificity is the sum of the scores of all tags (spec/urn.md section 6), 0 or more.
func (u Tagged) Specificity() int { return u.set.score }

// WithTag gives a copy in which the key has this stored value.
func (u Tagged) WithTag(key, value string) (Tagged, error) {
	t, err := newTag(key, value)
	if err != nil {
		return Tagged{}, err
	}
	return makeTagged(u.prefix, u.set.with(t)), nil
}

// WithoutTag gives a copy that lacks the key, or u itself when it has no such key.
func (u Tagged) WithoutTag(key string) Tagged {
	key = strings.ToLower(key)
	if _, ok := u.set.find(key); !ok {
		return u
	}
	return makeTagged(u.prefix, u.set.without(key))
}

// Merge gives the tags of both; where both have a key, the tag of o counts.
func (u Tagged) Merge(o Tagged) (Tagged, error) {
	if err := u.samePrefix("merge", o); err != nil {
		return Tagged{}, err
	}
	merged := slices.Clone(o.set.tags)
	for _, t := range u.set.tags {
		if _, ok := o.set.find(t.key); !ok {
			merged = append(merged, t)
		}
	}
	return makeTagged(u.prefix, newSet(merged)), nil
}

// ConformsTo reports u ⪯ o: everything u describes is described by o too (spec/urn.md 5.2). What u does not mention, it
// says nothing about. Like every relation it fails with PrefixMismatch when the prefixes differ.
func (u Tagged) ConformsTo(o Tagged) (bool, error) { return u.relate("compare", o, conforms) }

// Accepts reports o ⪯ u.
func (u Tagged) Accepts(o Tagged) (bool, error) { return o.ConformsTo(u) }

// Meets reports that one thing could be described by both. It is symmetric.
func (u Tagged) Meets(o Tagged) (bool, error) { return u.relate("compare", o, meets) }

// Satisfies reports u ⊨ o: u is read as a complete thing, which lacks every key that it does not mention, and fits o.
func (u Tagged) Satisfies(o Tagged) (bool, error) { return u.relate("compare", o, satisfies) }

// Equivalent reports u ≡ o: each conforms to the other. Such URNs differ at most in ?x tags.
func (u Tagged) Equivalent(o Tagged) (bool, error) { return u.relate("compare", o, equivalent) }

// Comparable reports that one of the two conforms to the other.
func (u Tagged) Comparable(o Tagged) (bool, error) { return u.relate("compare", o, related) }

func related(a, b *set) bool { return conforms(a, b) || conforms(b, a) }

func (u Tagged) relate(verb string, o Tagged, relation func(a, b *set) bool) (bool, error) {
	if err := u.samePrefix(verb, o); err != nil {
		return false, err
	}
	return relation(&u.set, &o.set), nil
}

func (u Tagged) samePrefix(verb string, o Tagged) error {
	if u.prefix == o.prefix {
		return nil
	}
	return impossible(PrefixMismatch, "cannot %s %s with %s: the prefixes differ", verb, quoted(u.text), quoted(o.text))
}

// MarshalText gives the canonical form; the zero value has none and is an error.
func (u Tagged) MarshalText() ([]byte, error) { return marshal(u.text) }

// UnmarshalText reads any spelling.
func (u *Tagged) UnmarshalText(text []byte) (err error) {
	*u, err = ParseTagged(string(text))
	return err
}

func marshal(text string) ([]byte, error) {
	if text == "" {
		return nil, impossible(Empty, "the zero value stands for no URN and has no text")
	}
	return []byte(text), nil
}
