// Package host drives cartridges: it starts their processes, makes their links live, and calls their capabilities as a CapDAG
// host does (spec/runtime.md section 12).
//
// A reader meets first [New], whose [Host] runs any number of cartridges: [Host.Register] makes programs known, [Host.Call] finds the
// one that serves a cap, starts it if it must, and gives a [Call] that sends arguments and reads the answer at the same time. Under it
// are [Start], which runs one program and returns a [Process], and [Connect], which makes a [Conn] of any pair of streams.
//
// What may block: Call for the start of a cartridge and for room on its link, Connect and Start for the handshake, within its time
// limits; data calls of arguments for credit; reading an answer; Shutdown for processes. The reader of a link never waits for a
// consumer, a callback or another cartridge: what two cartridges send each other is passed on, or queued within their windows. A link
// ends with its streams, with the first breach of the protocol, or with Close; then every call on it ends with the reason.
//
// Known limits. Calls between cartridges need a [Host]; a single Conn answers them NO_HANDLER. What waits for a cartridge that does not
// read is bounded per link (16384 frames, 128 MiB); beyond that the calls of others towards it end with QUEUE_FULL.
package host
