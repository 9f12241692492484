package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
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

const (
	ledgerWalks = 25
	ledgerSteps = 450 // frames and releases of one walk, at least
	ledgerSeeds = "testdata/ledger-seeds.txt"
)

// TestFrameLedger walks at random through frames of every type for requests in every state and compares what the cartridge counts
// with a plain model of the tables. A seed that fails is printed, and kept in testdata, where every later run walks it first.
func TestFrameLedger(t *testing.T) {
	var seeds []uint64
	kept, err := os.ReadFile(ledgerSeeds)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(kept)) {
		var seed uint64
		_, err := fmt.Sscan(word, &seed)
		require.NoError(t, err, "%s: %q", ledgerSeeds, word)
		seeds = append(seeds, seed)
	}
	for range ledgerWalks {
		seeds = append(seeds, rand.Uint64())
	}
	steps := 0
	for i, seed := range seeds {
		ok := t.Run(fmt.Sprintf("R-11.5 received = delivered + consumed + drops + stragglers, seed %d", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWalk(t, seed, endings[i%len(endings)])
				w.walk()
				steps += w.steps
			})
		})
		if !ok {
			keepSeed(t, seed)
			return
		}
	}
	assert.GreaterOrEqual(t, steps, 10_000)
}

// keepSeed notes a seed that failed.
func keepSeed(t *testing.T, seed uint64) {
	t.Errorf("the walk with seed %d failed; it is kept in bifaci/%s", seed, ledgerSeeds)
	require.NoError(t, os.MkdirAll(filepath.Dir(ledgerSeeds), 0o755))
	f, err := os.OpenFile(ledgerSeeds, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	require.NoError(t, err)
	_, err = fmt.Fprintln(f, seed)
	require.NoError(t, err)
	require.NoError(t, f.Close())
}

// endings are how a walk ends; none of them may leave a frame uncounted.
var endings = []string{"clean", "broken input", "output gone", "stopped", "cut"}

// walk is one random walk.
type walk struct {
	walkModel
	t       *testing.T
	rng     *rand.Rand
	c       *bifaci.Cartridge
	h       *cartridgetest.Host
	ending  string
	lastID  uint64
	steps   int
	release map[uint64]chan struct{} // of the handlers that have started
	started chan walkStart
	keys    map[uint64]any // of calls: their ids on the wire
	held    tally          // what was counted when the last comparison held
	said    []string       // since then
}

type walkStart struct {
	id      uint64
	release chan struct{}
	call    any // id of the peer call on the wire, or nil
}

func newWalk(t *testing.T, seed uint64, ending string) *walk {
	w := &walk{t: t, rng: rand.New(rand.NewPCG(seed, 1)), ending: ending, lastID: 100, release: map[uint64]chan struct{}{}, keys: map[uint64]any{},
		started: make(chan walkStart, 1000)}
	handler := func(kind string) served {
		return served{kind, func(ctx context.Context, r *bifaci.Request) error {
			id, _ := r.ID().Uint()
			s := walkStart{id: id, release: make(chan struct{})}
			if kind == "calls" {
				call, err := r.Peer().Call(ctx, capNamed("other"))
				if err == nil {
					uuid, _ := call.ID().UUID()
					s.call = uuid[:]
				}
			}
			w.started <- s
			if kind == "reads" {
				transcriptOf(r)
			}
			<-s.release
			return nil
		}}
	}
	pool := map[string][]string{"all of them": {"idle", "reads", "calls"}}
	w.c = cartridgeOf(t, pooled(pool, map[string]uint64{"all of them": walkCapacity}), []bifaci.Option{bifaci.WithMaxQueued(walkQueued)},
		handler("idle"), handler("reads"), handler("calls"))
	w.h = cartridgetest.Start(t, w.c, cartridgetest.WithWindow(walkWindow), cartridgetest.WithManualCredit(), cartridgetest.WithoutRouting())
	w.h.AllowUnanswered()
	synctest.Wait()
	w.consumed = w.h.Check().Frames(cartridgetest.ToCartridge) // HELLO, POLICY and a probe: all for the runtime
	return w
}

// transcriptOf reads everything there is, whatever it is.
func transcriptOf(r *bifaci.Request) {
	input, err := r.TakeInput()
	if err != nil {
		return
	}
	for s, err := range input.All(r.Context()) {
		if err != nil {
			return
		}
		for _, err := range s.Items(r.Context()) {
			if err != nil {
				return
			}
		}
	}
}

func (w *walk) walk() {
	for w.steps < ledgerSteps {
		for range 1 + w.rng.IntN(12) { // a burst, then a look
			w.step()
			w.steps++
			if w.unborn() {
				break // whether its handler was called in time is decided elsewhere: look before the next frame
			}
		}
		w.compare()
		if w.t.Failed() {
			break
		}
		w.letGo()
	}
	w.finish()
}

// unborn reports whether a request was stopped whose handler is not known to have started.
func (w *walk) unborn() bool {
	return slices.ContainsFunc(w.requests, func(r *walkRequest) bool { return r.state == "X" && w.release[r.id] == nil })
}

// compare waits until everybody waits and holds the ledger against the model.
func (w *walk) compare() {
	synctest.Wait()
	w.meet()
	for _, r := range slices.Clone(w.requests) {
		if r.state == "X" && w.release[r.id] == nil { // it was stopped before its handler was called, and so never will be
			w.end(r)
			synctest.Wait()
			w.meet()
		}
	}
	s := w.c.Stats()
	in := w.h.Check().Frames(cartridgetest.ToCartridge)
	ok := assert.Equal(w.t, in, s.Frames.Received, "every frame is received") &&
		assert.Equal(w.t, in, w.total(), "the model counts every frame") &&
		assert.Equal(w.t, stats.LedgerSnapshot{Received: in, Delivered: w.delivered, Consumed: w.consumed,
			Dropped: w.noRoute + w.cancelled + w.creditViolation, Straggled: w.straggled}, s.Frames) &&
		assert.Equal(w.t, [3]uint64{w.noRoute, w.cancelled, w.creditViolation},
			[3]uint64{s.Drops.ByReason[stats.NoRoute], s.Drops.ByReason[stats.Cancelled], s.Drops.ByReason[stats.CreditViolation]})
	if !ok {
		w.t.Logf("it was right at %+v; then\n%s", w.held, strings.Join(w.said, "\n"))
	}
	w.held, w.said = w.tally, nil
	for _, r := range w.requests {
		if r.kind == "reads" && !r.call && r.state != "Q" { // everything was read and granted back
			for _, s := range r.streams {
				s.room = walkWindow
			}
		}
	}
}

// meet takes note of handlers that have started, and of the calls they make.
func (w *walk) meet() {
	for {
		select {
		case s := <-w.started:
			w.release[s.id] = s.release
			if s.call != nil && !w.hasCall(s.id) {
				w.lastID++
				w.keys[w.lastID] = s.call
				r := w.find(s.id)
				if r == nil || r.state == "X" { // the call has ended already, and is one of the last ended
					w.ended = append(w.ended, w.lastID)
					w.ended = w.ended[max(0, len(w.ended)-stats.RecentSize):]
				} else {
					w.requests = append(w.requests, &walkRequest{id: w.lastID, kind: "call", state: "R", call: true, owner: s.id})
				}
			}
		default:
			return
		}
	}
}

func (w *walk) hasCall(owner uint64) bool {
	for _, r := range w.requests {
		if r.call && r.owner == owner {
			return true
		}
	}
	return false
}

// letGo releases a handler now and then.
func (w *walk) letGo() {
	for _, r := range w.requests {
		release := w.release[r.id]
		if r.call || release == nil || w.rng.IntN(4) != 0 {
			continue
		}
		delete(w.release, r.id)
		if r.kind == "reads" && r.state == "R" { // it reads until its body ends
			w.send(r.id, cartridgetest.ErrFrame("GONE", failure.Input, "no more"))
			w.terminal(r.id, frame.TypeErr)
		}
		close(release)
		synctest.Wait()
		for _, call := range w.requests {
			if call.call && call.owner == r.id {
				w.end(call)
				break
			}
		}
		w.end(r)
		w.compare()
		return
	}
}

// finish ends the link and compares for a last time: nothing that was received may be without a fate.
func (w *walk) finish() {
	for _, release := range w.release {
		close(release)
	}
	go func() { // handlers that are still admitted; ends with the walk's channel
		for s := range w.started {
			close(s.release)
		}
	}()
	switch w.ending {
	case "clean":
		w.h.CloseInput()
	case "broken input":
		w.h.SendBytes([]byte{0, 0, 0, 1, 0xff})
	case "cut":
		w.h.SendBytes([]byte{0, 0, 1})
		w.h.CloseInput()
	case "output gone":
		w.h.BreakOutput(errors.New("gone"))
		w.h.Send(cartridgetest.HeartbeatFrame(nil).With(frame.KeyID, uint64(9)))
	case "stopped":
		w.h.Stop(errors.New("enough"))
	}
	err := w.h.Wait()
	if w.ending == "clean" {
		assert.NoError(w.t, err)
	} else {
		assert.Error(w.t, err)
	}
	close(w.started)
	s := w.c.Stats()
	assert.Equal(w.t, s.Frames.Received, s.Frames.Settled(), "%+v after the end: %s", s.Frames, w.ending)
	assert.Equal(w.t, s.Drops.Total-s.Drops.ByReason[stats.ChannelClosed], s.Frames.Dropped, "what was lost on the way out is channel_closed")
	assert.GreaterOrEqual(w.t, s.Stragglers.Total, s.Frames.Straggled)
	assert.Zero(w.t, s.Requests)
}

// send sends one frame for a request or a call.
func (w *walk) send(id uint64, f cartridgetest.Frame) {
	is := "nobody's"
	if r := w.find(id); r != nil {
		is = r.kind + " in " + r.state
	}
	w.said = append(w.said, fmt.Sprintf("%d (%s): %s", id, is, f))
	key := w.keys[id]
	if key == nil {
		key = id
	}
	w.h.Send(f.With(frame.KeyID, key))
}

// step sends one frame.
func (w *walk) step() {
	id, r := w.pick()
	switch op := w.rng.IntN(20); {
	case op < 4:
		w.lastID++
		w.open(w.lastID)
	case op == 4 && r != nil && !r.call: // a duplicate; an id that is used again has tests of its own
		w.open(id)
	case op == 5:
		w.link()
	case op < 13:
		w.stream(id, r)
	case op < 15:
		typ, f := frame.TypeEnd, cartridgetest.EndFrame(r != nil && r.call)
		if w.rng.IntN(3) == 0 {
			typ, f = frame.TypeErr, cartridgetest.ErrFrame("GONE", failure.Input, "no more")
		}
		w.send(id, f)
		w.terminal(id, typ)
	default:
		f := []cartridgetest.Frame{cartridgetest.LogFrame("info", failure.Internal, "so"), cartridgetest.CreditFrame(frame.CreditResponse, "", 1),
			cartridgetest.CancelFrame(failure.UserCancel()), cartridgetest.CloseStreamFrame("")}[w.rng.IntN(4)]
		w.send(id, f)
		w.other(id, f.Type())
	}
}

// pick chooses whom a frame is for: mostly one that lives, else one that has ended, else nobody.
func (w *walk) pick() (uint64, *walkRequest) {
	switch n := w.rng.IntN(10); {
	case n < 7 && len(w.requests) > 0:
		r := w.requests[w.rng.IntN(len(w.requests))]
		return r.id, r
	case n < 9 && len(w.ended) > 0:
		id := w.ended[w.rng.IntN(len(w.ended))]
		return id, nil
	}
	return 1 + uint64(w.rng.IntN(50)), nil // no request has such a number
}

// open sends a REQ.
func (w *walk) open(id uint64) {
	kind := []string{"idle", "reads", "calls", "nobody"}[w.rng.IntN(4)]
	w.send(id, cartridgetest.ReqFrame(capNamed(kind)))
	w.req(id, kind, kind != "nobody")
}

// link sends a frame for the link itself.
func (w *walk) link() {
	w.consumed++
	switch w.rng.IntN(3) {
	case 0:
		w.lastID++
		w.send(w.lastID, cartridgetest.HeartbeatFrame(nil))
	case 1:
		w.send(0, cartridgetest.PolicyFrame(bifaci.Policy{Name: "offline"}))
	default:
		w.send(0, cartridgetest.HelloFrame(frame.DefaultLimits()))
	}
}

// stream sends STREAM_START, CHUNK or STREAM_END, right or wrong.
func (w *walk) stream(id uint64, r *walkRequest) {
	name := string(rune('a' + w.rng.IntN(3)))
	var s *walkStream
	if r != nil {
		s = r.stream(name)
	}
	count := uint64(0)
	if s != nil {
		count = s.chunks
	}
	sound := w.rng.IntN(8) != 0
	typ := frame.TypeChunk
	switch n := w.rng.IntN(4); {
	case s == nil && n > 0:
		typ = frame.TypeStreamStart
	case n == 0:
		typ = frame.TypeStreamEnd
	}
	if typ == frame.TypeChunk && s != nil && s.room == 0 && r.kind == "reads" {
		return // whether it was read by now is anybody's guess
	}
	var f cartridgetest.Frame
	switch typ {
	case frame.TypeStreamStart:
		f = cartridgetest.StartFrame(name, "media:")
		if !sound {
			f = f.Without(frame.KeyMediaURN)
		}
	case frame.TypeChunk:
		f = cartridgetest.ChunkFrame(name, count, cartridgetest.Bytes("x"))
		if !sound {
			f = f.With(frame.KeyChecksum, uint64(1))
		}
	default:
		f = cartridgetest.StreamEndFrame(name, count)
		if !sound {
			count++
			f = f.With(frame.KeyChunkCount, count)
		}
	}
	w.send(id, f)
	w.data(id, typ, name, count, sound)
}
