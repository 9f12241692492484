// Package frame is the wire of protocol version 6: frames, ids and limits, their exact bytes, and what the meta of each
// frame type means (spec/wire.md sections 1 to 6, 8.1, 10, 12.2 and 17).
//
// A reader meets first [Frame], one frame in memory; [Decode] and [Append], which turn a frame body into a Frame and
// back without allocating; and [SyntaxError], which says what is wrong with bytes that are refused. [Reader] and
// [Writer] put both on a pipe for handshakes and tools; the busy path of a runtime calls Decode and Append itself.
// [AppendValue], [DecodeValue] and [Scanner] deal with the CBOR items that payloads are made of, [Meta] with meta maps
// of any content, and the methods of Frame ([Frame.Hello], [Frame.LogRecord], [Frame.Policy] and so on) with the metas
// the protocol defines.
//
// Only [Reader] and [Writer] block, in the pipe they were given. Nothing here starts a goroutine or keeps state between
// calls. Decoded frames alias the bytes they came from.
package frame
