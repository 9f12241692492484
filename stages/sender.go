package stages

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/credit"
)

// Coalescing of small writes (spec/wire.md 8.2).
const (
	coalesceBytes = 4096                  // a buffer of this many bytes is due
	coalesceAge   = 20 * time.Millisecond // and one whose oldest byte is this old at a write
)

// hashAbreast is how many pieces of one long write are hashed and appended together.
const hashAbreast = 4

// Errors of a Sender.
var (
	ErrStarted    = errors.New("the stream was started already")
	ErrClosed     = errors.New("the stream is closed")
	ErrStreamMode = errors.New("the stream has the other mode")

	ErrValueTooLarge = errors.New("the value fits no chunk") // what every ValueTooLargeError is
)

// ValueTooLargeError says that one element of a scalar stream does not fit into a frame. It is [ErrValueTooLarge].
type ValueTooLargeError struct{ Size, Limit int }

// Error names both sizes.
func (e *ValueTooLargeError) Error() string {
	return fmt.Sprintf("a value of %d bytes does not fit into one chunk of %d bytes", e.Size, e.Limit)
}

// Is reports whether target is [ErrValueTooLarge].
func (e *ValueTooLargeError) Is(target error) bool { return target == ErrValueTooLarge }

// Sender is one outgoing stream: it cuts data into CHUNKs, coalesces small writes, takes one credit per CHUNK, and appends to
// the lanes. Data calls are serialised in order of arrival; each sends its CHUNKs in one uninterrupted run of the stream, and
// after an error that left it cut the stream is broken for good. Safe for concurrent use.
type Sender struct {
	link  *Link
	flow  *Flow
	gate  credit.Gate
	id    []byte
	media []byte
	hook  func() // flush before block, R-10.21; may be nil
	act   *Activity

	// For who does not have the turn, which alone stores them.
	seen  atomic.Uint32 // state and the seen… bits; see to
	index atomic.Uint64 // CHUNKs sent
	bytes atomic.Uint64 // of their payloads

	mu       sync.Mutex
	queue    []chan struct{} // calls that wait for their turn
	refused  error           // set by Refuse
	hole     error           // set by a data call that left before its turn; becomes broken
	busy     bool            // a call is sending; state below is its own
	sequence bool
	unbound  bool
	inItem   bool // the last thing sent left a sequence item unfinished
	state    senderState
	meta     []byte // stream meta, until STREAM_START went out
	buf      []byte // coalesced bytes behind bufHead bytes of room; nil or at least bufHead long
	enc      []byte // scratch space for small encodings
	since    time.Time
	broken   error
	ageFlush func() // asks for FlushAged after coalesceAge, or nil
}

type senderState uint32

const (
	senderNew     senderState = iota
	senderPending             // started, STREAM_START goes out with the first thing sent
	senderStarted             // STREAM_START is on its way
	senderEnded               // STREAM_END is on its way, or will never be
)

// The bits of Sender.seen beside the state.
const (
	seenState     = 3 // the state's own
	seenUnbounded = 4
	seenStart     = 8  // STREAM_START is on its way
	seenEnd       = 16 // STREAM_END is on its way
)

// bufHead is the room in front of coalesced bytes for the head of their CBOR byte string.
const bufHead = 5

// Init prepares a sender in place: stream id and media URN of its STREAM_START, which are kept and never changed, and the hook
// that grants what the same request has consumed before the sender waits for anything.
func (s *Sender) Init(link *Link, flow *Flow, id, media []byte, hook func()) {
	s.link, s.flow, s.hook, s.id, s.media = link, flow, hook, id, media
	s.gate.Init(link.Limits.InitialCredit)
}

// Watch makes the sender tell what those who call it do. Called before the first call.
func (s *Sender) Watch(a *Activity) { s.act = a }

// Gate is the sender's credit gate, for the router.
func (s *Sender) Gate() *credit.Gate { return &s.gate }

