package cartridgetest

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Direction is where a frame goes.
type Direction uint8

// The two directions of a link.
const (
	ToCartridge Direction = iota
	ToHost
)

// String is "host→cartridge" or "cartridge→host".
func (d Direction) String() string {
	if d == ToCartridge {
		return "host→cartridge"
	}
	return "cartridge→host"
}

func (d Direction) opposite() Direction { return 1 - d }

// Property is one thing that [Check] holds a link to.
type Property string

// The properties. Each holds for both directions unless it says otherwise.
const (
	Decodable     Property = "frames decode"
	MaxFrame      Property = "no frame exceeds max_frame"
	ShapeRight    Property = "a frame has what its type asks for and nothing else; an answer's END says success"
	HelloFirst    Property = "HELLO comes first, once, and the host's before the cartridge's"
	PolicyFirst   Property = "POLICY comes before every REQ but that of identity"
	RightSide     Property = "only the side that may sends a frame type"
	KnownRequest  Property = "a frame names a request that was sent; an ERR may answer a probe"
	LiveOnce      Property = "the id of a REQ is not that of a live request"
	RoutingEchoed Property = "the routing id of the REQ is on every frame, and on no frame of a peer call"
	OneTerminal   Property = "a request has one terminal in each direction and no flow frame after it"
	SeqWithoutGap Property = "seq counts each flow from 0 without gap and is 0 on control frames"
	StreamOrder   Property = "a stream is started once, then has its chunks, then is ended once, before END"
	IndexInOrder  Property = "chunk_index counts each stream from 0 without gap"
	CountExact    Property = "chunk_count is the number of CHUNKs sent, and is there unless the stream is unbounded"
	ChecksumRight Property = "checksum is FNV-1a of the payload"
	WithinWindow  Property = "a CHUNK is sent only with credit"
	CreditEarned  Property = "CREDIT names a direction; the cartridge grants each CHUNK back at most once"
	ContentWhole  Property = "a scalar CHUNK is one CBOR value; a sequence is CBOR and ends between items"
	ProbeOnce     Property = "a probe is answered once"
	ParentLive    Property = "a peer call names a live request of the host's as its parent"
	CancelOnce    Property = "the cartridge cancels a call at most once"
)

// Breach is one violation of a property.
type Breach struct {
	Property  Property
	Direction Direction
	Frame     string // the frame at fault, in one line
	Detail    string // what was found, and what would be right
}

// String is one line.
func (b Breach) String() string {
	return fmt.Sprintf("%s: %s: %s (%s)", b.Direction, b.Property, b.Detail, b.Frame)
}

// traceLength is how many frames a Check remembers for messages.
const traceLength = 64

// Check judges the order of the frames on one link between a host and a cartridge, both directions together. It sees the bytes
// through its Tap in each direction, before the other side can see them. It never changes or delays them beyond its own work.
// Safe for concurrent use.
type Check struct {
	mu        sync.Mutex
	bytes     [2][]byte
	blind     [2]bool // nothing can be read in this direction any more
	lax       [2]bool // nothing is judged in this direction
	watch     func(Direction, Frame)
	excused   map[frame.ID]bool
	ignored   map[frame.ID]bool
	hello     [2]bool
	policy    bool
	maxFrame  uint64
	window    uint64
	proposed  proposal            // of the host
	probes    [2]map[frame.ID]int // unanswered, by who asked
	answered  [2]map[frame.ID]bool
	exchanges map[frame.ID]*exchange
	breaches  []Breach
	trace     []string
	frames    [2]uint64 // by direction
}

// exchange is one request: the body in one direction, the answer in the other.
type exchange struct {
	caller    Direction // of the REQ and the body
	routing   frame.ID
	cancelled bool    // by a cartridge that had called
	sides     [2]side // by direction
}

type proposal struct{ maxFrame, window uint64 }

// side is one direction of an exchange.
type side struct {
	seq     map[frame.ID]uint64 // by routing id
	ended   bool
	streams map[string]*judgedStream
	early   uint64 // granted without naming a stream, before there was one
}

type judgedStream struct {
	unbounded, ended bool
	sent, granted    uint64
	credit           uint64
	content          content
}

