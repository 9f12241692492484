package bifaci_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/credit"
)

// The sweep: a request of n streams is copied to a peer call of n arguments, and the call's answer of n streams to the answer of the
// request. So credit runs in all four directions at once. The host acts one frame at a time and grants late, so that the windows run
// out everywhere. After each frame everything is at rest, and the books must be right; and after each frame one run is cancelled.

// TestWindowSweep has every window with every number of streams.
func TestWindowSweep(t *testing.T) {
	for _, window := range []uint64{1, 2, 3, 32} {
		for _, streams := range []int{1, 2, 8} {
			virtual(t, fmt.Sprintf("R-10.10 R-10.21 R-10.30 L9.1 L13 window %d, %d streams: no stall, no credit lost, cancelled at every frame", window, streams),
				func(t *testing.T) { newSweep(t, window, streams).all() })
		}
	}
}

// sweep is one link, and the request on it that is being played.
type sweep struct {
	t       *testing.T
	window  uint64
	streams int
	c       *bifaci.Cartridge
	h       *cartridgetest.Host
	played  // anew for each request
}

type played struct {
	mu   sync.Mutex
	book map[flowStream]*entry    // what went over the wire
	read map[flowStream]uint64    // chunks that the handler has read
	over map[direction]frame.Type // terminals
	seen map[frame.Type]frame.ID  // REQ and CANCEL of the call
	r    *bifaci.Request
	call *bifaci.PeerCall

	// Of the test's goroutine.
	req          *cartridgetest.Request
	peer         *cartridgetest.PeerCall
	body, answer []*hostStream
	bodyEnded    bool
	peerEnded    bool
}

// direction is one direction of a request or of a call.
type direction struct {
	id frame.ID
	to cartridgetest.Direction
}

type flowStream struct {
	direction
	stream string
}

// entry is one stream in the book.
type entry struct {
	started, ended bool
	sent, granted  uint64 // chunks
}

// hostStream is a stream of the host.
type hostStream struct {
	*cartridgetest.Stream
	name  string
	sent  uint64
	ended bool
}

const sweepPeer = `cap:in="media:";out="media:";callee`

func newSweep(t *testing.T, window uint64, streams int) *sweep {
	s := &sweep{t: t, window: window, streams: streams}
	s.c = cartridgetest.Serving(t, workCap, s.handle)
	s.h = cartridgetest.Start(t, s.c, cartridgetest.WithWindow(window), cartridgetest.WithManualCredit())
	s.h.Check().Watch(s.note)
	return s
}

// length is how many chunks a stream has: more than a window in the first of them. The others are short, to keep the number of
// boundaries down.
func (s *sweep) length(i int) uint64 {
	if i > 2 || i > 0 && s.window > 3 {
		return 1
	}
	return s.window + 1
}

// handle copies; it says what it has read.
func (s *sweep) handle(ctx context.Context, r *bifaci.Request) error {
	call, err := r.Peer().Call(ctx, sweepPeer)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.r, s.call = r, call
	s.mu.Unlock()
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	r.Go(func(ctx context.Context) error {
		var copies sync.WaitGroup
		defer copies.Wait()
		for in, err := range input.All(ctx) {
			if err != nil {
				return err
			}
			copies.Go(func() { s.copy(ctx, r, call, in) })
		}
		copies.Wait()
		return call.Finish(ctx)
	})
	for it, err := range call.Response().Items(ctx) {
		if err != nil {
			return err
		}
		s.count(flowStream{direction{call.ID(), cartridgetest.ToCartridge}, it.Stream.ID})
		if err := r.Output().EmitItem(ctx, it.Data.Bytes, nil); err != nil {
			return err
		}
	}
	return nil
}

// copy ends with its stream, or with the first error, which ends the request in other places too.
func (s *sweep) copy(ctx context.Context, r *bifaci.Request, call *bifaci.PeerCall, in *bifaci.InputStream) {
	arg := call.Arg(in.MediaURN())
	name := in.Meta()["name"].(string)
	for it, err := range in.Items(ctx) {
		if err != nil {
			return
		}
		s.count(flowStream{direction{r.ID(), cartridgetest.ToCartridge}, name})
		if err := arg.EmitItem(ctx, it.Bytes, nil); err != nil {
			return
		}
	}
	_ = arg.Close(ctx) // the error ends the request elsewhere
}

func (s *sweep) count(k flowStream) {
	s.mu.Lock()
	s.read[k]++
	s.mu.Unlock()
}

// note writes a frame into the book.
func (s *sweep) note(d cartridgetest.Direction, f cartridgetest.Frame) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := direction{f.ID(), d}
	switch f.Type() {
	case frame.TypeStreamStart:
		s.at(flowStream{id, f.Stream()}).started = true
	case frame.TypeChunk:
		s.at(flowStream{id, f.Stream()}).sent++
	case frame.TypeStreamEnd:
		s.at(flowStream{id, f.Stream()}).ended = true
	case frame.TypeCredit: // for the data that goes the other way
		s.at(flowStream{direction{f.ID(), 1 - d}, f.Stream()}).granted += f.Uint(frame.KeyCredit)
	case frame.TypeEnd, frame.TypeErr:
		s.over[id] = f.Type()
	case frame.TypeReq, frame.TypeCancel:
		if d == cartridgetest.ToHost {
			s.seen[f.Type()] = f.ID()
		}
	}
}

