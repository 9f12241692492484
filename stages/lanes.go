package stages

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Bounds of the lanes (R-4.9, design).
const (
	laneMaxFrames = 1024    // data lane, frames
	laneMaxBytes  = 1 << 20 // data lane, bytes
	ownMaxFrames  = 4096    // unwritten frames of the link's own making, at which its reader stops reading
	ownMaxBytes   = 4 << 20 // and their bytes: a heartbeat's reply grows with the number of pools
	wakeAhead     = 64      // waiting senders that are on their way into the lane at a time
	laneKeepBytes = 5 << 18 // a lane buffer above this is not kept for reuse, bytes; a full lane of small frames is
)

// ErrLanesClosed is what every send gets after Close, when nothing failed.
var ErrLanesClosed = errors.New("stages: lanes closed")

// TooLargeError says that a frame does not fit the link's limits; nothing of it was written and the link goes on
//
type TooLargeError struct {
	Type  frame.Type
	Size  int // the encoded body, bytes
	Limit int // bytes
}

// Error names type, size and limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("%s frame of %d bytes exceeds max_frame %d", e.Type, e.Size, e.Limit)
}

// Counters is told about frames that are not written. Its methods are called under the lanes' lock and must not wait.
type Counters interface {
	Straggler(frame.Type)     // stopped by the terminal gate
	ChannelClosed(frame.Type) // sent after the output failed
}

// Lanes is the hand-off to a link's one writer: a control lane for heartbeat replies, grants and refusals, and a bounded
// data lane for everything else. The order of the data lane is the order on the wire, so seq and the
// terminal gate are applied in the append. Safe for concurrent use; nothing that an append does under the lock waits.
type Lanes struct {
	out      Writer
	counters Counters
	trace    *Tracer                                 // of what is appended; or nil
	tap      func(*Flow, *frame.Frame, *Block) error // takes frames instead of the data lane: a stage's, see ChunkStage

	mu      sync.Mutex
	limit   int // largest encoded body, bytes
	ctl     lane
	data    lane
	own     int         // unwritten frames of the link's own making
	ownSize int         // bytes of them, without grants, whose number says enough
	flooded atomic.Bool // own or ownSize is, or was a moment ago, above its bound
	ownFree chan struct{}
	queue   waiterList // senders waiting for room, in order
	woken   int        // senders that were told and have not entered yet
	// What the last run has added to the data lane.
	lastFrames, lastBytes int
	writing               bool          // the writer is awake, has been woken, or will look when it starts
	wake                  chan struct{} // capacity 1; the writer waits here when both lanes are empty
	closing               bool
	err                   error  // set once: why nothing is written any more
	frames                uint64 // handed to the writer so far
	bytes                 uint64 // of them, with the length prefixes
	scratch               frame.Frame
	terminal              frame.Frame // scratch space of Last
	deferred              []*Granter  // grants that wait to be encoded, merged per stream
	turn                  uint32      // counts how often the writer has taken the lanes
}

// NewLanes makes lanes that write to out, with frame bodies of at most maxFrame bytes. Call Run to start writing.
func NewLanes(out Writer, maxFrame uint64, counters Counters) *Lanes {
	l := &Lanes{out: out, counters: counters, writing: true, wake: make(chan struct{}, 1)}
	l.SetMaxFrame(maxFrame)
	return l
}

// SetMaxFrame sets the largest frame body that is written, bytes.
func (l *Lanes) SetMaxFrame(n uint64) {
	l.mu.Lock()
	l.limit = int(min(n, frame.MaxBody))
	l.mu.Unlock()
}

// SetTrace reports every frame to t as it is appended. It must be called before the first one.
func (l *Lanes) SetTrace(t *Tracer) { l.trace = t }

// Batch is a run of frames being appended to the data lane; the lanes are locked from Begin to End, so a user encodes
// and does nothing else in between.
type Batch struct {
	l    *Lanes
	from int // frames in the data lane at the beginning
	size int // and bytes
}

// Begin waits until the data lane has room, in order of arrival, and starts a run. It ends early with the context's
// cause, or with the writer's error. wait, when not nil, is called once before a wait (flush before block, R-10.21).
// On a nil error the caller must call End.
func (l *Lanes) Begin(ctx context.Context, wait func()) (Batch, error) {
	l.mu.Lock()
	if l.err == nil && l.queue.first == nil && !l.roomAhead() {
		l.mu.Unlock()
		runtime.Gosched() // behind the writer, which nearly always makes room: cheaper than a place in the queue
		l.mu.Lock()
	}
	if l.err == nil && (l.queue.first != nil || !l.roomAhead()) {
		if err := l.waitRoom(ctx, wait); err != nil {
			return Batch{}, err
		}
	}
	if l.err != nil {
		err := l.err
		l.mu.Unlock()
		return Batch{}, err
	}
	return Batch{l, l.data.frames, l.data.bytes}, nil
}

// Own starts a run that never waits: the link's own frames on the data lane (queued notices, ERR answers). It fails
// only after the writer failed. On a nil error the caller must call End.
func (l *Lanes) Own() (Batch, error) {
	l.mu.Lock()
	if l.err != nil {
		err := l.err
		l.mu.Unlock()
		return Batch{}, err
	}
	return Batch{l, l.data.frames, l.data.bytes}, nil
}

// Frame is the frame to fill in and Put; it is shared scratch space and is empty but for its type.
func (b Batch) Frame(t frame.Type) *frame.Frame {
	b.l.scratch.Reset(t, frame.ID{})
	return &b.l.scratch
}