// ID is the stream id.
func (s *Sender) ID() string { return string(s.id) }

// Mode is how a stream is started.
type Mode struct {
	Sequence  bool
	Unbounded bool
	Meta      []byte // CBOR map of stream meta, or nil
}

// Start sends STREAM_START at once. A second start gives ErrStarted.
func (s *Sender) Start(ctx context.Context, m Mode) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	switch {
	case s.broken != nil:
		return s.broken
	case s.state == senderEnded:
		return ErrClosed
	case s.state != senderNew:
		return ErrStarted
	}
	s.sequence, s.unbound, s.meta = m.Sequence, m.Unbounded, m.Meta
	if m.Unbounded {
		s.note(seenUnbounded)
	}
	s.to(senderPending)
	b, err := s.begin(ctx)
	if err != nil {
		s.to(senderNew)
		return err
	}
	b.End()
	return nil
}

// Started reports whether the stream was started, explicitly or by a data call, and not closed since.
func (s *Sender) Started() bool {
	state := senderState(s.seen.Load() & seenState)
	return state == senderPending || state == senderStarted
}

// Fresh reports whether the stream was neither started nor closed yet.
func (s *Sender) Fresh() bool { return senderState(s.seen.Load()&seenState) == senderNew }

// to changes the state.
func (s *Sender) to(state senderState) {
	s.state = state
	s.seen.Store(s.seen.Load()&^seenState | uint32(state))
}

// note sets one of the seen… bits.
func (s *Sender) note(bit uint32) { s.seen.Store(s.seen.Load() | bit) }

// ready checks that a data call of the given mode may go on, and starts the stream implicitly.
func (s *Sender) ready(sequence bool) error {
	switch {
	case s.broken != nil:
		return s.broken
	case s.state == senderEnded:
		return ErrClosed
	case s.state == senderNew:
		s.sequence = sequence
		s.to(senderPending)
	case s.sequence != sequence:
		return ErrStreamMode
	}
	return nil
}

// begin starts a run in the lane, with STREAM_START in front when it is still owed.
func (s *Sender) begin(ctx context.Context) (Batch, error) {
	s.act.Visit()
	b, err := s.link.Lanes.Begin(ctx, s.hook)
	if err != nil {
		return b, err
	}
	if s.state == senderPending {
		if err := s.putStart(b); err != nil {
			b.End()
			return b, err
		}
	}
	return b, nil
}

func (s *Sender) putStart(b Batch) error {
	if err := b.Put(s.flow, s.startFrame(b), nil); err != nil {
		return err
	}
	s.meta = nil
	s.note(seenStart)
	s.to(senderStarted)
	return nil
}

func (s *Sender) startFrame(b Batch) *frame.Frame {
	f := b.Frame(frame.TypeStreamStart)
	f.StreamID, f.MediaURN, f.IsSequence, f.Unbounded, f.Meta = s.id, s.media, s.sequence, s.unbound, s.meta
	f.Has = f.Has.With(frame.KeyStreamID).With(frame.KeyMediaURN).With(frame.KeyIsSequence)
	if s.unbound {
		f.Has = f.Has.With(frame.KeyUnbounded)
	}
	if s.meta != nil {
		f.Has = f.Has.With(frame.KeyMeta)
	}
	return f
}

// putChunk appends one CHUNK; the caller holds a credit for it.
func (s *Sender) putChunk(b Batch, payload, meta []byte, sum uint64, block *Block) error {
	f := b.Frame(frame.TypeChunk)
	f.StreamID, f.Payload, f.ChunkIndex, f.Checksum = s.id, payload, s.index.Load(), sum
	f.Has = f.Has.With(frame.KeyStreamID).With(frame.KeyPayload).With(frame.KeyChunkIndex).With(frame.KeyChecksum)
	if meta != nil {
		f.Meta = meta
		f.Has = f.Has.With(frame.KeyMeta)
	}
	if err := b.Put(s.flow, f, block); err != nil {
		block.Release()
		return err
	}
	s.index.Store(s.index.Load() + 1)
	s.bytes.Store(s.bytes.Load() + uint64(len(payload)))
	return nil
}

