// Package feed opens live feeds: it turns a reference such as media:live;synthetic and its selector into a stream of
// captured items that goes on until something stops it (spec/runtime.md section 9, spec/wire.md 8.5). It knows nothing
// of requests and frames, so a host can open a feed as well as a cartridge can.
//
//	s, err := feed.ParseSelector([]byte(`{"params":{"items":100}}`))
//	f, err := feed.Open(ctx, "media:live;synthetic", s)
//	for item, err := range f.Items(ctx) {
//		…
//	}
//
// Three types, in the order a reader meets them:
//
//   - [Selector] is what a reference stream carries: device, parameters, stop conditions, what to do when the reader is
//     too slow. [ParseSelector] is strict.
//   - [Feed] is an open feed: [Feed.Next] reads, [Feed.Close] taps it off, [Feed.Cancel] throws it away.
//   - [Backend] is a kind of device. [Open] knows the built-in ones, the synthetic feed and a microphone through the
//     program arecord, and takes others by [WithBackend]; [New] opens any.
//
// # What may wait
//
// A device cannot be told to wait, so the capture edge never does: [Sink.Push] puts an item into the ring, and a ring
// that is full loses its oldest item or ends the feed, as the selector says. That is the only place where anything is
// lost. What is lost is counted, and shows as a gap in the next item's meta. The ring drains into a hand-over
// of 8 items, which are safe from then on, whenever there is room; both are one value under one lock, so that the step
// between them needs no goroutine and is always taken at once.
//
// Opening waits for the device and Next waits for an item; their contexts release them. Nothing else waits.
//
// # How it ends
//
// The first end counts: the device is through, a stop condition is met or Close is called (what was captured is still
// delivered, then io.EOF), the device fails (the same, then FEED_FAILED), the ring overruns under the policy fail (its
// content is discarded, then FEED_OVERRUN). Cancel, and the end of the context given to Open, discard everything and
// also replace an end that has not been read yet. After any of them the feed's one goroutine releases the device and
// closes [Feed.Done].
//
// # Known limits
//
// The ring is also full when its items take 256 MiB, whatever its capacity. arecord says beside the audio that it lost
// some, in milliseconds: such a gap is right to about the audio in the pipe between (64 KiB at most) in its place and to
// half an item in its size.
package feed
