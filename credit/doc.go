// Package credit is the flow control of one stream of chunks: a sender spends one credit per chunk, the
// receiver gives credits back as its consumer reads. It counts; it knows no bytes, no frames and no wire.
//
// Three types, in the order a reader meets them:
//
//   - [Gate] stands before a sender. [Gate.Acquire] waits until the receiver has granted enough.
//   - [Window] is the receiver's own account: whether a chunk may still arrive, and when a grant is due.
//   - [Router] finds the gate that an arriving grant belongs to, among the streams of one request in one direction.
//
// Only Gate.Acquire and Gate.AcquireUpTo wait. A grant, the end of their context or the end of the gate
// releases them, each at once. Everything else holds a lock for a few instructions and returns.
//
// All three are small values without goroutines, made to be embedded in the stream or request they belong to;
// they must not be copied once they are used. Nothing has to be released: a gate that nobody waits at is garbage
// like any other value.
//
// Known limit: [Gate.Acquire] takes all it asks for or nothing. Who asks for more than the receiver's window
// waits for ever, since the receiver can only give back what was sent; a stream uses [Gate.AcquireUpTo].
package credit
