package stages

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/stream"
)

// StreamItem is one item and the stream it came on; a LOG, which is no item, has neither.
type StreamItem struct {
	Item   Item
	Stream *Inbox // what its STREAM_START said
	Log    *frame.LogRecord
}

// ReassembleStage is a [Receiver] and its reader in one: the frames of one direction of one request in, from STREAM_START to
// END, its items out in order of arrival. It holds the direction to the rules of spec/runtime.md 3.4; what breaks one, or
// an ERR, ends the stage with an error. An item counts as read when it is emitted, and credit is granted as by a handler:
// in batches, all of it before the stage waits for input, and at once for the continuation of an item.
type ReassembleStage struct {
	link  *Link
	flow  Flow
	recv  Receiver
	fault *failure.Failure
}

// NewReassembleStage makes a stage for a direction whose data its grants credit. Its grants go to link.Lanes, or, when there
// are none, to link.Granted; they carry the ids of flow. It needs no other frame of the link and starts nothing.
func NewReassembleStage(link *Link, flow *Flow, dir frame.CreditDir) *ReassembleStage {
	s := &ReassembleStage{link: link}
	s.flow.Init(flow.id, flow.routing)
	s.recv.Init(link, &s.flow, dir, (*stageOwner)(s))
	s.recv.Merge()
	s.recv.rd.poll = true
	return s
}

// stageOwner is the stage as the owner of its receiver.
type stageOwner ReassembleStage

// Fault makes the step that is under way fail.
func (s *stageOwner) Fault(f *failure.Failure) { s.fault = f }

// Step takes one frame and emits the items that are whole with it.
func (s *ReassembleStage) Step(p Parcel, emit func(StreamItem) error) error {
	if fault := s.recv.Take(&p.Frame, p.Block); fault != nil {
		return fault
	}
	for {
		item, in, log, err := s.recv.NextMerged(context.Background())
		switch {
		case s.fault != nil:
			return s.fault
		case errors.Is(err, errDry):
			return nil
		case errors.Is(err, io.EOF):
			return stream.ErrStopped // END: nothing may follow
		case err != nil:
			return err
		}
		if err := emit(StreamItem{item, in, log}); err != nil {
			return err
		}
	}
}

// Deadline asks for Expire before a wait when there is something to grant.
func (s *ReassembleStage) Deadline() time.Time {
	if s.recv.pending.Load() {
		return time.Unix(0, 1)
	}
	return time.Time{}
}

// Expire grants what has been read.
func (s *ReassembleStage) Expire(time.Time, func(StreamItem) error) error {
	s.recv.Flush()
	return nil
}

// Flush is the end of the input without an END: an error while a stream is open.
func (s *ReassembleStage) Flush(func(StreamItem) error) error {
	if fault := s.recv.End(); fault != nil {
		return fault
	}
	return nil
}

// Take hands r a frame of its direction, whatever its type. block, when not nil, holds its body and belongs to r from here on.
// It never waits. A frame that is no part of a body is a fault.
func (r *Receiver) Take(f *frame.Frame, block *Block) *failure.Failure {
	if f.Type == frame.TypeChunk {
		_, fault := r.Chunk(f, block)
		return fault
	}
	defer block.Release() // nothing else keeps what aliases the body
	switch f.Type {
	case frame.TypeStreamStart:
		return r.Start(f)
	case frame.TypeStreamEnd:
		return r.StreamEnd(f)
	case frame.TypeEnd:
		return r.End()
	case frame.TypeErr:
		remote, err := f.Failure()
		if err != nil {
			return protocolError("the ERR of the body: %w", err)
		}
		r.Close(&failure.Remote{Failure: *remote})
		return nil
	}
	return protocolError("a %s frame is no part of a body", f.Type)
}
