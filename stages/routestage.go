package stages

import (
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Unrouted is a frame that no receiver took. Fault says which rule it breaks; it is nil for a frame of no known request, and
// for one that is no part of a body.
type Unrouted struct {
	Parcel Parcel
	Fault  *failure.Failure
}

// RouteStage hands the frames of bodies to the receivers of their requests and emits what is left. It never waits for a
// receiver: the consumers of those read on goroutines of their own, each at its own pace.
type RouteStage struct {
	find func(id frame.ID) *Receiver
}

// NewRouteStage makes a stage that asks find for the receiver of a request; nil means that there is none.
func NewRouteStage(find func(id frame.ID) *Receiver) *RouteStage { return &RouteStage{find: find} }

// Step routes one frame.
func (s *RouteStage) Step(p Parcel, emit func(Unrouted) error) error {
	switch p.Frame.Type {
	case frame.TypeStreamStart, frame.TypeChunk, frame.TypeStreamEnd, frame.TypeEnd, frame.TypeErr:
		if r := s.find(p.Frame.ID); r != nil {
			fault := r.Take(&p.Frame, p.Block)
			if fault == nil {
				return nil
			}
			p.Block = nil // Take has released it
			p.Frame.Payload = nil
			return emit(Unrouted{p, fault})
		}
	}
	return emit(Unrouted{Parcel: p})
}
