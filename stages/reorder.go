package stages

import (
	"bytes"
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Bounds of a reorder stage beside max_reorder_buffer, which is per flow.
const (
	reorderMaxHeld  = 4096    // frames held over all flows
	reorderMaxFlows = 1 << 16 // flows that have begun and not ended
)

// OrderError says that a frame came with a seq that its flow cannot use: one that was there before, or one so far ahead that the
// frames before it cannot be waited for.
type OrderError struct {
	ID, Routing frame.ID
	Seq, Want   uint64
	Overflow    bool // too much is held already; otherwise the seq is stale or a duplicate
}

// Error names the flow and both numbers.
func (e *OrderError) Error() string {
	if e.Overflow {
		return fmt.Sprintf("reorder: flow %s: seq %d overflows the buffer, which waits for %d", e.ID, e.Seq, e.Want)
	}
	return fmt.Sprintf("reorder: flow %s: seq %d is stale or a duplicate, expected %d", e.ID, e.Seq, e.Want)
}

// flowKey names a flow: the same id with another routing id, or without one, is another flow (spec/wire.md 5.3).
type flowKey struct{ id, routing frame.ID }

// Reorder puts the frames of each flow into the order of their seq, for transports that do not keep it. The expected
// frame is passed on, with what was waiting behind it; a later one is held; an earlier or repeated one, and one too many to hold,
// is an error. Frames that belong to no flow pass. It never waits. Used by one goroutine.
type Reorder struct {
	// Lost is told about frames that were held and will not be passed on any more: their flow broke, or the stage was closed.
	Lost func(*frame.Frame)

	limit int
	held  int // over all flows
	flows map[flowKey]*orderedFlow
}

type orderedFlow struct {
	next   uint64
	held   map[uint64]heldFrame // made when something is held
	broken bool                 // an error was reported: what comes passes as it comes
}

type heldFrame struct {
	f     *frame.Frame
	block *Block
}

// NewReorder makes a stage that holds up to limit frames per flow, the negotiated max_reorder_buffer.
func NewReorder(limit uint64) *Reorder {
	return &Reorder{limit: int(min(limit, reorderMaxHeld)), flows: make(map[flowKey]*orderedFlow)}
}

// Step takes a frame; block, when not nil, holds its body. It emits the frame and what it releases, or holds it, which copies what
// has no block; emit takes the block over. The error is an [*OrderError], then frame and block stay with the caller, or that of
// emit. After an OrderError the flow is strict no more: whoever goes on passes it as it comes, up to its terminal.
func (r *Reorder) Step(f *frame.Frame, block *Block, emit func(*frame.Frame, *Block) error) error {
	if !f.Type.IsFlow() {
		return emit(f, block)
	}
	key := flowKey{f.ID, f.Routing}
	fl := r.flows[key]
	if fl == nil {
		if len(r.flows) >= reorderMaxFlows {
			return &OrderError{f.ID, f.Routing, f.Seq, 0, true}
		}
		fl = new(orderedFlow)
		r.flows[key] = fl
	}
	switch {
	case fl.broken:
		if f.Type.IsTerminal() {
			delete(r.flows, key)
		}
		return emit(f, block)
	case f.Seq == fl.next:
		return r.pass(key, fl, f, block, emit)
	}
	_, duplicate := fl.held[f.Seq]
	stale := duplicate || f.Seq < fl.next
	if stale || len(fl.held) >= r.limit || r.held >= reorderMaxHeld {
		err := &OrderError{f.ID, f.Routing, f.Seq, fl.next, !stale}
		fl.broken = true
		r.drop(fl)
		return err
	}
	if fl.held == nil {
		fl.held = make(map[uint64]heldFrame)
	}
	g := *f
	if block == nil {
		ownBytes(&g)
	}
	fl.held[f.Seq] = heldFrame{&g, block}
	r.held++
	return nil
}

// pass emits the expected frame and what was waiting behind it, up to a terminal: then the flow is forgotten.
func (r *Reorder) pass(key flowKey, fl *orderedFlow, f *frame.Frame, block *Block, emit func(*frame.Frame, *Block) error) error {
	for {
		fl.next++
		over := f.Type.IsTerminal()
		if over {
			delete(r.flows, key)
			r.drop(fl) // numbered behind the terminal
		}
		if err := emit(f, block); err != nil || over {
			return err
		}
		h, ok := fl.held[fl.next]
		if !ok {
			return nil
		}
		delete(fl.held, fl.next)
		r.held--
		f, block = h.f, h.block
	}
}

// drop loses what a flow holds.
func (r *Reorder) drop(fl *orderedFlow) {
	for seq, h := range fl.held {
		delete(fl.held, seq)
		r.held--
		if r.Lost != nil {
			r.Lost(h.f)
		}
		h.block.Release()
	}
}

// Close loses everything that is held: the frames in front of it will not come.
func (r *Reorder) Close() {
	for _, fl := range r.flows {
		r.drop(fl)
	}
	clear(r.flows)
}

// ownBytes makes a frame independent of the buffer that it was decoded from.
func ownBytes(f *frame.Frame) {
	for _, b := range []*[]byte{&f.ContentType, &f.Meta, &f.Payload, &f.Cap, &f.StreamID, &f.MediaURN} {
		*b = bytes.Clone(*b)
	}
}
