package stages

import (
	"context"
	"math"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Value is what goes into a [ChunkStage].
type Value struct {
	V    any    // what frame.AppendValue takes
	Meta []byte // CBOR map of an item, or nil; scalar streams have none
}

// ChunkStage is the cutting half of a [Sender]: the values of one outgoing stream in, its frames from STREAM_START to
// STREAM_END out, neither credited nor numbered yet; [GateStage] and [NumberStage] do that. On a scalar stream byte
// strings are written, so small ones coalesce, other values are emitted; on a sequence each is an
// item.
type ChunkStage struct {
	ctx    context.Context // of the sender's calls, which wait for nothing here
	link   Link
	mode   Mode
	sender Sender
	emit   func(Parcel) error // of the Step under way
	lost   error              // of an emit
}

// NewChunkStage makes the stage of one stream. Only the sizes of limits count. Large payloads are cut into blocks of pool.
func NewChunkStage(flow *Flow, id, media string, mode Mode, limits frame.Limits, pool *Pool) *ChunkStage {
	s := &ChunkStage{ctx: context.Background(), mode: mode}
	limits.InitialCredit = math.MaxUint64
	s.link.Pool, s.link.Limits = pool, limits
	s.link.Lanes = NewLanes(nil, limits.MaxFrame, nil)
	s.link.Lanes.tap = s.take
	s.sender.Init(&s.link, flow, []byte(id), []byte(media), nil)
	return s
}

// take emits a frame that the sender appends. It runs under the lock of lanes that nobody else has, so it may wait. What it
// has tried to emit is not its own any more, so the sender must not hear of a failure before the next frame.
func (s *ChunkStage) take(flow *Flow, f *frame.Frame, block *Block) error {
	if s.lost != nil {
		return s.lost
	}
	if err := flow.fits(f, len(f.Payload), s.link.Lanes.limit); err != nil {
		return err
	}
	p := Parcel{*f, block, flow}
	if len(f.Payload) <= laneInline { // the lane would have copied it, and the sender uses the memory again
		p.Frame.Payload = append([]byte{}, f.Payload...)
		block.Release()
		p.Block = nil
	}
	p.Frame.Meta = append([]byte(nil), f.Meta...)
	s.lost = s.emit(p)
	return nil
}

// start sends an explicit STREAM_START when the mode asks for what an implicit one cannot say.
func (s *ChunkStage) start() error {
	if s.sender.Started() || !s.mode.Unbounded && s.mode.Meta == nil && !s.mode.Sequence {
		return nil
	}
	return s.sender.Start(s.ctx, s.mode)
}

// Step cuts one value.
func (s *ChunkStage) Step(v Value, emit func(Parcel) error) error {
	s.emit = emit
	err := s.start()
	switch {
	case err != nil:
	case s.mode.Sequence:
		err = s.sender.EmitItem(s.ctx, v.V, v.Meta)
	default:
		err = s.sender.EmitValue(s.ctx, v.V)
	}
	return s.result(err)
}

// Flush sends what small writes have left, and STREAM_END; a stream without values is started first.
func (s *ChunkStage) Flush(emit func(Parcel) error) error {
	s.emit = emit
	err := s.start()
	if err == nil {
		err = s.sender.CloseStarted(s.ctx)
	}
	return s.result(err)
}

func (s *ChunkStage) result(err error) error {
	if s.lost != nil {
		return s.lost
	}
	return err
}