// at is the entry of a stream; s.mu is held.
func (s *sweep) at(k flowStream) *entry {
	e := s.book[k]
	if e == nil {
		e = new(entry)
		s.book[k] = e
	}
	return e
}

// all plays the request to its end, and then once more for each frame of the host's, with a CANCEL behind it: when everything has
// come to rest, and at once.
func (s *sweep) all() {
	frames := 0
	for !s.play(frames, true) {
		if s.window < 32 && s.streams < 8 || s.window == 1 { // the longest are played once
			s.play(frames, false)
		}
		frames++
	}
	s.t.Logf("%d boundaries", frames)
	s.h.WantIdle()
	assert.Zero(s.t, s.c.Drops().ByReason[stats.CreditViolation])
}

// play cancels behind the given number of frames. It reports whether the request was over before.
func (s *sweep) play(frames int, atRest bool) (over bool) {
	s.played = played{book: map[flowStream]*entry{}, read: map[flowStream]uint64{}, over: map[direction]frame.Type{}, seen: map[frame.Type]frame.ID{}}
	s.req = s.h.Request(workCap)
	for i := range s.streams {
		s.body = append(s.body, &hostStream{name: fmt.Sprintf("s%d", i)})
	}
	for n := 0; ; n++ {
		if n < frames || atRest {
			synctest.Wait()
		}
		if n == frames && atRest { // once for each boundary
			s.balance()
		}
		if s.ended() {
			require.Equal(s.t, frame.TypeEnd, s.req.Terminal().Type(), "%s", s.req.Terminal())
			s.req.WantBytes(s.content())
			return true
		}
		if n == frames {
			s.cancel(atRest)
			return false
		}
		if !s.act(n) {
			s.t.Fatalf("nobody can do anything after %d frames: %s", n, s.books())
		}
	}
}

func (s *sweep) ended() bool { return s.req.Terminal() != nil }

// content is what the answer of the request carries: a byte for each chunk of the body.
func (s *sweep) content() string {
	total := uint64(0)
	for i := range s.streams {
		total += s.length(i)
	}
	return strings.Repeat("x", int(total))
}

// act makes the host send one frame: data if it can, else an end, else a grant; now and then a grant first. turn makes the streams
// take turns.
func (s *sweep) act(turn int) bool {
	if turn%3 == 2 && s.grants() {
		return true
	}
	return s.data(s.body, turn) || s.answers(turn) || s.ends() || s.grants()
}

// data opens a stream of the body, or sends a chunk of one.
func (s *sweep) data(streams []*hostStream, turn int) bool {
	for i := range streams {
		i = (i + turn) % len(streams)
		switch b := streams[i]; {
		case b.Stream == nil:
			b.Stream = s.req.Stream(b.name, "media:", cartridgetest.Meta(map[string]any{"name": b.name}))
		case b.sent < s.length(i) && b.Credit() > 0:
			b.Chunk("x")
			b.sent++
		default:
			continue
		}
		return true
	}
	return false
}

// arguments are the streams of the call, in the order of their ids.
func (s *sweep) arguments() (ids []string, entries []entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, ok := s.seen[frame.TypeReq]
	if !ok {
		return nil, nil
	}
	for k, e := range s.book {
		if (k.direction == direction{id, cartridgetest.ToHost}) && e.started {
			ids = append(ids, k.stream)
		}
	}
	slices.Sort(ids)
	for _, k := range ids {
		entries = append(entries, *s.book[flowStream{direction{id, cartridgetest.ToHost}, k}])
	}
	return ids, entries
}

// callee is the call, which has been seen.
func (s *sweep) callee() *cartridgetest.PeerCall {
	s.mu.Lock()
	id := s.seen[frame.TypeReq]
	s.mu.Unlock()
	for s.peer == nil || s.peer.ID() != id { // calls of earlier plays may not have been taken
		s.peer = s.h.WantPeerCall(sweepPeer)
	}
	return s.peer
}

// answers gives a chunk of an argument back, on a stream of the same name.
func (s *sweep) answers(turn int) bool {
	ids, args := s.arguments()
	for n := range ids {
		n = (n + turn) % len(ids)
		i := slices.IndexFunc(s.answer, func(a *hostStream) bool { return a.name == ids[n] })
		if i < 0 {
			s.answer = append(s.answer, &hostStream{Stream: s.callee().Stream(ids[n], "media:"), name: ids[n]})
			return true
		}
		switch a := s.answer[i]; {
		case a.sent < args[n].sent && a.Credit() > 0:
			a.Chunk("x")
			a.sent++
			return true
		case args[n].ended && a.sent == args[n].sent && !a.ended:
			a.End()
			a.ended = true
			return true
		}
	}
	return false
}