// Last is a second scratch frame like Frame, for the terminal that is filled in before the frames in front of it.
func (b Batch) Last(t frame.Type) *frame.Frame {
	b.l.terminal.Reset(t, frame.ID{})
	return &b.l.terminal
}

// Put appends f to the run under the flow's ids, seq and terminal gate. A frame that the gate stops is counted and is no
// error. A payload that is kept by reference stays with the lane until it is written: then block, if there is one, is
// released; when payload belongs to no block the caller must never change it again.
func (b Batch) Put(fl *Flow, f *frame.Frame, block *Block) error {
	l := b.l
	if l.tap != nil {
		return l.tap(fl, f, block)
	}
	ok, err := fl.number(f, len(f.Payload), l.limit)
	if err != nil {
		return err
	}
	if !ok {
		if l.counters != nil {
			l.counters.Straggler(f.Type)
		}
		block.Release()
		return nil
	}
	l.trace.Frame(Out, f)
	l.data.add(f, block)
	return nil
}

// Fits is the error that Put would give for f, before anything is put.
func (b Batch) Fits(fl *Flow, f *frame.Frame) error { return fl.fits(f, len(f.Payload), b.l.limit) }

// End makes the run visible to the writer, wakes it if it sleeps, and lets the next sender in.
func (b Batch) End() {
	b.l.lastFrames, b.l.lastBytes = b.l.data.frames-b.from, b.l.data.bytes-b.size
	b.l.letIn()
	b.l.unlockAndWake()
}

// EndOwn is End for a run of up to n frames of the link's own making. Those that were really appended count towards
// [Lanes.WaitOwn] until they are written.
func (b Batch) EndOwn(n int) {
	n = min(n, b.l.data.frames-b.from)
	b.l.addOwn(n)
	b.l.data.own += n
	b.l.weigh(&b.l.data, b.l.data.bytes-b.size)
	b.End()
}

// Backlog is how many frames and bytes the data lane holds that the writer has not taken, with those of the run.
func (b Batch) Backlog() (frames, bytes int) { return b.l.data.frames, b.l.data.bytes }

func (l *Lanes) unlockAndWake() {
	wake := !l.writing && (l.data.frames > 0 || l.ctl.frames > 0 || len(l.deferred) > 0)
	if wake {
		l.writing = true
	}
	l.mu.Unlock()
	if wake {
		l.wake <- struct{}{}
	}
}

// Control appends one frame to the control lane: it never waits and goes before all data of the next write. A non-flow
// frame is written as it is; a flow frame (an ERR in place of a heartbeat reply) gets seq 0.
func (l *Lanes) Control(f *frame.Frame) error {
	l.mu.Lock()
	if l.err != nil {
		if l.counters != nil {
			l.counters.ChannelClosed(f.Type)
		}
		err := l.err
		l.mu.Unlock()
		return err
	}
	if size := frame.BodySize(f, len(f.Payload)); size > l.limit {
		limit := l.limit
		l.mu.Unlock()
		return &TooLargeError{f.Type, size, limit}
	}
	l.trace.Frame(Out, f)
	before := l.ctl.bytes
	l.ctl.add(f, nil)
	l.ctl.own++
	l.addOwn(1)
	l.weigh(&l.ctl, l.ctl.bytes-before)
	l.unlockAndWake()
	return nil
}

// addOwn counts frames of the link's own making; the lock is held.
func (l *Lanes) addOwn(n int) {
	if l.own += n; l.own > ownMaxFrames {
		l.flooded.Store(true)
	}
}

// weigh counts the bytes of such frames in a lane; the lock is held.
func (l *Lanes) weigh(ln *lane, n int) {
	ln.size += n
	if l.ownSize += n; l.ownSize > ownMaxBytes {
		l.flooded.Store(true)
	}
}

// WaitOwn waits while more than 4096 frames of the link's own making, or 4 MiB of them, are unwritten, so that a host that floods and does
// not read stops itself. Only the link's reader calls it. wait, when not nil, is called before
// a wait. It ends with ctx, and at once when the writer failed.
func (l *Lanes) WaitOwn(ctx context.Context, wait func()) error {
	for l.flooded.Load() {
		l.mu.Lock()
		if l.own <= ownMaxFrames && l.ownSize <= ownMaxBytes || l.err != nil {
			l.flooded.Store(false)
			l.mu.Unlock()
			return nil
		}
		if l.ownFree == nil {
			l.ownFree = make(chan struct{})
		}
		free := l.ownFree
		l.mu.Unlock()
		if wait != nil {
			wait()
		}
		select {
		case <-free:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// Counts are the frames handed to the writer so far and their bytes, with the length prefixes.
func (l *Lanes) Counts() (frames, bytes uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.frames, l.bytes
}

// Backlog is how many frames of the data lane the writer has not taken.
func (l *Lanes) Backlog() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.data.frames
}

// Err is why nothing is written any more, or nil.
func (l *Lanes) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close lets the writer write everything that was appended and then return from Run. Later sends get ErrLanesClosed.
func (l *Lanes) Close() {
	l.mu.Lock()
	l.closing = true
	wake := !l.writing
	l.writing = true
	l.mu.Unlock()
	if wake {
		l.wake <- struct{}{}
	}
}

// lose counts everything that a lane holds, when the output has failed; nobody knows what of it the other side has read.
func (l *Lanes) lose(ln *lane) {
	for t, n := range ln.types {
		for range n {
			l.Lost(frame.Type(t))
		}
	}
}

// Lost counts one frame that its sender had to drop because the output failed.
func (l *Lanes) Lost(t frame.Type) {
	if l.counters != nil {
		l.counters.ChannelClosed(t)
	}
}
