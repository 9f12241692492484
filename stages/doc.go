// Package stages holds the stages that frames pass between a pipe and a handler, each usable alone between two
// channels and fused by the runtime where neighbours never wait:
//
//	decode ▶ (reorder) ▶ route into a [Receiver] ▶ [Inbox] ▶ reassemble ▶ handler ▶ [Sender]: chunk ▶ gate ▶ [Lanes] ▶ encode
//
// A reader meets first [Decoder], which turns bytes into frames and decides who owns a payload; [Receiver], which holds
// one direction of one request to the rules of spec/runtime.md 3.4 and gives its streams out as [Inbox] values; [Sender],
// which cuts one outgoing stream into credited CHUNKs; and [Lanes], the bounded hand-off to the one [Lanes.Run] that writes.
//
// Each also has a form that implements stream.Stage over the same core, for tests and for pipelines of users: [DecodeStage],
// [ReorderStage], [RouteStage], [ReassembleStage], [ChunkStage], [GateStage], [NumberStage], [EncodeStage]. There a [Parcel] owns
// its memory, as its neighbours run on goroutines of their own; the runtime passes the same from call to call.
//
// What may wait: Decoder for its input, Inbox.Next for a chunk, Sender for credit and room in the lane, Lanes.Run for the
// output. Nothing that route calls (Receiver, Lanes.Control, Lanes.Own, grants) ever waits. Ends and errors travel downstream as
// values, stopping travels upstream as a closed gate or an ended context.
package stages
