// Package host drives cartridges: it starts their processes, makes their links live, and calls their capabilities as a CapDAG
// host does (spec/runtime.md section 12).
//
// A reader meets first [Start], which runs a program and returns a [Process]; [Connect], which makes a [Conn] of any pair of
// streams; and [Conn.Call], whose [Call] sends arguments and reads the answer at the same time.
//
// What may block: Connect and Start for the handshake, within its time limits; data calls of arguments for credit; reading an
// answer; Shutdown for the process. The reader of a link never waits for a consumer or a callback. A link ends with its streams, with the first
// breach of the protocol, or with Close; then every call on it ends with the reason. Known limits: one Conn is one cartridge;
// calls of the cartridge to others are answered NO_HANDLER.
package host
