package bifaci_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// wrongBytes are the lines of table 3.1 that are no frame of version 6.
var wrongBytes = map[string][]string{
	"undecodable":            {"\x00\x00\x00\x01\xff", "\x00\x00\x00\x00"},
	"unknown type":           {"\x00\x00\x00\x09\xa4\x00\x06\x01\x02\x02\x05\x03\x00", "\x00\x00\x00\x09\xa4\x00\x06\x01\x10\x02\x05\x03\x00"},
	"wrong version in key 0": {"\x00\x00\x00\x09\xa4\x00\x04\x01\x07\x02\x05\x03\x00"},
	"too large":              {"\x00\x38\x00\x01"},
}

// TestLinkStateTable has the cells of table 3.1.
func TestLinkStateTable(t *testing.T) {
	var rows []cellRow
	add := func(frame, state, says, frames, counted string, play func(*script)) {
		rows = append(rows, cellRow{cell: cell{frame, state}, says: says, frames: frames, counted: counted, play: play})
	}
	const noHandshake, fatalEnd = "handshake failure", "err 0 PROTOCOL_ERROR/internal"
	add("HELLO", "H", "handshake", "hello", "", func(s *script) {
		s.start("H")
		s.step(func() { s.h.Send(cartridgetest.HelloFrame(frame.DefaultLimits())) })
	})
	for _, name := range []string{"REQ for identity", "REQ other", "STREAM_START", "CHUNK", "STREAM_END", "END", "ERR", "LOG", "HEARTBEAT",
		"CREDIT", "CANCEL", "CLOSE_STREAM", "POLICY", "RELAY_NOTIFY", "RELAY_STATE"} {
		add(name, "H", noHandshake, "", "", func(s *script) {
			f := anyFrame(frameNamed(s.t, strings.Fields(name)[0]))
			if name == "REQ for identity" {
				f[frame.KeyCap] = urn.Identity
			}
			s.failsToShake(wire(s.t, f))
		})
	}
	for name, all := range wrongBytes {
		for _, b := range all {
			add(name, "H", noHandshake, "", "", func(s *script) { s.failsToShake([]byte(b)) })
			add(name, "P", "fatal", fatalEnd, "", func(s *script) { s.ends("P", []byte(b)) })
			add(name, "L", "fatal", fatalEnd, "", func(s *script) { s.ends("L", []byte(b)) })
		}
	}
	for _, name := range []string{"RELAY_NOTIFY", "RELAY_STATE"} {
		for state, says := range map[string]string{"P": "fatal (R-2.32)", "L": "fatal"} {
			add(name, state, says, fatalEnd, "", func(s *script) { s.ends(state, wire(s.t, anyFrame(frameNamed(s.t, name)))) })
		}
	}
	for state, says := range map[string]string{"P": "ERR `PROTOCOL_ERROR`/`internal`, same id; continue", "L": "same as P"} {
		add("HELLO", state, says, "err of 77 0 PROTOCOL_ERROR/internal | err of 77 0 PROTOCOL_ERROR/internal | stream_start 0 media:, stream_end 1 of 0, end 2", "",
			func(s *script) {
				s.start(state)
				for range 2 { // answers that belong to no request are not gated
					s.step(func() { s.h.Send(anyFrame(frame.TypeHello)) })
				}
				s.step(func() { s.main = s.h.Request(urn.Identity).End().ID() })
			})
	}
	echoed := "stream_start 0 media:, chunk 1 #0 x, credit request body 1 | stream_end 2 of 1, end 3"
	for _, state := range []string{"P", "L"} {
		add("REQ for identity", state, "served", echoed, "", func(s *script) {
			s.start(state)
			var req *cartridgetest.Request
			s.step(func() {
				req = s.h.Request(urn.Identity).Chunk("x")
				s.main = req.ID()
			})
			s.step(func() { req.End() })
		})
		add("HEARTBEAT", state, "answered by the reader", "heartbeat of 77", "", func(s *script) {
			s.start(state)
			s.step(func() { s.h.Send(anyFrame(frame.TypeHeartbeat)) })
		})
	}
	add("REQ other", "P", "ERR `PROTOCOL_VIOLATION`/`internal`, never dispatched", "err 0 PROTOCOL_VIOLATION/internal", "", func(s *script) {
		s.start("P")
		s.step(func() { s.main = s.h.RequestFrame(cartridgetest.ReqFrame(capNamed("one"))).ID() })
		s.step(func() { s.h.Policy(bifaci.Policy{Name: "late"}) }) // nor does it go when the link is live
	})
	add("REQ other", "L", "dispatch", "stream_start 0 media:, chunk 1 #0  eof, stream_end 2 of 1, end 3", "", func(s *script) {
		s.start("L")
		s.step(func() { s.main = s.h.Request(capNamed("one")).End().ID() })
	})
	for state, says := range map[string]string{"P": "store, go to L", "L": "replace"} {
		add("POLICY", state, says, " | stream_start 0 media:, chunk 1 #0  eof, stream_end 2 of 1, end 3", "", func(s *script) {
			s.start(state)
			s.step(func() { s.h.Policy(bifaci.Policy{Name: "another"}) })
			s.step(func() { s.main = s.h.Request(capNamed("one")).End().ID() })
		})
	}
	for name, frames := range map[string]string{
		"STREAM_START": " | stream_start 0 media: | chunk 1 #0 a, stream_end 2 of 1, end 3, credit request s 1",
		"CHUNK":        "stream_start 0 media: | chunk 1 #0 a, credit request s 1 | stream_end 2 of 1, end 3",
		"STREAM_END":   "stream_start 0 media:, chunk 1 #0 a, credit request s 1 |  | stream_end 2 of 1, end 3",
		"END":          "stream_start 0 media:, chunk 1 #0 a, credit request s 1 | stream_end 2 of 1, end 3",
		"ERR":          "stream_start 0 media:, chunk 1 #0 a, credit request s 1 | err 2 GONE/input",
		"LOG":          "stream_start 0 media:, chunk 1 #0 a, credit request s 1 |  | stream_end 2 of 1, end 3",
	} {
		for _, state := range []string{"P", "L"} {
			add(name, state, "3.3", frames, "", func(s *script) { s.body(state, name) })
		}
	}
	for name, frames := range map[string]string{
		"CREDIT":       "stream_start 0 media:, chunk 1 #0 a, credit request s 1 | credit request s 1 | chunk 2 #1 b | stream_end 3 of 2, end 4",
		"CANCEL":       "stream_start 0 media:, chunk 1 #0 a, credit request s 1 | stream_end 2 of 1, err 3 ABORTED/environment \"Request aborted by the host: why\"",
		"CLOSE_STREAM": "stream_start 0 media:, chunk 1 #0 a, credit request s 1 |  | stream_end 2 of 1, end 3",
	} {
		for state, says := range map[string]string{"P": "as L", "L": "sections 8, 10"} {
			add(name, state, says, frames, "", func(s *script) { s.control(state, name) })
		}
	}
	runTable(t, "R-3.1", "3.1 Link state table", 60, rows)
}

