package stages

import (
	"errors"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// ReorderStage is [Reorder] as a stage: the frames of each flow come out in the order of their seq. It is strict: an
// [*OrderError] ends it.
type ReorderStage struct{ core *Reorder }

// NewReorderStage makes a stage that holds up to limit frames per flow. lost, when not nil, is told about frames that are held at
// the end and will not come out any more.
func NewReorderStage(limit uint64, lost func(*frame.Frame)) *ReorderStage {
	r := NewReorder(limit)
	r.Lost = lost
	return &ReorderStage{r}
}

// Step takes a frame and emits what is in order with it.
func (s *ReorderStage) Step(p Parcel, emit func(Parcel) error) error {
	err := s.core.Step(&p.Frame, p.Block, func(f *frame.Frame, b *Block) error {
		return emit(Parcel{Frame: *f, Block: b, Flow: p.Flow})
	})
	var order *OrderError
	if errors.As(err, &order) {
		p.Block.Release()
	}
	return err
}

// End gives the memory of frames that are still held back.
func (s *ReorderStage) End(error) { s.core.Close() }