// ends ends a stream of the body, the body, or the answer of the call.
func (s *sweep) ends() bool {
	for i, b := range s.body {
		if b.sent == s.length(i) && !b.ended {
			b.End()
			b.ended = true
			return true
		}
	}
	open := func(h *hostStream) bool { return !h.ended }
	if !s.bodyEnded && !slices.ContainsFunc(s.body, open) {
		s.req.End()
		s.bodyEnded = true
		return true
	}
	if s.peer != nil && !s.peerEnded && s.terminal(direction{s.peer.ID(), cartridgetest.ToHost}) && !slices.ContainsFunc(s.answer, open) {
		s.peer.End()
		s.peerEnded = true
		return true
	}
	return false
}

func (s *sweep) terminal(d direction) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.over[d] != 0
}

// grants gives one credit back, to an argument or to the answer.
func (s *sweep) grants() bool {
	ids, args := s.arguments()
	for n, id := range ids {
		if args[n].granted < args[n].sent && !args[n].ended {
			s.callee().GrantStream(id, 1)
			return true
		}
	}
	s.mu.Lock()
	stream, e := s.output()
	s.mu.Unlock()
	if stream == "" || e.granted == e.sent {
		return false
	}
	s.req.GrantStream(stream, 1)
	return true
}

// output is the answer's stream; s.mu is held.
func (s *sweep) output() (string, entry) {
	for k, e := range s.book {
		if (k.direction == direction{s.req.ID(), cartridgetest.ToHost}) {
			return k.stream, *e
		}
	}
	return "", entry{}
}

// gates are those of the cartridge's open streams, with their place in the book; s.mu is held.
func (s *sweep) gates() map[flowStream]*credit.Gate {
	gates := map[flowStream]*credit.Gate{}
	if s.call == nil {
		return gates
	}
	for id, g := range bifaci.ArgGates(s.call) {
		gates[flowStream{direction{s.call.ID(), cartridgetest.ToHost}, id}] = g
	}
	if stream, _ := s.output(); stream != "" {
		gates[flowStream{direction{s.req.ID(), cartridgetest.ToHost}, stream}] = bifaci.GateOf(s.r)
	}
	return gates
}

// balance holds the books to the law, while everybody waits: what was granted, the window included, is what was acquired and what is
// available. A sender's CHUNKs are what it has acquired; a receiver has granted what was read, as it waits.
func (s *sweep) balance() {
	s.t.Helper()
	if s.ended() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, g := range s.gates() {
		if e := s.at(k); !e.ended {
			require.Equal(s.t, s.window+e.granted, e.sent+g.Available(), "granted = acquired + available, of the cartridge's stream %v", k)
		}
	}
	for k, e := range s.book {
		if k.to == cartridgetest.ToCartridge && !e.ended {
			require.Equal(s.t, s.read[k], e.granted, "what was read is granted, of the host's stream %v", k)
		}
	}
}

// cancel ends the request, and holds the books to the law: what was available is discarded, nothing else.
func (s *sweep) cancel(atRest bool) {
	s.t.Helper()
	s.mu.Lock()
	gates := s.gates()
	available, sent := map[flowStream]uint64{}, map[flowStream]uint64{}
	for k, g := range gates {
		available[k], sent[k] = g.Available(), s.at(k).sent
	}
	s.mu.Unlock()
	s.req.Cancel(failure.UserCancel())
	synctest.Wait()
	require.True(s.t, s.ended(), "the request goes on")
	if atRest || s.req.Terminal().Type() == frame.TypeErr {
		s.req.WantErr(failure.Cancelled, failure.User)
	}
	s.settle(gates, available, sent, atRest)
	for name, p := range s.h.Probe().Pools {
		require.Zero(s.t, p.Active+p.Queued, "pool %s", name)
	}
}

// settle holds the books of a request that was cancelled to the law.
func (s *sweep) settle(gates map[flowStream]*credit.Gate, available, sent map[flowStream]uint64, atRest bool) {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, g := range gates {
		e := s.at(k)
		require.Zero(s.t, g.Available(), "a gate of a request that is over is closed")
		switch discarded := s.window + e.granted - e.sent; {
		case atRest && !e.ended:
			require.Equal(s.t, available[k], discarded, "granted = acquired + discarded, of stream %v", k)
			fallthrough
		case atRest:
			require.Equal(s.t, sent[k], e.sent, "a CHUNK behind the CANCEL")
		default:
			require.GreaterOrEqual(s.t, s.window+e.granted, e.sent)
		}
	}
	if id, called := s.seen[frame.TypeReq]; called && atRest && !s.peerEnded {
		require.Equal(s.t, id, s.seen[frame.TypeCancel], "the call is cancelled too")
	}
}

// books are for messages.
func (s *sweep) books() (text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, e := range s.book {
		text += fmt.Sprintf("\n%v: %+v, read %d", k, *e, s.read[k])
	}
	return text
}
