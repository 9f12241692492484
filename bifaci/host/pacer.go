package host

import (
	"math"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stages"
)

// Bounds of one direction of a relayed call.
const (
	maxRelayStreams = 256  // streams, as
	maxEarlyFrames  = 4096 // frames that wait for a cartridge that is being started
)

// held is a frame that waits; everything of it lasts.
type held struct {
	f     frame.Frame
	block *stages.Block
}

// pacer is one direction of a relayed call between two links whose windows may differ. It lets through what the destination has
// granted and holds the rest back, which is at most the difference of the windows because the source is held to its own.
// It is a value without a lock; emit must not call back.
type pacer struct {
	source, dest int64 // windows of the two links, chunks; dest counts once open is set
	open         bool  // the destination is known
	early        []held
	streams      map[string]*paced
	last         *held // END or ERR, behind chunks that are held back
	emit         func(f *frame.Frame, block *stages.Block)
}

// paced is one stream.
type paced struct {
	source int64 // how many chunks the source may still send
	dest   int64 // and how many may still be passed on
	held   []held
}

// arrive takes a frame of the source. keep makes a frame last. The failure says that the source has broken a rule that protects the
// host.
func (p *pacer) arrive(f *frame.Frame, block *stages.Block, keep func(*frame.Frame, *stages.Block)) *failure.Failure {
	if fault := p.admit(f); fault != nil {
		block.Release()
		return fault
	}
	if !p.open {
		if len(p.early) >= maxEarlyFrames {
			block.Release()
			return failure.Newf(failure.QueueFull, failure.Resource, "%d frames wait already for the cartridge to start", maxEarlyFrames)
		}
		keep(f, block)
		p.early = append(p.early, held{*f, block})
		return nil
	}
	p.pass(f, block, keep)
	return nil
}

// admit holds the source to its window and to a bounded number of streams.
func (p *pacer) admit(f *frame.Frame) *failure.Failure {
	switch f.Type {
	case frame.TypeStreamStart:
		if p.streams == nil {
			p.streams = make(map[string]*paced)
		}
		if p.streams[string(f.StreamID)] != nil {
			return nil // the destination judges it
		}
		if len(p.streams) >= maxRelayStreams {
			return violation("stream %q is one more than the %d streams a request may have", f.StreamID, maxRelayStreams)
		}
		p.streams[string(f.StreamID)] = &paced{source: p.source, dest: p.dest}
	case frame.TypeChunk:
		s := p.streams[string(f.StreamID)]
		if s == nil {
			return violation("chunk of stream %q, which was never started", f.StreamID)
		}
		if s.source--; s.source < 0 {
			return failure.Newf(failure.CreditViolation, failure.Internal, "chunk %d of stream %q without credit", f.ChunkIndex, f.StreamID)
		}
	}
	return nil
}

// start opens the way to the destination, whose window is known now, and passes on what has waited.
func (p *pacer) start(dest int64) {
	p.open, p.dest = true, dest
	for _, s := range p.streams {
		s.dest = dest
	}
	early := p.early
	p.early = nil
	for i := range early {
		p.pass(&early[i].f, early[i].block, func(*frame.Frame, *stages.Block) {})
	}
}

// pass lets a frame through, or puts it behind what its stream holds.
func (p *pacer) pass(f *frame.Frame, block *stages.Block, keep func(*frame.Frame, *stages.Block)) {
	s := p.streams[string(f.StreamID)]
	switch {
	case f.Type == frame.TypeChunk && s != nil:
		if len(s.held) > 0 || s.dest <= 0 {
			keep(f, block)
			s.held = append(s.held, held{*f, block})
			return
		}
		s.dest--
	case f.Type == frame.TypeStreamEnd && s != nil && len(s.held) > 0:
		keep(f, block)
		s.held = append(s.held, held{*f, block})
		return
	case f.Type.IsTerminal() && p.holding():
		keep(f, block)
		p.last = &held{*f, block}
		return
	}
	p.emit(f, block)
}

func (p *pacer) holding() bool {
	for _, s := range p.streams {
		if len(s.held) > 0 {
			return true
		}
	}
	return false
}

// grant counts what the destination grants, which it grants to the source through the host, and passes on what that lets go.
func (p *pacer) grant(stream []byte, named bool, n uint64) {
	s := p.streams[string(stream)]
	if !named && len(p.streams) == 1 {
		for _, s = range p.streams {
		}
	}
	if s == nil {
		return
	}
	s.source, s.dest = addCredit(s.source, n), addCredit(s.dest, n)
	if !p.open || len(s.held) == 0 {
		return
	}
	i := 0
	for ; i < len(s.held); i++ {
		h := &s.held[i]
		if h.f.Type == frame.TypeChunk {
			if s.dest <= 0 {
				break
			}
			s.dest--
		}
		p.emit(&h.f, h.block)
		*h = held{}
	}
	if s.held = s.held[i:]; len(s.held) == 0 {
		s.held = nil
		if p.last != nil && !p.holding() {
			last := p.last
			p.last = nil
			p.emit(&last.f, last.block)
		}
	}
}

// addCredit saturates.
func addCredit(have int64, n uint64) int64 {
	if n > math.MaxInt64/2 || have > math.MaxInt64/2 {
		return math.MaxInt64 / 2
	}
	return have + int64(n)
}

// drop gives back what is held.
func (p *pacer) drop() {
	for i := range p.early {
		p.early[i].block.Release()
	}
	for _, s := range p.streams {
		for i := range s.held {
			s.held[i].block.Release()
		}
	}
	if p.last != nil {
		p.last.block.Release()
	}
	p.early, p.streams, p.last = nil, nil, nil
}
