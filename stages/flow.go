package stages

import "github.com/pipe-cartridge/pipe/bifaci/frame"

// Flow is one direction of one request as its writer sees it: the ids that go onto every frame, the next seq, and the
// terminal gate. The gate belongs to the request, not to its id: it holds as long as anybody still holds the Flow, so
// neither a reused id nor any number of other requests makes it forget. Guarded by the lock of the
// [Lanes] it is written through.
type Flow struct {
	id, routing frame.ID
	seq         uint64
	gate        gateMode
}

type gateMode uint8

const (
	gateOpen  gateMode = iota
	gateShut           // a terminal was written: flow frames are stragglers from now on
	gateNever          // answers that belong to no request are not gated
)

// NewFlow makes the flow of a request; routing is the zero ID when the request has none.
func NewFlow(id, routing frame.ID) *Flow { return &Flow{id: id, routing: routing} }

// Init is [NewFlow] in place.
func (fl *Flow) Init(id, routing frame.ID) { *fl = Flow{id: id, routing: routing} }

// NewUngatedFlow makes a flow for answers that belong to no request: two of them with one id are both written.
func NewUngatedFlow(id, routing frame.ID) *Flow {
	return &Flow{id: id, routing: routing, gate: gateNever}
}

// ID is the request id.
func (fl *Flow) ID() frame.ID { return fl.id }

// Routing is the routing id, the zero ID when there is none.
func (fl *Flow) Routing() frame.ID { return fl.routing }

// number is what stands between a frame with n bytes of payload and the wire, in this order: it must fit, the
// terminal gate must let it pass, and it gets its ids and its seq. A frame that is refused uses up no seq.
func (fl *Flow) number(f *frame.Frame, n, maxBody int) (ok bool, err error) {
	if err := fl.fits(f, n, maxBody); err != nil {
		return false, err
	}
	return fl.admit(f), nil
}

// fits bounds the frame without encoding it where that is plain, which is nearly always.
func (fl *Flow) fits(f *frame.Frame, n, maxBody int) error {
	const overhead = 256 // more than every fixed-size key together
	if overhead+n+len(f.Meta)+len(f.StreamID)+len(f.MediaURN)+len(f.Cap)+len(f.ContentType) <= maxBody {
		return nil
	}
	g := *f
	g.ID, g.Seq = fl.id, fl.seq
	g.WithRouting(fl.routing)
	if size := frame.BodySize(&g, n); size > maxBody {
		return &TooLargeError{f.Type, size, maxBody}
	}
	return nil
}

// admit is the terminal gate and the numbering of one frame about to be written: it fills in ids and
// seq and reports whether the frame may go. Non-flow frames always may, with seq 0.
func (fl *Flow) admit(f *frame.Frame) bool {
	f.ID = fl.id
	f.WithRouting(fl.routing)
	f.Seq = 0
	if !f.Type.IsFlow() {
		return true
	}
	if fl.gate == gateShut {
		return false
	}
	f.Seq = fl.seq
	fl.seq++
	if f.Type.IsTerminal() {
		fl.seq = 0
		if fl.gate == gateOpen {
			fl.gate = gateShut
		}
	}
	return true
}

// Shut closes the terminal gate for a flow that ends without a terminal of its own: a call that was cancelled. It may only be
// called inside a [Batch].
func (fl *Flow) Shut() { fl.gate = gateShut }