// start brings a link into a state and begins to write down.
func (s *script) start(state string, opts ...cartridgetest.Option) {
	switch state {
	case "H":
		opts = append(opts, cartridgetest.WithoutHello())
	case "P":
		opts = append(opts, cartridgetest.WithoutPolicy())
	}
	s.c = cartridgeOf(s.t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
		return r.Output().EmitItem(ctx, transcript(ctx, r), nil) // behind the body's END, which would straggle
	}})
	s.h = cartridgetest.Start(s.t, s.c, opts...)
	s.listen()
}

// failsToShake sends bytes in place of the host's HELLO: nothing is said, and the run fails.
func (s *script) failsToShake(b []byte) {
	s.start("H")
	s.step(func() { s.h.SendBytes(b) })
	require.ErrorIs(s.t, s.h.Wait(), bifaci.ErrHandshake)
	assert.Nil(s.t, s.h.Hello())
}

// ends sends bytes that end the link, while a request runs.
func (s *script) ends(state string, b []byte) {
	s.start(state)
	s.main = s.h.Request(urn.Identity).ID()
	s.step(func() { s.h.SendBytes(b) })
	assert.Error(s.t, s.h.Wait())
}

// body plays a conversation with identity, and the row's frame in it in a step of its own.
func (s *script) body(state, name string) {
	s.start(state, cartridgetest.WithWindow(2))
	var req *cartridgetest.Request
	open := func() {
		if req == nil {
			req = s.h.Request(urn.Identity)
			s.main = req.ID()
		}
	}
	var stream *cartridgetest.Stream
	start := func() { open(); stream = req.Stream("s", "media:") }
	chunk := func() { stream.Chunk("a") }
	end := func() { stream.End() }
	done := func() { req.End() }
	switch name {
	case "STREAM_START":
		s.step(open)
		s.step(start)
		s.step(func() { chunk(); synctest.Wait(); end(); done() })
	case "CHUNK":
		s.step(start)
		s.step(chunk)
		s.step(func() { end(); done() })
	case "STREAM_END":
		s.step(func() { start(); chunk() })
		s.step(end)
		s.step(done)
	case "END":
		s.step(func() { start(); chunk(); synctest.Wait(); end() })
		s.step(done)
	case "ERR":
		s.step(func() { start(); chunk() })
		s.step(func() { req.Fail("GONE", failure.Input, "no more") })
	case "LOG":
		s.step(func() { start(); chunk() })
		s.step(func() { req.Send(cartridgetest.LogFrame("info", failure.Internal, "x")) })
		s.step(done)
	}
}

// control does the same for control frames, with a window of one that the host does not grant back.
func (s *script) control(state, name string) {
	s.start(state, cartridgetest.WithWindow(1), cartridgetest.WithManualCredit())
	req := s.h.Request(urn.Identity)
	s.main = req.ID()
	s.step(func() { req.Stream("s", "media:").Chunk("a") })
	switch name {
	case "CREDIT":
		s.step(func() { req.Chunk("b") }) // it is read, and cannot be answered
		s.step(func() { req.Grant(1) })
		s.step(func() { req.End() })
	case "CANCEL":
		s.step(func() { req.Cancel(failure.HostAbort(failure.Environment, "why")) })
	case "CLOSE_STREAM":
		s.step(func() { req.CloseFeeds("") })
		s.step(func() { req.End() })
	}
}
