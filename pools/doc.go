// Package pools decides which request may run now and which has to wait (spec/runtime.md section 5).
//
// A reader meets first [Table], the model that a runtime holds under one short lock; [Waiter], the node that a request
// embeds to stand in its line; and [States], the numbers of all pools as they travel in HELLO and in heartbeat replies.
//
// Every registered pattern is a pool of one (its singleton), a manifest declares shared pools over several patterns, and
// the pool named [All] holds every pattern. A request needs room in all pools of its pattern's chain at once or it waits
// in the one line of the runtime.
//
// The package is made of pure values: no goroutine, no clock, no lock, and no knowledge of URNs. Nothing here blocks. A
// pool that is named by a cap URN is named by the canonical spelling; that is the business of the caller. The
// laws are property tests against a model that searches its line from the front.
//
// Cost: an arrival, an end or a cancel looks at most once at every pattern that has somebody waiting, never at the
// requests behind the first one of each, so a line of 100 000 costs what a line of 10 costs.
package pools
