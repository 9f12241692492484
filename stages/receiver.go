package stages

import (
	"context"
	"fmt"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
)

// Link is what the receivers and senders of one connection share. It is filled in once and not changed while they live.
type Link struct {
	Lanes      *Lanes
	Pool       *Pool
	Decoder    *Decoder // whose read buffer the routed frames alias; nil when frames outlive their routing anyway
	Limits     frame.Limits
	MaxStreams int   // streams per request and direction, R-3.39; 0 means 256
	MaxItem    int64 // bytes of one sequence item, R-6.29; 0 means no bound
	// Granted is told about grants when Lanes is nil: of a receiver without a link, as in a [ReassembleStage]. It may be nil.
	Granted func(stream string, n uint64)
	// CreditWaits and CreditWaitNanos count how often and how long senders have waited for credit.
	CreditWaits     atomic.Uint64
	CreditWaitNanos atomic.Int64

	audit auditor
}

// defaultMaxStreams is R-3.39's default.
const defaultMaxStreams = 256

// Receiver is one direction of one request on its receiving side. Route hands it every STREAM_START, CHUNK, STREAM_END,
// END and ERR of that direction, in order, from one goroutine and never waits for it; the consumer takes streams with
// Next from any goroutine. It holds the direction to the rules of spec/runtime.md 3.4: what breaks one is returned to
// route, or, where only a consumer can see it, handed to the fault function.
type Receiver struct {
	link  *Link
	flow  *Flow
	dir   frame.CreditDir
	owner Owner
	wait  func() // called before a consumer waits, in place of Flush; or nil
	act   *Activity

	merged *chunkQueue // one queue for all streams of a response, or nil

	// pending says that some stream holds consumed credit that was not granted yet.
	pending atomic.Bool
	// waiting says that the request stands in line: nothing is granted meanwhile.
	waiting atomic.Bool
	// discard says that nobody will read any more: credit and drop.
	discard atomic.Bool
	// failed says that Fail was called: readers drop what they hold.
	failed atomic.Bool

	// Touched by the reader of a merged response only.
	rd   runReader
	rest *Inbox // the stream whose last chunk held more than one item

	mu      sync.Mutex
	streams []*Inbox
	room    [1]*Inbox // of streams, for the usual request
	open    int
	end     error         // nil while the body is open; io.EOF after its END
	wake    chan struct{} // closed and replaced when streams or end change; made by the first wait
}

// Owner is whose data a [Receiver] receives.
type Owner interface {
	// Fault is called, from any goroutine and at most once per finding, when a consumer or the auditor finds a payload that
	// breaks.
	Fault(*failure.Failure)
}

// Init prepares a receiver in place. dir names whose data its grants credit.
func (r *Receiver) Init(link *Link, flow *Flow, dir frame.CreditDir, owner Owner) {
	r.link, r.flow, r.dir, r.owner = link, flow, dir, owner
	r.streams = r.room[:0]
}

// BeforeWait makes f be called before a consumer waits, in place of Flush: it grants what the same request has consumed anywhere,
// on this receiver too. Called before the first frame.
func (r *Receiver) BeforeWait(f func()) { r.wait = f }

// Watch makes the receiver tell what its consumers do. Called before the first frame.
func (r *Receiver) Watch(a *Activity) { r.act = a }

func (r *Receiver) beforeWait() {
	if r.wait != nil {
		r.wait()
		return
	}
	r.Flush()
}

// Merge makes all streams share one queue, so that items and LOGs are read in arrival order.
func (r *Receiver) Merge() { r.merged = new(chunkQueue) }

// Merged reports whether Merge was called.
func (r *Receiver) Merged() bool { return r.merged != nil }

// Wait says that the request stands in line: grants are held back until Admit. Called before the first frame.
func (r *Receiver) Wait() { r.waiting.Store(true) }

// Admit ends Wait and grants what was held back.
func (r *Receiver) Admit() {
	r.waiting.Store(false)
	r.mu.Lock()
	streams := r.streams
	r.mu.Unlock()
	for _, in := range streams {
		in.grantHeld()
	}
}

func protocolError(format string, args ...any) *failure.Failure {
	return failure.Newf(failure.ProtocolError, failure.Internal, format, args...)
}

