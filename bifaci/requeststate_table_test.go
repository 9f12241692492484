package bifaci_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Each row plays three steps: the frame comes, the handlers are let go and read what there is, the host ends the link. The request
// of most rows has one open stream with the chunk "a", whose handler answers with what it has read, once it is let go: see setScene.

// toldOf is the whole answer of that handler; toldLaterOf that of a request that was in line.
func toldOf(text string) string {
	return "stream_start 0 media:, chunk 1 #0 " + text + ", stream_end 2 of 1, end 3"
}

func toldLaterOf(text string) string {
	return "busy's end 0, log 1 dequeued, stream_start 2 media:, chunk 3 #0 " + text + ", stream_end 4 of 1, end 5"
}

// TestRequestStateTable has the cells of table 3.3.
func TestRequestStateTable(t *testing.T) {
	const (
		cancelled = ` | err 0 CANCELLED/user "Cancelled by user"`
		poisoned  = ` | err 0 PROTOCOL_ERROR/internal`
		credit    = ", credit request s 1"
		more      = "[media: a more] more"
		whole     = "[media: a eof] eof"
	)
	var rows []cellRow
	add := func(frame, state, way, says, frames, counted string, play func(*script)) {
		rows = append(rows, cellRow{cell{frame, state}, way, says, frames, counted, play})
	}
	// In Q and R: what the frame does to the handler's input.
	for _, r := range []struct{ frame, q, r, reads, credit string }{
		{"STREAM_START", "buffer", "open stream", "[media: a more][media:second more] more", credit},
		{"CHUNK", "buffer, window checked", "deliver", "[media: a b more] more", ", credit request s 2"},
		{"STREAM_END", "buffer", "end stream", "[media: a eof] more", ""},
		{"END", "body complete", "body complete → E", whole, ""},
		{"ERR", "input will fail with it", "input fails with it → E", " error remote GONE: no more", ""},
		{"LOG", "ignored", "ignored", more, credit},
	} {
		add(r.frame, stateQ, "", r.q, " | "+toldLaterOf(r.reads)+r.credit, "", func(s *script) { s.scene(stateQ, false) })
		add(r.frame, stateR, "", r.r, " | "+toldOf(r.reads)+r.credit, "", func(s *script) { s.scene(stateR, false) })
	}
	// What is wrong behind a complete body, and what is late.
	for _, name := range []string{"STREAM_START", "CHUNK", "STREAM_END"} {
		add(name, stateE, "", "poison", poisoned, "", func(s *script) { s.scene(stateE, false) })
		add(name, stateX, "cancelled", "drop `cancelled`", cancelled, "cancelled "+nameOf(t, name), func(s *script) { s.scene(stateX, false) })
		add(name, stateX, "poisoned", "drop `cancelled`", poisoned, "cancelled "+nameOf(t, name), func(s *script) { s.scene(stateX, true) })
	}
	for _, name := range []string{"END", "ERR"} {
		add(name, stateE, "", "straggler", " | "+toldOf(whole), "straggler "+nameOf(t, name), func(s *script) { s.scene(stateE, false) })
	}
	add("LOG", stateE, "", "ignored", " | "+toldOf(whole), "", func(s *script) { s.scene(stateE, false) })
	for _, name := range []string{"END", "ERR", "LOG", "CREDIT", "CANCEL", "CLOSE_STREAM"} {
		add(name, stateX, "cancelled", "ignored", cancelled, "", func(s *script) { s.scene(stateX, false) })
		add(name, stateX, "poisoned", "ignored", poisoned, "", func(s *script) { s.scene(stateX, true) })
	}
	for _, name := range []string{"STREAM_START", "CHUNK", "STREAM_END", "END", "ERR", "LOG", "CREDIT", "CANCEL", "CLOSE_STREAM"} {
		add(name, stateT, "", "straggler", "", "straggler "+nameOf(t, name), func(s *script) { s.scene(stateT, false) })
		add(name, stateU, "", "drop `no_route`", "", "no_route "+nameOf(t, name), func(s *script) { s.scene(stateU, false) })
	}
	// Stopping.
	stopped := `ABORTED/environment "Request aborted by the host: why"`
	add("CANCEL", stateQ, "", "R-8.10", "err 1 "+stopped+" | busy's end 0", "", func(s *script) { s.scene(stateQ, false) })
	add("CANCEL", stateR, "", "R-8.20", " | err 0 "+stopped, "", func(s *script) { s.scene(stateR, false) })
	add("CANCEL", stateE, "", "R-8.20", " | err 0 "+stopped, "", func(s *script) { s.scene(stateE, false) })
	// A window of one, and three items to send.
	add("CREDIT", stateQ, "", "section 10", " | busy's end 0, log 1 dequeued, stream_start 2 media:, chunk 3 #0 first, chunk 4 #1 second"+
		" | chunk 5 #2 third, stream_end 6 of 3, end 7", "", func(s *script) { s.threeItems(stateQ) })
	for _, state := range []string{stateR, stateE} {
		add("CREDIT", state, "", "section 10", "chunk 2 #1 second |  | chunk 3 #2 third, stream_end 4 of 3, end 5", "", func(s *script) { s.threeItems(state) })
	}
	// A live feed, of which two items were captured in R and E, and one was not taken by the host yet.
	add("CLOSE_STREAM", stateQ, "", "R-8.43", " | busy's stream_end 2 of 1, busy's end 3, log 1 dequeued, stream_start 2 "+cameraMedia+", stream_end 3 of 0, end 4", "",
		func(s *script) { s.closes(stateQ) })
	add("CLOSE_STREAM", stateR, "", "R-8.40", " | chunk 2 #1 two, stream_end 3 of 0, end 4", "", func(s *script) { s.closes(stateR) })
	add("CLOSE_STREAM", stateE, "", "R-8.40", " | chunk 2 #1 two, stream_end 3 of 0, end 4", "", func(s *script) { s.closes(stateE) })
	runTable(t, "R-3.20", "3.3 Continuation frames of an incoming request", 54, rows)
}

