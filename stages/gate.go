package stages

import (
	"context"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/credit"
)

// acquire takes between one and most credits, waiting for the first; before the wait it calls hook, unless that is nil
//
func (l *Link) acquire(ctx context.Context, gate *credit.Gate, hook func(), most int) (int, error) {
	n, err := gate.TryAcquireUpTo(uint64(most))
	if n > 0 || err != nil {
		return int(n), err
	}
	if hook != nil {
		hook()
	}
	since := time.Now()
	n, err = gate.AcquireUpTo(ctx, uint64(most))
	l.CreditWaits.Add(1)
	l.CreditWaitNanos.Add(int64(time.Since(since)))
	return int(n), err
}

// GateStage lets CHUNKs pass for one credit each and everything else for none. Behind a CHUNK that waits, other
// frames wait too, as they may not overtake it. A gate that is closed ends the stage with the reason.
type GateStage struct {
	ctx  context.Context // of the Run it is in
	link *Link
	gate *credit.Gate
	hook func()
}

// NewGateStage makes a stage that takes its credit from gate; waits are counted in link. hook, when not nil, is called before
// a wait.
func NewGateStage(link *Link, gate *credit.Gate, hook func()) *GateStage {
	return &GateStage{ctx: context.Background(), link: link, gate: gate, hook: hook}
}

// Begin sets the context of waits; see stream.Blocking.
func (s *GateStage) Begin(ctx context.Context) { s.ctx = ctx }

// Step passes one frame on.
func (s *GateStage) Step(p Parcel, emit func(Parcel) error) error {
	if p.Frame.Type == frame.TypeChunk {
		if _, err := s.link.acquire(s.ctx, s.gate, s.hook, 1); err != nil {
			return err
		}
	}
	return emit(p)
}
