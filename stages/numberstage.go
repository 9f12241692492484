package stages

import "github.com/pipe-cartridge/pipe/bifaci/frame"

// NumberStage is what the lanes do to a frame before they encode it: it must fit, the terminal gate of its flow must let it
// pass, and it gets its flow's ids and next seq. A flow must go through one such stage, or through
// one [Lanes], only.
type NumberStage struct {
	// Refused is told about frames that do not fit; the stage goes on. Without it such a frame ends the stage.
	Refused func(Parcel, error)

	maxBody  int
	counters Counters
}

// NewNumberStage makes a stage for frame bodies of at most maxFrame bytes. counters, when not nil, is told about stragglers.
func NewNumberStage(maxFrame uint64, counters Counters) *NumberStage {
	return &NumberStage{maxBody: int(min(maxFrame, frame.MaxBody)), counters: counters}
}

// Step numbers one frame, whose Flow must be set.
func (s *NumberStage) Step(p Parcel, emit func(Parcel) error) error {
	ok, err := p.Flow.number(&p.Frame, len(p.Frame.Payload), s.maxBody)
	switch {
	case err != nil && s.Refused != nil:
		s.Refused(p, err)
		return nil
	case err != nil:
		return err
	case !ok:
		if s.counters != nil {
			s.counters.Straggler(p.Frame.Type)
		}
		p.Block.Release()
		return nil
	}
	return emit(p)
}