// Counts is what the stream has sent; ok is false before its STREAM_START. It waits for nothing.
func (s *Sender) Counts() (n stats.StreamCounts, ok bool) {
	n = stats.StreamCounts{Stream: s.ID(), ChunksOut: s.index.Load(), BytesOut: s.bytes.Load(),
		CreditOutstanding: int64(min(s.gate.Available(), math.MaxInt64))}
	seen := s.seen.Load()
	n.Unbounded, n.Ended = seen&seenUnbounded != 0, seen&seenEnd != 0
	n.FramesOut = 1 + n.ChunksOut
	if n.Ended {
		n.FramesOut++
	}
	return n, seen&seenStart != 0
}

// cut is how many raw bytes one CHUNK may carry beside meta (R-6.39, spec/wire.md 8.4).
func (s *Sender) cut(meta int) int { return s.link.Limits.ChunkRoom(len(s.id), meta) }

// fragment is one CHUNK to be sent.
type fragment struct {
	payload []byte
	meta    []byte
	block   *Block
}

// send sends fragments that next makes, in one run, taking credit as it comes and hashing up to four at a time. next is
// told nothing but that its previous fragment was taken; left is how many are still to come, at least.
func (s *Sender) send(ctx context.Context, left int, next func() fragment) error {
	var payloads [hashAbreast][]byte
	var sums [hashAbreast]uint64
	var frags [hashAbreast]fragment
	for left > 0 {
		n, err := s.acquire(ctx, min(left, hashAbreast))
		if err != nil {
			return err
		}
		for i := range n {
			frags[i] = next()
			payloads[i] = frags[i].payload
		}
		left -= n
		if n == 1 {
			sums[0] = frame.Checksum(payloads[0])
		} else {
			clear(payloads[n:])
			frame.Checksum4(&payloads, &sums)
		}
		b, err := s.begin(ctx)
		if err != nil {
			return dropped(frags[:n], err)
		}
		for i := range n {
			if err = s.putChunk(b, frags[i].payload, frags[i].meta, sums[i], frags[i].block); err != nil {
				err = dropped(frags[i+1:n], err)
				break
			}
		}
		b.End()
		clear(frags[:])
		if err != nil {
			return err
		}
	}
	return nil
}

// acquire is [Link.acquire] from the sender's own gate.
func (s *Sender) acquire(ctx context.Context, most int) (int, error) {
	if n, err := s.gate.TryAcquireUpTo(uint64(most)); n > 0 || err != nil {
		return int(n), err
	}
	s.act.enter()
	defer s.act.leave()
	return s.link.acquire(ctx, &s.gate, s.hook, most)
}

// dropped gives the blocks of fragments back that are not sent because of err.
func dropped(frags []fragment, err error) error {
	for i := range frags {
		frags[i].block.Release()
	}
	return err
}

// breakOff notes an error that left a data call unfinished: the request can not end in success any more.
func (s *Sender) breakOff(err error) error {
	if err != nil && s.broken == nil {
		s.broken = err
	}
	return err
}

// Refuse makes every later data call return err. It waits for nobody: a call under way goes on.
func (s *Sender) Refuse(err error) {
	s.gate.Close(err)
	s.mu.Lock()
	s.refused = err
	s.mu.Unlock()
}

// splitText is the largest n ≤ most at which p can be cut without parting a UTF-8 character, at least one character.
func splitText(p []byte, most int) int {
	if len(p) <= most {
		return len(p)
	}
	n := most
	for n > 0 && !utf8.RuneStart(p[n]) {
		n--
	}
	if n == 0 {
		_, n = utf8.DecodeRune(p)
	}
	return n
}
