package bifaci_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// The request states of section 3.
const (
	stateQ = "Q" // waiting in line
	stateR = "R" // running, body open
	stateE = "E" // running, body END received
	stateX = "X" // running, cancelled
	stateT = "T" // ended
	stateU = "U" // unknown
)

// scene is a request in a state. It has one open stream "s" with one chunk "a"; in E and T the stream and the body have ended.
type scene struct {
	t    *testing.T
	c    *bifaci.Cartridge
	h    *cartridgetest.Host
	g    *gate // of the request's handler
	busy *gate // of the request in front, in Q

	front, req *cartridgetest.Request
	run        *bifaci.Request // in R, E and X
}

// setScene brings a request into a state. ended says that its stream has ended also where the body has not.
func setScene(t *testing.T, state string, ended bool) *scene {
	t.Helper()
	s := &scene{t: t, g: newGate(), busy: newGate()}
	capacity := uint64(0)
	if state == stateQ {
		capacity = 1
	}
	s.c = cartridgeOf(t, bounded(map[string]uint64{"all": capacity}), nil, served{"one", s.g.tells}, served{"busy", s.busy.handle})
	s.h = cartridgetest.Start(t, s.c, cartridgetest.WithWindow(2), cartridgetest.WithManualCredit())
	if state == stateU {
		s.req = s.h.Unsent()
		return s
	}
	if state == stateQ {
		s.front = s.h.Request(capNamed("busy")).End()
		<-s.busy.started
	}
	s.req = s.h.Request(capNamed("one"))
	stream := s.req.Stream("s", "media:").Chunk("a")
	if ended {
		stream.End()
	}
	if state == stateE || state == stateT {
		s.req.End()
	}
	if state == stateQ {
		s.req.WantLog("queued")
		return s
	}
	s.run = <-s.g.started
	switch state {
	case stateX:
		s.req.Cancel(failure.UserCancel())
		<-s.run.Context().Done()
	case stateT:
		s.g.open()
		s.req.WantItems("[media: a eof] eof").WantEnd()
	}
	return s
}

// rest lets everything run until all wait, and release lets the handlers go.
func (s *scene) rest() {
	s.t.Helper()
	s.h.Probe()
	synctest.Wait()
}

func (s *scene) release() {
	close(s.busy.release)
	select {
	case <-s.g.release:
	default:
		s.g.open()
	}
}

func TestWhatIsLogged(t *testing.T) {
	virtual(t, "R-3.20 no_route drops are warnings, stragglers are debug messages", func(t *testing.T) {
		var b bytes.Buffer
		log := slog.New(slog.NewTextHandler(&b, &slog.HandlerOptions{Level: slog.LevelDebug}))
		h := cartridgetest.Start(t, cartridgeOf(t, nil, []bifaci.Option{bifaci.WithLogger(log)}, answers("one")))
		req := h.Request(capNamed("one")).End().WantItems("one")
		req.WantEnd()
		req.Send(cartridgetest.LogFrame("info", failure.Internal, "x"))
		h.Unsent().Send(cartridgetest.CancelFrame(failure.UserCancel()))
		h.Probe()
		synctest.Wait()
		assert.Regexp(t, `level=DEBUG msg=.*type=log`, b.String())
		assert.Regexp(t, `level=WARN msg=.*type=cancel`, b.String())
	})
}

