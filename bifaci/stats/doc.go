// Package stats counts what a link loses and what it may lose, and describes a running cartridge to whoever asks
// (spec/runtime.md section 11, spec/wire.md section 15).
//
// A frame that is not delivered is counted exactly once, in one of two families: [Drops] for frames lost because
// something went wrong, by reason and frame type, and [Stragglers] for frames that legally crossed their request's
// end. [Overruns] counts live items lost at the capture edge; they never were frames and are part of neither.
// [Recent], the ids that ended last, is what tells a straggler from a frame for an id that was never known.
//
// The counters are atomic: any goroutine may count and read at any time, nothing blocks and nothing ends.
// Their zero values are ready; none of them may be copied. Recent has no lock of its own, because it is only ever
// consulted together with a request table, under that table's lock.
//
// Frame types are given by their number on the wire, so that this package needs nothing of the others.
package stats
