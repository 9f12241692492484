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
	"github.com/pipe-cartridge/pipe/bifaci/stats"
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

// What table 3.3 says about a frame in a state.
const (
	buffered  = "buffer"
	delivered = "deliver"
	poisons   = "poison"
	dropped   = "drop cancelled"
	straggles = "straggler"
	unrouted  = "drop no_route"
	ignored   = "ignored"
	completes = "body complete"
	fails     = "input fails with it"
	credits   = "section 10"
	removed   = "R-8.10"
	cancels   = "R-8.20"
)

// scene is a request in a state. It has one open stream "s" with one chunk "a"; in E and T the stream and the body have ended.
type scene struct {
	t    *testing.T
	c    *bifaci.Cartridge
	h    *cartridgetest.Host
	g    *gate // of the request's handler
	busy *gate // of the request in front, in Q
	req  *cartridgetest.Request
	run  *bifaci.Request // in R, E and X
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
		s.h.Request(capNamed("busy")).End()
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

// counted is what the cartridge has counted, in one line.
func (s *scene) counted() string {
	return fmt.Sprint(s.c.Drops().ByReasonFrameType, s.c.Stragglers().ByFrameType)
}

// row is one row of table 3.3.
type row struct {
	typ              frame.Type
	Q, R, E, X, T, U string
	seen             string // what the handler sees in Q and R, when the frame is for it
}

func (r row) cells() map[string]string {
	return map[string]string{stateQ: r.Q, stateR: r.R, stateE: r.E, stateX: r.X, stateT: r.T, stateU: r.U}
}

// frame is the row's frame for the scene's request.
func (r row) frame() cartridgetest.Frame {
	switch r.typ {
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
	}
	return anyFrame(r.typ).Without(frame.KeyID)
}

// TestRequestStates has the cells of table 3.3.
func TestRequestStates(t *testing.T) {
	for _, r := range []row{
		{frame.TypeStreamStart, buffered, delivered, poisons, dropped, straggles, unrouted, "[media: a more][media:second more] more"},
		{frame.TypeChunk, buffered, delivered, poisons, dropped, straggles, unrouted, "[media: a b more] more"},
		{frame.TypeStreamEnd, buffered, delivered, poisons, dropped, straggles, unrouted, "[media: a eof] more"},
		{frame.TypeEnd, completes, completes, straggles, ignored, straggles, unrouted, "[media: a eof] eof"},
		{frame.TypeErr, fails, fails, straggles, ignored, straggles, unrouted, " error remote GONE: no more"},
		{frame.TypeLog, ignored, ignored, ignored, ignored, straggles, unrouted, ""},
		{frame.TypeCredit, credits, credits, credits, ignored, straggles, unrouted, ""},
		{frame.TypeCancel, removed, cancels, cancels, ignored, straggles, unrouted, ""},
		{frame.TypeCloseStream, ignored, ignored, ignored, ignored, straggles, unrouted, ""},
	} {
		for state, what := range r.cells() {
			virtual(t, fmt.Sprintf("R-3.20 %s in %s: %s", r.typ, state, what), func(t *testing.T) {
				if what == credits {
					creditCell(t, state)
					return
				}
				s := setScene(t, state, r.typ == frame.TypeEnd)
				defer s.release()
				s.cell(r, state, what)
			})
		}
	}
}

// cell sends the row's frame and looks at what it does.
func (s *scene) cell(r row, state, what string) {
	t := s.t
	before, frames := s.counted(), len(s.req.Frames())
	s.req.Send(r.frame())
	s.rest()
	name := r.typ.String()
	switch what {
	case dropped:
		assert.Equal(t, map[stats.Reason]map[string]uint64{stats.Cancelled: {name: 1}}, s.c.Drops().ByReasonFrameType)
		assert.Zero(t, s.c.Stragglers().Total)
	case straggles:
		assert.Equal(t, map[string]uint64{name: 1}, s.c.Stragglers().ByFrameType)
		assert.Zero(t, s.c.Drops().Total)
	case unrouted:
		assert.Equal(t, map[stats.Reason]map[string]uint64{stats.NoRoute: {name: 1}}, s.c.Drops().ByReasonFrameType)
		assert.Zero(t, s.c.Stragglers().Total)
	default:
		assert.Equal(t, before, s.counted(), "nothing is counted")
	}
	if what == removed {
		s.req.WantErr(failure.Aborted, failure.Environment)
		s.g.open()
		s.busy.release <- struct{}{}
		s.rest()
		assert.Empty(t, s.g.started, "the handler was never made")
		return
	}
	assert.Len(t, s.req.Frames(), frames, "nothing is answered at once")
	if state == stateT || state == stateU {
		return
	}
	if state == stateQ {
		assert.Empty(t, s.g.started)
		s.busy.release <- struct{}{}
	}
	stopped := what == poisons || what == cancels || state == stateX
	if s.run != nil {
		assert.Equal(t, stopped, s.run.Context().Err() != nil, "the handler's context")
	}
	s.g.open()
	switch {
	case what == poisons:
		s.req.WantErr(failure.ProtocolError, failure.Internal)
	case what == cancels:
		s.req.WantErr(failure.Aborted, failure.Environment)
	case state == stateX:
		s.req.WantErr(failure.Cancelled, failure.User)
	case state == stateE:
		s.req.WantItems("[media: a eof] eof").WantEnd()
	case r.seen != "":
		s.req.WantItems(r.seen).WantEnd()
	default:
		s.req.WantItems("[media: a more] more").WantEnd()
	}
}

// creditCell: a window of one lets one item pass, and the CREDIT another.
func creditCell(t *testing.T, state string) {
	busy := newGate()
	defer busy.open()
	capacity := uint64(0)
	if state == stateQ {
		capacity = 1
	}
	c := cartridgeOf(t, bounded(map[string]uint64{"all": capacity}), nil, served{"busy", busy.handle},
		served{"one", func(ctx context.Context, r *bifaci.Request) error {
			for _, s := range []string{"first", "second", "third"} {
				if err := r.Output().EmitItem(ctx, s, nil); err != nil {
					return err
				}
			}
			return nil
		}})
	h := cartridgetest.Start(t, c, cartridgetest.WithWindow(1), cartridgetest.WithManualCredit())
	if state == stateQ {
		h.Request(capNamed("busy")).End()
		<-busy.started
	}
	req := h.Request(capNamed("one"))
	if state == stateE {
		req.End()
	}
	if state == stateQ {
		req.WantLog("queued")
		req.Grant(1) // no stream can be named yet
		h.Probe()
		synctest.Wait()
		busy.release <- struct{}{}
		req.WantItems("first", "second")
	} else {
		req.WantItems("first")
		synctest.Wait()
		req.Grant(1).WantItems("second")
	}
	synctest.Wait()
	assert.Nil(t, req.Terminal(), "there is no credit for the third")
	assert.Zero(t, c.Drops().Total+c.Stragglers().Total)
	req.Grant(1).WantItems("third").WantEnd()
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
