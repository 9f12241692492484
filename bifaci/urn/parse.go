package urn

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// isKeyRune reports a character that may stand in a key.
func isKeyRune(r rune) bool {
	switch {
	case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '-' <= r && r <= ':', r == '_': // '-' … ':' is - . / 0…9 :
		return true
	case r < utf8.RuneSelf:
		return false
	}
	return unicode.IsLetter(r) || unicode.IsDigit(r)
}

// isValueRune reports a character that may stand in a value without quotes.
func isValueRune(r rune) bool { return isKeyRune(r) || isQualifier(r) || r == '*' }

func isQualifier(r rune) bool { return r == '?' || r == '!' }

// split checks the text as a whole and gives the prefix, in lower case, and the offset of the body.
func split(text string) (prefix string, body int, err *ParseError) {
	if first, _ := utf8.DecodeRuneInString(text); unicode.IsSpace(first) {
		return "", 0, fault(WhitespaceInInput, 0, "white space before the URN; remove it")
	}
	if last, size := utf8.DecodeLastRuneInString(text); unicode.IsSpace(last) {
		return "", 0, fault(WhitespaceInInput, len(text)-size, "white space after the URN; remove it")
	}
	if text == "" {
		return "", 0, fault(Empty, 0, "no text; the smallest URN is a prefix and a colon")
	}
	if !utf8.ValidString(text) {
		return "", 0, fault(InvalidCharacter, firstInvalid(text), "not UTF-8")
	}
	colon := strings.IndexByte(text, ':')
	if colon < 0 {
		return "", 0, fault(MissingPrefix, len(text), "no colon; a URN is PREFIX:TAGS")
	}
	if colon == 0 {
		return "", 0, fault(EmptyPrefix, 0, "nothing before the colon; a URN is PREFIX:TAGS")
	}
	return strings.ToLower(text[:colon]), colon + 1, nil
}

// firstInvalid gives the offset of the first byte that is not UTF-8.
func firstInvalid(text string) int {
	for at := 0; at < len(text); {
		r, size := utf8.DecodeRuneInString(text[at:])
		if r == utf8.RuneError && size == 1 {
			return at
		}
		at += size
	}
	return len(text)
}

// fewTags is up to where a duplicate key is looked for in the list itself. A stranger may send a million tags, so above
// it there is a map.
const fewTags = 16

// scan reads the tags of text from body on and appends them to dst, in the order of the text. Keys and values are parts
// of text wherever lowering and unescaping change nothing.
func scan(text string, body int, dst []tag) ([]tag, *ParseError) {
	var seen map[string]struct{}
	first := len(dst)
	for at := body; ; {
		for at < len(text) && text[at] == ';' {
			at++
		}
		if at == len(text) {
			return dst, nil
		}
		t, next, err := scanTag(text, at)
		if err != nil {
			return nil, err
		}
		if seen == nil && len(dst)-first == fewTags {
			seen = make(map[string]struct{}, 4*fewTags)
			for _, old := range dst[first:] {
				seen[old.key] = struct{}{}
			}
		}
		if isRepeated(t.key, dst[first:], seen) {
			return nil, fault(DuplicateKey, at, "key %s stands here for the second time", quoted(t.key))
		}
		if isNumeric(t.key) {
			return nil, fault(NumericKey, at, "key %s has digits only; add a letter", quoted(t.key))
		}
		if seen != nil {
			seen[t.key] = struct{}{}
		}
		if dst == nil {
			dst = make([]tag, 0, min(1+strings.Count(text[at:], ";"), fewTags))
		}
		dst = append(dst, t)
		at = next
	}
}

func isRepeated(key string, tags []tag, seen map[string]struct{}) bool {
	if seen != nil {
		_, ok := seen[key]
		return ok
	}
	for i := range tags {
		if tags[i].key == key {
			return true
		}
	}
	return false
}

func isNumeric(key string) bool {
	for i := 0; i < len(key); i++ {
		if key[i] < '0' || key[i] > '9' {
			return false
		}
	}
	return true
}

// scanTag reads the tag that begins at text[at] and gives the offset behind it, where ";" or the end is.
func scanTag(text string, at int) (t tag, next int, err *ParseError) {
	qualifier := byte(0)
	if isQualifier(rune(text[at])) {
		qualifier = text[at]
		if at++; at == len(text) {
			return tag{}, 0, fault(EmptyTagComponent, at, "%q without a key", qualifier)
		}
	}
	key, at, err := scanKey(text, at)
	if err != nil {
		return tag{}, 0, err
	}
	if at < len(text) && isQualifier(rune(text[at])) {
		if qualifier != 0 {
			return tag{}, 0, fault(InvalidCharacter, at, "key %s has two of the marks ? and !", quoted(key))
		}
		qualifier = text[at]
		at++
	}
	if at == len(text) || text[at] == ';' {
		return tag{key: key, form: bareForm(qualifier)}, at, nil
	}
	if text[at] != '=' {
		return tag{}, 0, fault(InvalidCharacter, at, "%q after key %s; only \"=\" or \";\" can follow",
			shown(text, at), quoted(key))
	}
	equals := at
	value, at, err := scanValue(text, at+1, key)
	if err != nil {
		return tag{}, 0, err
	}
	stored := value
	form, value := restriction(stored)
	if qualifier != 0 {
		form, value = qualifiedForm(qualifier), stored
	}
	if kind, why := checkRestriction(form, value); kind != "" {
		return tag{}, 0, fault(kind, equals, "key %s: %s", quoted(key), why)
	}
	return tag{key: key, value: value, form: form}, at, nil
}