func nameOf(t *testing.T, frame string) string { return frameNamed(t, frame).String() }

// frameOf is the row's frame for the scene's request.
func (s *script) frameOf() cartridgetest.Frame {
	switch typ := frameNamed(s.t, s.row.frame); typ {
	case frame.TypeStreamStart:
		return cartridgetest.StartFrame("s2", "media:second")
	case frame.TypeChunk:
		return cartridgetest.ChunkFrame("s", 1, cartridgetest.Bytes("b"))
	case frame.TypeStreamEnd:
		return cartridgetest.StreamEndFrame("s", 1)
	case frame.TypeErr:
		return cartridgetest.ErrFrame("GONE", failure.Input, "no more")
	case frame.TypeCancel:
		return cartridgetest.CancelFrame(failure.HostAbort(failure.Environment, "why"))
	default:
		return anyFrame(typ).Without(frame.KeyID)
	}
}

// scene plays the row's frame in a state; X is a request that was cancelled, or one that was poisoned.
func (s *script) scene(state string, poisoned bool) {
	ended := s.row.frame == "END"
	from := state
	if poisoned {
		from = stateR
	}
	sc := setScene(s.t, from, ended && state != stateX)
	s.c, s.h, s.main = sc.c, sc.h, sc.req.ID()
	if sc.front != nil {
		s.names[sc.front.ID()] = "busy"
	}
	if poisoned {
		sc.req.Send(cartridgetest.StartFrame("s", "media:"))
		<-sc.run.Context().Done()
	}
	synctest.Wait()
	s.listen()
	s.step(func() { sc.req.Send(s.frameOf()) })
	if state == stateQ {
		assert.Empty(s.t, sc.g.started, "it waits")
	}
	s.step(func() {
		sc.release()
		time.Sleep(time.Minute) // virtual: the handler waits a second for more input
	})
	if s.row.says == "R-8.10" {
		assert.Empty(s.t, sc.g.started, "its handler was never made")
	}
	s.finish()
}

// finish ends the link; nothing is owed any more.
func (s *script) finish() {
	s.t.Helper()
	s.step(func() {
		s.h.CloseInput()
		assert.NoError(s.t, s.h.Wait())
	})
}

// threeItems: a window of one lets one item pass, and the CREDIT another.
func (s *script) threeItems(state string) {
	busy := newGate()
	s.c = cartridgeOf(s.t, bounded(map[string]uint64{"all": 1}), nil, served{"busy", busy.handle},
		served{"one", func(ctx context.Context, r *bifaci.Request) error {
			for _, text := range []string{"first", "second", "third"} {
				if err := r.Output().EmitItem(ctx, text, nil); err != nil {
					return err
				}
			}
			return nil
		}})
	s.h = cartridgetest.Start(s.t, s.c, cartridgetest.WithWindow(1), cartridgetest.WithManualCredit())
	if state == stateQ {
		s.names[s.h.Request(capNamed("busy")).End().ID()] = "busy"
		<-busy.started
	}
	req := s.h.Request(capNamed("one"))
	s.main = req.ID()
	if state == stateE {
		req.End()
	}
	synctest.Wait()
	s.listen()
	s.step(func() { req.Grant(1) }) // in Q no stream can be named yet
	s.step(busy.open)
	s.step(func() { req.Grant(1) })
	s.finish()
}

// closes: the feed of a request is closed before it could open, or while it runs.
func (s *script) closes(state string) {
	device := newCamera().openAtOnce(1)
	s.h = watching(s.t, device, watches, map[string]uint64{"all": 1}, cartridgetest.WithWindow(1), cartridgetest.WithManualCredit())
	var front *cartridgetest.Request
	if state == stateQ {
		front = s.h.Request(capNamed("echo")).Chunk("x")
		front.WantItems("x")
		s.names[front.ID()] = "busy"
	}
	req := s.h.Request(watchCap)
	s.main = req.ID()
	req.Stream("eye", cameraRef).Chunk("{}").End()
	if state != stateR {
		req.End()
	}
	if state != stateQ {
		to := <-device.sinks
		push(s.t, to, "one", "two")
	}
	synctest.Wait()
	s.listen()
	s.step(func() { req.CloseFeeds("eye") })
	if state == stateQ {
		assert.Empty(s.t, device.opening, "it is not opened for this")
		s.step(func() { front.End() })
	} else {
		s.step(func() { req.Grant(1) })
	}
	s.finish()
	assert.Zero(s.t, device.running.Load(), "the device is released")
}
