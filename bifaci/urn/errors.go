package urn

import (
	"errors"
	"fmt"
)

// Reason is why a URN was refused. Its text is the code of spec/urn.md section 4, which vectors and other
// implementations use too. A Reason is an error, so that errors.Is(err, urn.VoidNotAtomic) works.
type Reason string

// Reasons of the tagged parser.
const (
	Empty                 Reason = "Empty"                 // no input
	WhitespaceInInput     Reason = "WhitespaceInInput"     // blanks before or after the URN
	MissingPrefix         Reason = "MissingPrefix"         // no ":"
	EmptyPrefix           Reason = "EmptyPrefix"           // ":" comes first
	InvalidCharacter      Reason = "InvalidCharacter"      // a character where it cannot stand, or bytes that are not UTF-8
	EmptyTagComponent     Reason = "EmptyTagComponent"     // a key or a value is missing
	DuplicateKey          Reason = "DuplicateKey"          // one key twice, in whatever forms
	NumericKey            Reason = "NumericKey"            // a key of digits only
	UnterminatedQuote     Reason = "UnterminatedQuote"     // the input ends within quotes
	InvalidEscapeSequence Reason = "InvalidEscapeSequence" // a backslash before anything but " and \
)

// Reasons of operations on tagged URNs.
const (
	PrefixMismatch   Reason = "PrefixMismatch"   // two URNs of different prefixes were to be related
	InvalidTagFormat Reason = "InvalidTagFormat" // a reserved key was given as an ordinary tag
)

// Reasons of media URNs.
const (
	InvalidPrefix Reason = "InvalidPrefix" // the prefix is not "media"
	VoidNotAtomic Reason = "VoidNotAtomic" // the key void beside another key
)

// Reasons of cap URNs.
const (
	MissingCapPrefix         Reason = "MissingCapPrefix"         // the prefix is not "cap"
	InvalidEffect            Reason = "InvalidEffect"            // effect is not declared, none, patch or unconstrained
	InvalidInSpec            Reason = "InvalidInSpec"            // in is not a media URN
	InvalidOutSpec           Reason = "InvalidOutSpec"           // out is not a media URN
	IllegalDeclaration       Reason = "IllegalDeclaration"       // nothing is said, or the effect contradicts in and out
	MissingInSpec            Reason = "MissingInSpec"            // a builder got no in
	MissingOutSpec           Reason = "MissingOutSpec"           // a builder got no out
	EmptyValue               Reason = "EmptyValue"               // a tag was to be changed to the empty value
	InvalidEffectApplication Reason = "InvalidEffectApplication" // the effect gives no media for this input
)

// Error gives the code.
func (r Reason) Error() string { return string(r) }

// ParseError says why a text, or the parts of a URN to be built, are no URN.
type ParseError struct {
	Kind   Reason
	URN    string // the text as it was given; empty when the URN was built from parts
	Offset int    // byte of URN at which the fault was seen, 0 … len(URN)
	Detail string // what stands there and what would be right
	Err    error  // the fault of a nested media URN, or nil
}

// maxQuoted bounds how much of a URN an error message repeats; the rest comes from a stranger and helps nobody.
const maxQuoted = 200

// Error names the URN, the place, the fault and its code.
func (e *ParseError) Error() string {
	if e.URN == "" {
		return fmt.Sprintf("urn: %s (%s)", e.Detail, e.Kind)
	}
	return fmt.Sprintf("urn %s: at byte %d: %s (%s)", quoted(e.URN), e.Offset, e.Detail, e.Kind)
}

// Is makes errors.Is(err, reason) true for the error's own reason.
func (e *ParseError) Is(target error) bool { return target == e.Kind }

// Unwrap gives the fault of a nested media URN.
func (e *ParseError) Unwrap() error { return e.Err }

// OpError says why an operation on valid URNs is impossible.
type OpError struct {
	Kind   Reason
	Detail string // names the URNs, what is wrong with them and what would be right
}

// Error gives the detail and the code.
func (e *OpError) Error() string { return fmt.Sprintf("urn: %s (%s)", e.Detail, e.Kind) }

// Is makes errors.Is(err, reason) true for the error's own reason.
func (e *OpError) Is(target error) bool { return target == e.Kind }

// ReasonOf gives the outermost reason of an error of this package; "" for any other error and for nil.
func ReasonOf(err error) Reason {
	var parse *ParseError
	if errors.As(err, &parse) {
		return parse.Kind
	}
	var op *OpError
	if errors.As(err, &op) {
		return op.Kind
	}
	return ""
}

// quoted gives the text in quotes, cut when it is long.
func quoted(text string) string {
	if len(text) <= maxQuoted {
		return fmt.Sprintf("%q", text)
	}
	return fmt.Sprintf("%q… (%d bytes)", text[:maxQuoted], len(text))
}

// fault is a *ParseError of which the parser that found it does not know the whole text.
func fault(kind Reason, offset int, format string, args ...any) *ParseError {
	return &ParseError{Kind: kind, Offset: offset, Detail: fmt.Sprintf(format, args...)}
}

// impossible is an *OpError.
func impossible(kind Reason, format string, args ...any) error {
	return &OpError{Kind: kind, Detail: fmt.Sprintf(format, args...)}
}