// NewCheck is a check for a link that has not begun.
func NewCheck() *Check {
	l := frame.DefaultLimits()
	return &Check{excused: map[frame.ID]bool{}, ignored: map[frame.ID]bool{}, probes: [2]map[frame.ID]int{{}, {}}, answered: [2]map[frame.ID]bool{{}, {}}, exchanges: map[frame.ID]*exchange{},
		maxFrame: l.MaxFrame, window: l.InitialCredit}
}

// Tap returns a writer that judges what is written in a direction. What it wraps, if not nil, gets the bytes afterwards.
func (c *Check) Tap(d Direction, w io.Writer) io.Writer { return tap{c, d, w} }

type tap struct {
	check *Check
	dir   Direction
	next  io.Writer
}

func (t tap) Write(b []byte) (int, error) {
	t.check.write(t.dir, b)
	if t.next == nil {
		return len(b), nil
	}
	return t.next.Write(b)
}

// Excuse says that the host is about to break the rules for a request on purpose: frames from the host with this id are followed
// and not judged. The cartridge's are judged all the same.
func (c *Check) Excuse(id frame.ID) {
	c.mu.Lock()
	c.excused[id] = true
	c.mu.Unlock()
}

// Ignore says that frames with this id are not to be looked at, in neither direction: the test makes a request and a peer call of
// one id, for example, which cannot be told apart.
func (c *Check) Ignore(id frame.ID) {
	c.mu.Lock()
	c.ignored[id] = true
	c.mu.Unlock()
}

// ExcuseBytes says that what the host sends from here on may be no frames at all: it is not looked at any more.
func (c *Check) ExcuseBytes() {
	c.mu.Lock()
	c.blind[ToCartridge] = true
	c.mu.Unlock()
}

// ExcuseCartridge says that the cartridge is a fake that breaks the rules on purpose: what it sends is followed and not judged. The
// host is judged all the same.
func (c *Check) ExcuseCartridge() {
	c.mu.Lock()
	c.lax[ToHost] = true
	c.mu.Unlock()
}

// Watch calls f with every frame from here on, in the order of each direction and a frame's causes before it, under the lock of the
// check: f must return at once, and call no method of the check.
func (c *Check) Watch(f func(Direction, Frame)) {
	c.mu.Lock()
	c.watch = f
	c.mu.Unlock()
}

// Breaches are the violations so far, in order.
func (c *Check) Breaches() []Breach {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Breach(nil), c.breaches...)
}

// Unanswered are the requests of the host whose answer has no terminal. After a clean end of the link there is none.
func (c *Check) Unanswered() (ids []frame.ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, x := range c.exchanges {
		if x.caller == ToCartridge && !x.sides[ToHost].ended {
			ids = append(ids, id)
		}
	}
	return ids
}

// Trace is the last 64 frames of the link, one line each, oldest first.
func (c *Check) Trace() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.trace...)
}

// write takes bytes of a direction and judges the frames that they complete.
// Frames is how many frames have gone one way so far.
func (c *Check) Frames(d Direction) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.frames[d]
}

func (c *Check) write(d Direction, b []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.blind[d] {
		return
	}
	c.bytes[d] = append(c.bytes[d], b...)
	for len(c.bytes[d]) >= 4 {
		size := uint64(binary.BigEndian.Uint32(c.bytes[d]))
		if size == 0 || size > frame.MaxBody {
			c.undecodable(d, "a length prefix of %d", size)
			return
		}
		if uint64(len(c.bytes[d])-4) < size {
			return
		}
		f, err := decodeFrame(c.bytes[d][4 : 4+size])
		c.bytes[d] = c.bytes[d][4+size:]
		if err != nil {
			c.undecodable(d, "%v", err)
			return
		}
		c.frames[d]++
		if len(c.trace) == traceLength {
			c.trace = append(c.trace[:0], c.trace[1:]...)
		}
		c.trace = append(c.trace, d.String()+" "+f.String())
		if c.watch != nil {
			c.watch(d, f)
		}
		if !c.ignored[f.ID()] {
			(&judgement{c, d, f, size, c.lax[d] || d == ToCartridge && c.excused[f.ID()]}).run()
		}
	}
}

// undecodable ends the sight of a direction.
func (c *Check) undecodable(d Direction, detail string, args ...any) {
	c.blind[d] = true
	if !c.lax[d] {
		c.breach(Decodable, d, "", detail, args...)
	}
}

func (c *Check) breach(p Property, d Direction, line, detail string, args ...any) {
	c.breaches = append(c.breaches, Breach{p, d, line, fmt.Sprintf(detail, args...)})
}
