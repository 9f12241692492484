// Package peer is a host of the black-box tests: it starts a cartridge as a process and speaks with it, frame by frame, in code of
// its own. It frames, encodes, decodes and hashes with the standard library and a CBOR library of general use; nothing of it comes
// from the packages under test, so that an error there cannot hide in both ends.
//
//	p := peer.Start(t, path)
//	p.Live() // HELLO, identity check, POLICY
//	req := p.Request(capEcho)
//	req.Give("media:", []byte("hello"))
//	req.WantEnd()
//	p.Finish() // end of input; status 0
//
// A reader meets first [Start] and [Process]; [Link], the conversation; and [Request], one request in it. What is awaited has a
// deadline; a failure says what was awaited and shows the last frames and the end of standard error. The order of the frames of
// both directions is held to the properties of cartridgetest.Check, whose decoder is independent as well.
//
// Methods belong to the goroutine of the test. They wait as their comments say and fail the test when a wait is over in vain. Two
// goroutines work for a link: one reads the cartridge's output without pause and grants credit, one writes what was queued. They
// end with the process; the end of the test ends that.
package peer
