// Package urn reads, writes and compares the three kinds of URN of the protocol (spec/urn.md): tagged URNs, media URNs
// that say what data is, and cap URNs that say what a capability does.
//
// A reader meets first [Media] and [Cap], both immutable values that are parsed once and then compared without
// allocating, and [Index], which finds the handler for a request. [Tagged] is the form under both.
//
// Three relations look alike and must not be mixed up (spec/urn.md 5.5):
//
//   - ConformsTo compares two descriptions: is everything that the one describes described by the other as well?
//   - Satisfies asks whether an existing thing, whose media is complete, fits a description.
//   - Meets asks whether something could be described by both. It never decides where a request goes.
//
// Handlers are found with [Cap.IsDispatchable] and [Best] only.
//
// A tag's stored value is the text that the protocol passes around for it: "*" for a bare x, "?" for ?x, "!" for !x,
// "?=v" for x?=v, "!=v" for x!=v, and the value itself for x=v. Functions that take or give a value mean this one.
//
// Nothing here blocks, starts a goroutine or keeps state outside of an Index; every value may be shared between
// goroutines. Bad input is a [*ParseError], bad use of good input an [*OpError]; both name a [Reason] that errors.Is
// finds.
package urn