func bareForm(qualifier byte) Form {
	switch qualifier {
	case '?':
		return Any
	case '!':
		return Absent
	default:
		return Present
	}
}

func qualifiedForm(qualifier byte) Form {
	if qualifier == '?' {
		return AbsentOrNot
	}
	return Not
}

// checkRestriction refuses the values that a form cannot carry, because no URN text stands for them: none at all, and a
// lone sigil after a mark. An empty kind means that all is well.
func checkRestriction(form Form, value string) (kind Reason, why string) {
	switch form {
	case Any, Present, Absent:
		return "", ""
	case Exact:
		if value == "" {
			return EmptyTagComponent, "no value after \"=\""
		}
	default:
		switch value {
		case "":
			return EmptyTagComponent, "no value after the mark and \"=\""
		case storedPresent, storedAny, storedAbsent:
			return InvalidCharacter, "the value " + value + " cannot follow a mark; leave out one of the two"
		}
	}
	return "", ""
}

// scanKey reads a key of at least one character, in lower case.
func scanKey(text string, at int) (key string, next int, err *ParseError) {
	next = at
	for next < len(text) {
		r, size := runeAt(text, next)
		if !isKeyRune(r) {
			break
		}
		next += size
	}
	if next == at {
		return "", 0, fault(InvalidCharacter, at, "%q where a key should begin", shown(text, at))
	}
	return strings.ToLower(text[at:next]), next, nil
}

// scanValue reads the value that begins at text[at], behind "=".
func scanValue(text string, at int, key string) (value string, next int, err *ParseError) {
	if at == len(text) || text[at] == ';' {
		return "", 0, fault(EmptyTagComponent, at, "no value for key %s after \"=\"", quoted(key))
	}
	if text[at] == '"' {
		return scanQuoted(text, at, key)
	}
	next = at
	for next < len(text) && text[next] != ';' {
		r, size := runeAt(text, next)
		if !isValueRune(r) {
			return "", 0, fault(InvalidCharacter, next, "%q in the value of key %s; put the value in quotes", r, quoted(key))
		}
		next += size
	}
	return strings.ToLower(text[at:next]), next, nil
}

// scanQuoted reads a value whose opening quote is text[at].
func scanQuoted(text string, at int, key string) (value string, next int, err *ParseError) {
	escapes := false
	for next = at + 1; next < len(text) && text[next] != '"'; next++ {
		if text[next] != '\\' {
			continue
		}
		escapes = true
		if next++; next < len(text) && text[next] != '"' && text[next] != '\\' {
			return "", 0, fault(InvalidEscapeSequence, next-1, `\%c in the value of key %s; only \" and \\ are escapes`,
				shown(text, next), quoted(key))
		}
	}
	if next >= len(text) {
		return "", 0, fault(UnterminatedQuote, at, "no closing quote for the value of key %s", quoted(key))
	}
	value = text[at+1 : next]
	if next++; next < len(text) && text[next] != ';' {
		return "", 0, fault(InvalidCharacter, next, "%q after the closing quote of key %s; only \";\" can follow",
			shown(text, next), quoted(key))
	}
	if escapes {
		value = unescape(value)
	}
	return value, next, nil
}

// unescape takes away the backslashes of a quoted value that is known to be well formed.
func unescape(value string) string {
	plain := make([]byte, 0, len(value))
	for i := 0; i < len(value); i++ {
		if value[i] == '\\' {
			i++
		}
		plain = append(plain, value[i])
	}
	return string(plain)
}

// runeAt decodes the character at text[at]; nearly always it is one byte.
func runeAt(text string, at int) (r rune, size int) {
	if text[at] < utf8.RuneSelf {
		return rune(text[at]), 1
	}
	return utf8.DecodeRuneInString(text[at:])
}

// shown gives the character at text[at] for an error message.
func shown(text string, at int) rune {
	r, _ := runeAt(text, at)
	return r
}

// offsetOf finds the tag of a key, in lower case, in a text that scan has accepted. Only errors ask for it, which is why
// tags do not keep their place.
func offsetOf(text string, body int, key string) int {
	for at := body; at < len(text); {
		if text[at] == ';' {
			at++
			continue
		}
		t, next, err := scanTag(text, at)
		if err != nil {
			break
		}
		if t.key == key {
			return at
		}
		at = next
	}
	return body
}

// newTag makes a tag from a key in any case and a stored value, for everything that builds URNs from parts.
func newTag(key, stored string) (tag, *ParseError) {
	if key == "" {
		return tag{}, fault(EmptyTagComponent, 0, "a tag without a key")
	}
	lower, next, err := scanKey(key, 0)
	if err != nil || next != len(key) || !utf8.ValidString(key) {
		return tag{}, fault(InvalidCharacter, 0, "key %s has a character that keys cannot have", quoted(key))
	}
	if !utf8.ValidString(stored) {
		return tag{}, fault(InvalidCharacter, 0, "the value of key %s is not UTF-8", quoted(lower))
	}
	form, value := restriction(stored)
	if kind, why := checkRestriction(form, value); kind != "" {
		return tag{}, fault(kind, 0, "key %s: %s", quoted(lower), why)
	}
	if isNumeric(lower) {
		return tag{}, fault(NumericKey, 0, "key %s has digits only; add a letter", quoted(lower))
	}
	return tag{key: lower, value: value, form: form}, nil
}
