package urn

import (
	"slices"
	"strings"
	"unicode"
)

// set is a list of tags in ascending order of their keys, with what comparing it needs again and again.
type set struct {
	tags     []tag
	required uint64 // one bit per key that must be present (64 bits for all keys, so keys share them)
	score    int    // sum of the tags' scores
}

// newSet takes over tags, which hold no key twice, and puts them in order.
func newSet(tags []tag) set {
	if len(tags) == 0 {
		return set{}
	}
	slices.SortFunc(tags, byKey)
	s := set{tags: tags}
	for i := range tags {
		s.score += tags[i].form.score()
		if tags[i].form.presence() {
			s.required |= 1 << (fnv(tags[i].key) & 63)
		}
	}
	return s
}

func byKey(a, b tag) int { return strings.Compare(a.key, b.key) }

// fnv is the 32-bit FNV-1a hash.
func fnv(text string) uint32 {
	hash := uint32(2166136261)
	for i := 0; i < len(text); i++ {
		hash = (hash ^ uint32(text[i])) * 16777619
	}
	return hash
}

// open reports that the set restricts nothing: it has no tags or only ?x tags, which are the ones that score 0.
func (s *set) open() bool { return s.score == 0 }

// find gives the tag of a key that is already in lower case.
func (s *set) find(key string) (tag, bool) {
	at, ok := slices.BinarySearchFunc(s.tags, key, func(t tag, key string) int { return strings.Compare(t.key, key) })
	if !ok {
		return tag{}, false
	}
	return s.tags[at], true
}

// stored gives the stored value of a key in any case.
func (s *set) stored(key string) (string, bool) {
	t, ok := s.find(strings.ToLower(key))
	if !ok {
		return "", false
	}
	return t.stored(), true
}

// hasForm reports that the key, in lower case, has a tag of this form.
func (s *set) hasForm(key string, form Form) bool {
	t, ok := s.find(key)
	return ok && t.form == form
}

// with gives a copy in which t stands for its key.
func (s *set) with(t tag) set {
	tags := make([]tag, 0, len(s.tags)+1)
	for _, old := range s.tags {
		if old.key != t.key {
			tags = append(tags, old)
		}
	}
	return newSet(append(tags, t))
}

// without gives a copy that lacks the key, which is in lower case.
func (s *set) without(key string) set {
	return newSet(slices.DeleteFunc(slices.Clone(s.tags), func(t tag) bool { return t.key == key }))
}

// lacks reports that b demands a key that s does not demand, so that s neither conforms to b nor satisfies it. It may
// overlook one, as keys share bits.
func (s *set) lacks(b *set) bool { return b.required&^s.required != 0 }

// conforms is a ⪯ b: inside for every key, where a key that a lacks is anything.
func conforms(a, b *set) bool { return within(a, b, tag{form: Any}) }

// satisfies is a ⊨ b: the same, but a key that a lacks is absent.
func satisfies(a, b *set) bool { return within(a, b, tag{form: Absent}) }

// within walks both sorted lists once. Keys that only a has need no look: everything is inside "missing".
func within(a, b *set, missing tag) bool {
	if a.lacks(b) {
		return false
	}
	rest := a.tags
	for i := range b.tags {
		want := &b.tags[i]
		for len(rest) > 0 && rest[0].key < want.key {
			rest = rest[1:]
		}
		have := &missing
		if len(rest) > 0 && rest[0].key == want.key {
			have = &rest[0]
		}
		if !inside(*have, *want) {
			return false
		}
	}
	return true
}

// equivalent is a ≡ b: both allow the same states.
func equivalent(a, b *set) bool {
	return a.score == b.score && conforms(a, b) && conforms(b, a)
}

// meets reports that overlap holds for every key. A missing key overlaps with everything.
func meets(a, b *set) bool {
	rest := a.tags
	for i := range b.tags {
		for len(rest) > 0 && rest[0].key < b.tags[i].key {
			rest = rest[1:]
		}
		if len(rest) > 0 && rest[0].key == b.tags[i].key && !overlap(rest[0], b.tags[i]) {
			return false
		}
	}
	return true
}

// compare orders sets by their (key, stored value) pairs, lexicographically.
func compare(a, b *set) int {
	return slices.CompareFunc(a.tags, b.tags, func(x, y tag) int {
		if c := strings.Compare(x.key, y.key); c != 0 {
			return c
		}
		return strings.Compare(x.stored(), y.stored())
	})
}

// appendTo writes the canonical form of the tags.
func (s *set) appendTo(dst []byte) []byte {
	for i, t := range s.tags {
		if i > 0 {
			dst = append(dst, ';')
		}
		dst = t.appendTo(dst)
	}
	return dst
}

// canonical gives prefix, colon and the tags. It gives text itself when that is the same.
func (s *set) canonical(prefix, text string) string {
	var room [128]byte
	dst := append(append(room[:0], prefix...), ':')
	if dst = s.appendTo(dst); string(dst) == text {
		return text
	}
	return string(dst)
}

func (t tag) appendTo(dst []byte) []byte {
	switch t.form {
	case Any:
		return append(append(dst, '?'), t.key...)
	case Absent:
		return append(append(dst, '!'), t.key...)
	}
	dst = append(dst, t.key...)
	switch t.form {
	case Present:
		return dst
	case AbsentOrNot:
		dst = append(dst, '?')
	case Not:
		dst = append(dst, '!')
	}
	return appendValue(append(dst, '='), t.value)
}

// appendValue writes a value, in quotes when it would not be read as the same value without them (spec/urn.md
// section 3 and D2).
func appendValue(dst []byte, value string) []byte {
	if !needsQuotes(value) {
		return append(dst, value...)
	}
	dst = append(dst, '"')
	for i := 0; i < len(value); i++ {
		if value[i] == '"' || value[i] == '\\' {
			dst = append(dst, '\\')
		}
		dst = append(dst, value[i])
	}
	return append(dst, '"')
}

func needsQuotes(value string) bool {
	for _, r := range value {
		if !isValueRune(r) || unicode.IsUpper(r) || unicode.ToLower(r) != r {
			return true
		}
	}
	return false
}
