// Package cartridgetest is a host inside a test: it serves a cartridge over pipes in memory and lets the test speak with it, frame
// by frame, or through package host.
//
//	func TestEcho(t *testing.T) {
//		h := cartridgetest.Start(t, newCartridge())
//		req := h.Request(capEcho)
//		req.Chunk("a").Chunk("b").End()
//		req.WantItems("a", "b")
//		req.WantEnd()
//		h.WantIdle() // no goroutine, no slot left behind
//	}
//
// A reader meets first [Host], which [Start] makes; [Request], one dialogue on it; and [Check], which judges the order of the
// frames of both directions and can be put onto any link. [Connect] makes a [Client] for tests that need answers only. [Serving]
// makes a cartridge of one handler.
//
// Everything that a Want method waits for has a deadline, [WithPatience]; a failure says what was awaited and shows the last frames
// of the link. Nothing waits on anything but channels, conditions and timers, so the harness works in a testing/synctest bubble,
// where deadlines cost no time. When the test ends, the link is ended and held to the properties of Check; a breach fails the test.
//
// The harness reads and writes frames with a CBOR library of general use and hash/fnv, not with the codec of this module: a mistake
// there would be seen. Only numbers of keys and types, ids and URNs are shared.
//
// Methods of Host, Request and PeerCall belong to the goroutine of the test. Known limits: a cartridge is served once; the
// goroutines that [Host.WantIdle] counts are those that descend from Serve, and a worker that a cartridge starts with its first
// request and keeps on purpose counts as left behind.
package cartridgetest