func TestIdsOfRequests(t *testing.T) {
	for _, state := range []string{stateQ, stateR, stateE, stateX} {
		virtual(t, "R-3.10 a REQ with the id of a request in "+state+" is a duplicate", func(t *testing.T) {
			s := setScene(t, state, false)
			defer s.release()
			// The routing id does not make it another request.
			s.req.Send(cartridgetest.ReqFrame(capNamed("one")).With(frame.KeyRoutingID, uint64(999)))
			s.rest()
			switch state {
			case stateQ:
				s.req.WantErr(failure.ProtocolError, failure.Internal)
				assert.Empty(t, s.g.started)
				return
			case stateX:
				s.g.open()
				s.req.WantErr(failure.Cancelled, failure.User)
			default:
				assert.Nil(t, s.req.Terminal())
				require.Error(t, s.run.Context().Err())
				s.g.open()
				s.req.WantErr(failure.ProtocolError, failure.Internal)
			}
			assert.Empty(t, s.g.started, "it was not dispatched")
		})
	}
	virtual(t, "R-3.12 a REQ with an ended id is a new request and its frames are not muted", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", echoes}))
		id := frame.NewUUID()
		for i := range 3 {
			req := h.Request(capNamed("one"), cartridgetest.WithID(id), cartridgetest.WithRouting(frame.UintID(4)))
			req.Chunk(fmt.Sprint(i)).End().WantItems(fmt.Sprint(i)).WantEnd()
			assert.Zero(t, req.Frames()[0].Seq(), "seq restarts")
		}
		h.WantIdle()
	})
	virtual(t, "R-3.12 late frames of the old request stay suppressed", func(t *testing.T) {
		old := make(chan *bifaci.Request, 2)
		g := newGate()
		c := cartridgeOf(t, nil, nil, served{"one", func(_ context.Context, r *bifaci.Request) error { old <- r; return nil }}, served{"two", g.handle})
		h := cartridgetest.Start(t, c)
		id := frame.NewUUID()
		h.Request(capNamed("one"), cartridgetest.WithID(id)).End().WantEnd()
		late := <-old
		req := h.Request(capNamed("two"), cartridgetest.WithID(id)).End()
		<-g.started
		require.NoError(t, late.Output().Log("info", failure.Internal, "late"))
		assert.Error(t, late.Output().EmitItem(context.Background(), "late", nil))
		h.Probe()
		synctest.Wait()
		assert.Empty(t, req.Frames())
		g.open()
		req.WantEnd()
		assert.Len(t, req.Frames(), 1)
	})
	virtual(t, "R-3.13 requests are found by rid alone", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", echoes}))
		req := h.Request(capNamed("one"), cartridgetest.WithRouting(frame.UintID(3)))
		other := func(f cartridgetest.Frame, seq uint64) cartridgetest.Frame {
			return f.With(frame.KeyRoutingID, uint64(99)).With(frame.KeySeq, seq)
		}
		req.Send(other(cartridgetest.StartFrame("s", "media:"), 0), other(cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes("x")), 1),
			other(cartridgetest.StreamEndFrame("s", 1), 2), other(cartridgetest.EndFrame(false), 3))
		req.WantItems("x").WantEnd()
		for _, f := range req.Frames() {
			assert.Equal(t, frame.UintID(3), f.Routing(), "answers carry the REQ's")
		}
	})
}

func TestRecentlyEnded(t *testing.T) {
	virtual(t, "R-3.14 the last 64 ended ids are remembered, each once", func(t *testing.T) {
		c := cartridgeOf(t, nil, nil, answers("one"))
		h := cartridgetest.Start(t, c, cartridgetest.WithManualCredit())
		end := func() *cartridgetest.Request {
			r := h.Request(capNamed("one")).End().WantItems("one")
			r.WantEnd()
			return r
		}
		late := func(r *cartridgetest.Request) (stragglers, drops uint64) {
			h.Probe()
			synctest.Wait() // bodies that were ended after their answer
			before, lost := c.Stragglers().Total, c.Drops().Total
			r.Send(cartridgetest.LogFrame("info", failure.Internal, "late"))
			h.Probe()
			synctest.Wait()
			return c.Stragglers().Total - before, c.Drops().Total - lost
		}
		first, second := end(), end()
		for range 62 {
			end()
		}
		s, d := late(first)
		assert.Equal(t, [2]uint64{1, 0}, [2]uint64{s, d}, "the 64th to last")
		end()
		s, d = late(first)
		assert.Equal(t, [2]uint64{0, 1}, [2]uint64{s, d}, "the 65th to last")
		// The second's id ends again: it takes no second place.
		h.Request(capNamed("one"), cartridgetest.WithID(second.ID())).End().WantItems("one").WantEnd()
		for range 63 {
			end()
		}
		s, d = late(second)
		assert.Equal(t, [2]uint64{1, 0}, [2]uint64{s, d})
	})
}