// Start takes a STREAM_START.
func (r *Receiver) Start(f *frame.Frame) *failure.Failure {
	switch {
	case !f.Has.Has(frame.KeyStreamID):
		return protocolError("stream_start without stream_id")
	case !f.Has.Has(frame.KeyMediaURN):
		return protocolError("stream_start of stream %q without media_urn", f.StreamID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end != nil {
		return protocolError("stream_start of stream %q after the end of the body", f.StreamID)
	}
	if r.find(f.StreamID) != nil {
		return protocolError("stream %q started twice", f.StreamID)
	}
	limit := r.link.MaxStreams
	if limit == 0 {
		limit = defaultMaxStreams
	}
	if len(r.streams) >= limit {
		return protocolError("stream %q is one more than the %d streams a request may have", f.StreamID, limit)
	}
	in := newInbox(r, f)
	r.streams = append(r.streams, in)
	r.open++
	r.changed()
	return nil
}

// find looks a stream up by id; r.mu is held.
func (r *Receiver) find(id []byte) *Inbox {
	for _, in := range r.streams {
		if string(in.granter.stream) == string(id) {
			return in
		}
	}
	return nil
}

// stream is find for a frame of route, with the checks of.
func (r *Receiver) stream(f *frame.Frame) (*Inbox, *failure.Failure) {
	if !f.Has.Has(frame.KeyStreamID) {
		return nil, protocolError("%s without stream_id", f.Type)
	}
	r.mu.Lock()
	in, ended := r.find(f.StreamID), r.end != nil
	r.mu.Unlock()
	switch {
	case ended:
		return nil, protocolError("%s of stream %q after the end of the body", f.Type, f.StreamID)
	case in == nil:
		return nil, protocolError("%s of stream %q, which was never started", f.Type, f.StreamID)
	case in.over:
		return nil, protocolError("%s of stream %q, which has ended", f.Type, f.StreamID)
	}
	return in, nil
}

// Chunk takes a CHUNK; block, when not nil, holds its body and belongs to the receiver from here on. The fate is Delivered when it
// went to a reader, Consumed when nobody reads any more or it broke a rule, a drop when it exceeded the window or the direction
// had just failed.
func (r *Receiver) Chunk(f *frame.Frame, block *Block) (stats.Fate, *failure.Failure) {
	in, fault := r.stream(f)
	fate := stats.Consumed
	if fault == nil {
		fate, fault = in.arrive(f, block)
	}
	if fault != nil {
		block.Release()
	}
	return fate, fault
}

// StreamEnd takes a STREAM_END.
func (r *Receiver) StreamEnd(f *frame.Frame) *failure.Failure {
	in, fault := r.stream(f)
	if fault != nil {
		return fault
	}
	if f.Has.Has(frame.KeyChunkCount) && f.ChunkCount != in.index {
		return protocolError("stream %q ended with chunk_count %d after %d chunks", f.StreamID, f.ChunkCount, in.index)
	}
	if in.sequence && in.seq.scan.InItem() {
		return failure.Newf(failure.DecodeError, failure.Internal, "stream %q ended inside a sequence item, with %d bytes left over",
			f.StreamID, in.seq.itemSize)
	}
	in.over = true
	in.received.ended.Store(true)
	in.window.Close()
	if r.merged == nil {
		in.own.close(io.EOF)
	}
	r.mu.Lock()
	r.open--
	r.mu.Unlock()
	return nil
}

// End takes the END of the direction: a fault while a stream is open, otherwise the consumer sees io.EOF.
func (r *Receiver) End() *failure.Failure {
	r.mu.Lock()
	if r.open > 0 {
		var id []byte
		for _, in := range r.streams {
			if !in.over {
				id = in.granter.stream
			}
		}
		r.mu.Unlock()
		return protocolError("end of the body while stream %q is open", id)
	}
	if r.end == nil {
		r.end = io.EOF
	}
	r.changed()
	r.mu.Unlock()
	if r.merged != nil {
		r.merged.close(io.EOF)
	}
	return nil
}

// Tail adds END's payload to a merged response as a last data item. Called before End.
func (r *Receiver) Tail(payload []byte) {
	r.merged.put(&chunk{payload: append([]byte(nil), payload...), flags: chunkVerified | chunkTail})
}

// Log adds a LOG to a merged response; it reports that one was dropped for want of room.
func (r *Receiver) Log(log *frame.LogRecord) (dropped bool) { return r.merged.putLog(log) }

// Close ends the direction with an error that arrived in order, the other side's ERR: open streams and the package fail
// with it after what was received before it.
func (r *Receiver) Close(err error) {
	r.mu.Lock()
	if r.end != nil {
		r.mu.Unlock()
		return
	}
	r.end = err
	streams := r.streams
	r.changed()
	r.mu.Unlock()
	for _, in := range streams {
		in.window.Close()
		if r.merged == nil {
			in.own.close(err)
		}
	}
	if r.merged != nil {
		r.merged.close(err)
	}
}

// Fail ends the direction at once: every present and later read fails with err and what was not read is dropped. Only the
// first call of Fail counts; it overrides an end that came in order. It may be called from any goroutine.
func (r *Receiver) Fail(err error) { r.FailThen(err, func() {}) }

// FailThen is Fail, and calls stop, which ends the consumers' context, at a moment that makes the two one: whoever finds the context
// ended reads no more, and whoever's read fails finds the context ended. stop must not wait, nor call the receiver.
func (r *Receiver) FailThen(err error, stop func()) {
	r.mu.Lock()
	if r.failed.Load() {
		stop()
		r.mu.Unlock()
		return
	}
	r.end = err
	r.failed.Store(true)
	stop() // a reader that sees failed waits for r.mu to learn why
	streams := r.streams
	r.changed()
	r.mu.Unlock()
	for _, in := range streams {
		in.window.Close()
		release(in.own.fail(err))
	}
	if r.merged != nil {
		release(r.merged.fail(err))
	}
}

func release(dropped []chunk) {
	for i := range dropped {
		if dropped[i].flags&chunkAuditing == 0 {
			dropped[i].block.Release()
		}
	}
}

// Discard says that nobody will read any more: what is there and what still arrives is checked, credited and dropped
//
func (r *Receiver) Discard() {
	if r.discard.Swap(true) {
		return
	}
	r.mu.Lock()
	streams := r.streams
	r.mu.Unlock()
	for _, in := range streams {
		in.discard.Store(true)
	}
	for _, in := range streams {
		in.sweep()
	}
}

// Ended lists the streams whose STREAM_END has arrived. Only route may call it.
func (r *Receiver) Ended() (ended []*Inbox) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, in := range r.streams {
		if in.over {
			ended = append(ended, in)
		}
	}
	return ended
}

// changed wakes everybody who waits for a stream or the end; r.mu is held.
func (r *Receiver) changed() {
	if r.wake != nil {
		close(r.wake)
		r.wake = nil
	}
}

// Stream gives stream n in order of STREAM_START. It waits until that stream has started; after the end of the body it
// returns io.EOF, or the error that ended it. Before a wait it grants what is pending. Any number of goroutines
// may ask.
func (r *Receiver) Stream(ctx context.Context, n int) (*Inbox, error) {
	r.mu.Lock()
	for {
		if r.end != nil && r.end != io.EOF {
			err := r.end
			r.mu.Unlock()
			return nil, err
		}
		if n < len(r.streams) {
			in := r.streams[n]
			r.mu.Unlock()
			return in, nil
		}
		if r.end != nil {
			r.mu.Unlock()
			return nil, io.EOF
		}
		if r.wake == nil {
			r.wake = make(chan struct{})
		}
		wake := r.wake
		r.mu.Unlock()
		r.beforeWait()
		r.act.enter()
		select {
		case <-wake:
			r.act.leave()
		case <-ctx.Done():
			r.act.leave()
			return nil, context.Cause(ctx)
		}
		r.mu.Lock()
	}
}

// Flush grants everything that consumers have read and not granted yet, on all streams. It never waits.
func (r *Receiver) Flush() {
	if !r.pending.Swap(false) {
		return
	}
	r.mu.Lock()
	streams := r.streams
	r.mu.Unlock()
	for _, in := range streams {
		in.granter.Grant(in.window.Flush())
	}
}

// Counts appends what each stream has brought, in order of STREAM_START. It waits for nothing.
func (r *Receiver) Counts(to []stats.StreamCounts) []stats.StreamCounts {
	r.mu.Lock()
	streams := r.streams
	r.mu.Unlock()
	for _, in := range streams {
		n := stats.StreamCounts{Stream: in.ID(), ChunksIn: in.received.chunks.Load(), BytesIn: in.received.bytes.Load(),
			CreditOutstanding: int64(min(in.window.Outstanding(), math.MaxInt64)), Unbounded: in.unbounded, Ended: in.received.ended.Load()}
		n.FramesIn = 1 + n.ChunksIn
		if n.Ended {
			n.FramesIn++
		}
		to = append(to, n)
	}
	return to
}

// Err is the error that ended the direction, io.EOF after a clean end, nil while it is open.
func (r *Receiver) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.end
}

// describe names a stream in a message.
func (in *Inbox) describe() string { return fmt.Sprintf("stream %q", in.granter.stream) }
