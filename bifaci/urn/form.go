package urn

import "strings"

// Form is how a tag restricts its key (spec/urn.md section 2). Its number is the tag's score.
type Form uint8

// The six forms. A key without a tag allows the same as Any.
const (
	Any         Form = iota // ?x: anything
	AbsentOrNot             // x?=v: absent, or present with another value than v
	Present                 // x: present, with any value
	Not                     // x!=v: present with another value than v
	Exact                   // x=v: present with exactly v
	Absent                  // !x: absent
)

// String gives the form as it is written for a key x and a value v.
func (f Form) String() string {
	switch f {
	case Any:
		return "?x"
	case AbsentOrNot:
		return "x?=v"
	case Present:
		return "x"
	case Not:
		return "x!=v"
	case Exact:
		return "x=v"
	default:
		return "!x"
	}
}

// score is what the form counts in a specificity.
func (f Form) score() int { return int(f) }

// presence reports that the form demands the key.
func (f Form) presence() bool { return f == Present || f == Not || f == Exact }

// tag is one key with its restriction. value is empty unless the form carries one.
type tag struct {
	key   string
	value string
	form  Form
}

// The stored values without a value in them, and the marks before one.
const (
	storedPresent     = "*"
	storedAny         = "?"
	storedAbsent      = "!"
	markOfAbsentOrNot = "?="
	markOfNot         = "!="
)

// restriction reads a stored value. Quotes in the text of a URN do not protect a value from being read so.
func restriction(stored string) (Form, string) {
	switch stored {
	case storedPresent:
		return Present, ""
	case storedAny:
		return Any, ""
	case storedAbsent:
		return Absent, ""
	}
	if value, ok := strings.CutPrefix(stored, markOfAbsentOrNot); ok {
		return AbsentOrNot, value
	}
	if value, ok := strings.CutPrefix(stored, markOfNot); ok {
		return Not, value
	}
	return Exact, stored
}

// stored gives the stored value. It allocates for the two forms that are a mark and a value.
func (t tag) stored() string {
	switch t.form {
	case Any:
		return storedAny
	case AbsentOrNot:
		return markOfAbsentOrNot + t.value
	case Present:
		return storedPresent
	case Not:
		return markOfNot + t.value
	case Absent:
		return storedAbsent
	default:
		return t.value
	}
}

// sameStored reports that two tags have the same stored value.
func (t tag) sameStored(o tag) bool { return t.form == o.form && t.value == o.value }

// inside reports that every state which a allows is allowed by b (the first table of spec/urn.md 5.3).
func inside(a, b tag) bool {
	switch b.form {
	case Any:
		return true
	case AbsentOrNot:
		switch a.form {
		case Absent:
			return true
		case AbsentOrNot, Not:
			return a.value == b.value
		case Exact:
			return a.value != b.value
		}
		return false
	case Present:
		return a.form.presence()
	case Not:
		return a.form == Not && a.value == b.value || a.form == Exact && a.value != b.value
	case Exact:
		return a.form == Exact && a.value == b.value
	default:
		return a.form == Absent
	}
}

// overlap reports that some state is allowed by both (the second table of spec/urn.md 5.3). It is symmetric.
func overlap(a, b tag) bool {
	if a.form == Any || b.form == Any {
		return true
	}
	if a.form == Absent || b.form == Absent {
		return !a.form.presence() && !b.form.presence()
	}
	// Both allow a value now. There are infinitely many, so only an exact one can be left out by the other side. A bare
	// key has the empty value, which no exact one is.
	switch {
	case a.form == Exact && b.form == Exact:
		return a.value == b.value
	case a.form == Exact, b.form == Exact:
		return a.value != b.value
	}
	return true
}
