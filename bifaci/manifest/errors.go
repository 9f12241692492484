package manifest

import (
	"errors"
	"fmt"
	"strings"
)

// ErrInvalid matches every fault of a manifest or an install record.
var ErrInvalid = errors.New("manifest is invalid")

// ErrIdentityMissing matches the fault that no cap is equivalent to the identity cap. It matches [ErrInvalid] too.
var ErrIdentityMissing = errors.New("manifest does not declare the identity cap")

// Code names the rule that a fault breaks (spec/manifest-cli.md section 5).
type Code string

// The codes. The rules with numbers are about one cap.
const (
	CodeJSON        Code = "JSON"         // not a JSON object, or a key twice in one
	CodeField       Code = "FIELD"        // a key is missing or its value has the wrong type
	CodeChannel     Code = "CHANNEL"      // neither release nor nightly
	CodeRegistryURL Code = "REGISTRY_URL" // not a URL
	CodeURN         Code = "URN"          // not a cap URN: CU1, CU2, CU3 and all other faults of the parser
	CodeMedia       Code = "MEDIA"        // not a media URN
	CodeOutput      Code = "OUTPUT"       // unknown key in an output
	CodeDuplicate   Code = "XV1"          // two caps with one URN
	CodePool        Code = "POOL"         // pool declarations, section 6
	CodeIdentity    Code = "IDENTITY"     // no identity cap

	Rule1  Code = "RULE1"  // two arguments have one media URN
	Rule2  Code = "RULE2"  // an argument has no source
	Rule3  Code = "RULE3"  // different content URNs
	Rule4  Code = "RULE4"  // two sources of one kind
	Rule5  Code = "RULE5"  // two arguments at one position
	Rule6  Code = "RULE6"  // positions are not 0, 1, 2, …
	Rule7  Code = "RULE7"  // position and flag on one argument
	Rule8  Code = "RULE8"  // malformed source
	Rule9  Code = "RULE9"  // two arguments have one flag
	Rule10 Code = "RULE10" // reserved flag
	Rule11 Code = "RULE11" // stdin sources do not fit the cap's input
	Rule12 Code = "RULE12" // unknown key in an argument
	Rule13 Code = "RULE13" // slug or alias
	Rule14 Code = "RULE14" // an argument other than the main input streams
)

// Error is one fault.
type Error struct {
	Code   Code
	Where  string // the cap, argument, pool or field at fault; empty for the manifest as a whole
	Detail string // what is wrong and what would be right
	Err    error  // the error of the URN or JSON parser, or nil
}

// Error begins with the rule's name and is one line.
func (e *Error) Error() string {
	text := string(e.Code) + ": "
	if e.Where != "" {
		text += e.Where + ": "
	}
	text += e.Detail
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return strings.ReplaceAll(text, "\n", " ")
}

// Is matches [ErrInvalid], and [ErrIdentityMissing] when that is the fault.
func (e *Error) Is(target error) bool {
	return target == ErrInvalid || target == ErrIdentityMissing && e.Code == CodeIdentity
}

func (e *Error) Unwrap() error { return e.Err }

// Problems are all faults that were found, at least one, in the order of spec/manifest-cli.md section 5. errors.As with an
// [*Error] gives the first. Beyond a thousand faults the search goes on and no more are kept.
type Problems []*Error

// mostKept bounds the memory that the faults of a hostile manifest take: without it, megabytes of wrong values would
// become hundreds of megabytes of explanations.
const mostKept = 1000

// mostInText bounds how many faults the text of Problems tells; a hostile manifest has as many as it likes.
const mostInText = 10

// Error is one line with | between the faults. It tells the first ten and counts the others.
func (p Problems) Error() string {
	var texts []string
	for _, e := range p[:min(len(p), mostInText)] {
		texts = append(texts, e.Error())
	}
	if more := len(p) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(texts, " | ")
}

// Unwrap gives the faults one by one to errors.Is and errors.As.
func (p Problems) Unwrap() []error {
	errs := make([]error, len(p))
	for i, e := range p {
		errs[i] = e
	}
	return errs
}

// orNil is the error to return: nil when nothing was found.
func (p Problems) orNil() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

// add notes a fault.
func (p *Problems) add(code Code, where, format string, args ...any) {
	if len(*p) < mostKept {
		*p = append(*p, &Error{Code: code, Where: where, Detail: fmt.Sprintf(format, args...)})
	}
}

// addErr notes a fault that another parser has found.
func (p *Problems) addErr(code Code, where, detail string, err error) {
	if len(*p) < mostKept {
		*p = append(*p, &Error{Code: code, Where: where, Detail: detail, Err: err})
	}
}

// within puts a place before the place of another.
func within(outer, inner string) string {
	if outer == "" {
		return inner
	}
	return outer + ": " + inner
}
