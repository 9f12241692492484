//go:build linux

package main

import (
	"fmt"
	"sync"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/pipe-cartridge/pipe/bench/wiredriver/wire"
)

// call is one request and what came back for it.
type call struct {
	s     *session
	id    wire.ID
	xid   wire.ID
	seq   uint64
	sid   []byte
	cap   []byte
	ended bool // request direction ended

	// Credit for the request stream.
	cmu    sync.Mutex
	ccond  *sync.Cond
	credit uint64
	closed bool

	// Response; owned by the reader goroutine until done.
	seqMode   bool
	window    uint64 // chunks the cartridge may still send
	noGrant   bool   // leave the cartridge without response credit
	ungranted uint64
	chunks    uint64
	bytes     uint64
	items     uint64
	part      []byte // sequence item spread over several chunks
	head      []byte // first decoded bytes of the response
	announced uint64
	hasCount  bool
	errCode   string
	errMsg    string
	onDone    func(*call)
	done      chan struct{}
}

// newCall prepares a request; register makes replies reach it.
func (s *session) newCall(capURN, sid string) *call {
	c := &call{s: s, id: s.nextID(), sid: []byte(sid), cap: []byte(capURN), credit: s.lim.Credit, window: s.lim.Credit, done: make(chan struct{})}
	c.ccond = sync.NewCond(&c.cmu)
	if s.cfg.XID {
		c.xid = wire.IntID(s.xidSeq.Add(1))
	}
	return c
}

// frame starts a flow frame of the call: version, id, routing id, seq.
func (c *call) frame(typ uint64) wire.Frame {
	f := wire.Frame{Version: c.s.cfg.Version, Type: typ, ID: c.id, Has: 1 << wire.KSeq, Seq: c.seq}
	c.seq++
	if c.xid.Int {
		f.XID = c.xid
		f.Has |= 1 << wire.KXID
	}
	return f
}

func (c *call) appendReq(b []byte) []byte {
	f := c.frame(wire.Req)
	f.Has |= 1<<wire.KCap | 1<<wire.KContentType | 1<<wire.KPayload
	f.Cap, f.ContentType = c.cap, []byte("application/cbor")
	return f.Append(b)
}

func (c *call) appendStart(b []byte, media string, seqMode bool) []byte {
	f := c.frame(wire.StreamStart)
	f.Has |= 1<<wire.KStreamID | 1<<wire.KMediaURN | 1<<wire.KIsSequence
	f.StreamID, f.MediaURN, f.IsSequence = c.sid, []byte(media), seqMode
	return f.Append(b)
}

func (c *call) chunkFrame(index uint64) wire.Frame {
	f := c.frame(wire.Chunk)
	f.Has |= 1<<wire.KStreamID | 1<<wire.KChunkIndex
	f.StreamID, f.ChunkIndex = c.sid, index
	return f
}

func (c *call) appendChunk(b []byte, index uint64, payload []byte, sum uint64) []byte {
	f := c.chunkFrame(index)
	f.Has |= 1<<wire.KPayload | 1<<wire.KChecksum
	f.Payload, f.Checksum = payload, sum
	return f.Append(b)
}

func (c *call) appendFinish(b []byte, chunks uint64) []byte {
	f := c.frame(wire.StreamEnd)
	f.Has |= 1<<wire.KStreamID | 1<<wire.KChunkCount
	f.StreamID, f.ChunkCount = c.sid, chunks
	b = f.Append(b)
	g := c.frame(wire.End)
	g.Has |= 1 << wire.KEOF
	g.EOF = true
	c.ended = true
	return g.Append(b)
}

// oneShot appends a complete request with one scalar chunk holding arg.
func (c *call) oneShot(b []byte, arg []byte) []byte {
	p := wire.CBORBytes(arg)
	b = c.appendReq(b)
	b = c.appendStart(b, "media:", false)
	b = c.appendChunk(b, 0, p, wire.Checksum(p))
	return c.appendFinish(b, 1)
}

func (c *call) wait(d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.done:
	case <-c.s.dead:
		select {
		case <-c.done:
		default:
			return fmt.Errorf("cartridge connection ended: %w", c.s.deadErr)
		}
	case <-t.C:
		return fmt.Errorf("HANG: no terminal within %v (response so far: %d chunks, %d bytes; send credit %d)", d, c.chunks, c.bytes, c.peekCredit())
	}
	if c.errCode != "" {
		return fmt.Errorf("ERR %s: %s", c.errCode, c.errMsg)
	}
	return nil
}

func (c *call) peekCredit() uint64 {
	c.cmu.Lock()
	defer c.cmu.Unlock()
	return c.credit
}

// acquire takes one credit of the request stream; false when the call ended.
func (c *call) acquire() bool {
	c.cmu.Lock()
	defer c.cmu.Unlock()
	for c.credit == 0 && !c.closed {
		c.ccond.Wait()
	}
	if c.closed {
		return false
	}
	c.credit--
	return true
}

// acquireFor is acquire with a limit on the wait; ok is false when the call
// ended or no credit came in time.
func (c *call) acquireFor(d time.Duration) (ok bool) {
	t := time.AfterFunc(d, c.ccond.Broadcast)
	defer t.Stop()
	deadline := time.Now().Add(d)
	c.cmu.Lock()
	defer c.cmu.Unlock()
	for c.credit == 0 && !c.closed && time.Now().Before(deadline) {
		c.ccond.Wait()
	}
	if c.credit == 0 || c.closed {
		return false
	}
	c.credit--
	return true
}

// acquireUpTo takes between one and n credits.
func (c *call) acquireUpTo(n uint64) uint64 {
	c.cmu.Lock()
	defer c.cmu.Unlock()
	for c.credit == 0 && !c.closed {
		c.ccond.Wait()
	}
	if c.closed {
		return 0
	}
	n = min(n, c.credit)
	c.credit -= n
	return n
}

func (c *call) grant(n uint64) {
	c.cmu.Lock()
	c.credit += n
	c.cmu.Unlock()
	c.ccond.Broadcast()
}

func (c *call) closeCredit() {
	c.cmu.Lock()
	c.closed = true
	c.cmu.Unlock()
	c.ccond.Broadcast()
}

func (s *session) onChunk(c *call, f *wire.Frame) {
	if f.ChunkIndex != c.chunks {
		s.violations.Add(1)
	}
	c.chunks++
	if c.window == 0 {
		s.violations.Add(1) // sent without credit
	} else {
		c.window--
	}
	if k := s.cfg.VerifyEvery; k != 0 && (c.chunks%k == 0 || c.chunks == 1) && wire.Checksum(f.Payload) != f.Checksum {
		s.badSums.Add(1)
	}
	if c.seqMode {
		s.onItems(c, f.Payload)
	} else if data, ok := wire.Inner(f.Payload); ok {
		c.bytes += uint64(len(data))
		if len(c.head) < 64 {
			c.head = append(c.head, data[:min(len(data), 64-len(c.head))]...)
		}
	} else {
		c.bytes += uint64(len(f.Payload))
	}
	c.ungranted++
	if c.ungranted >= s.batch && !c.noGrant {
		c.window += c.ungranted
		g := wire.Frame{Has: 1<<wire.KCredit | 1<<wire.KMeta | 1<<wire.KStreamID, Version: s.cfg.Version,
			Type: wire.Credit, ID: c.id, Credit: c.ungranted, Meta: metaResponse, StreamID: f.StreamID}
		if c.xid.Int {
			g.XID = c.xid
			g.Has |= 1 << wire.KXID
		}
		s.scratch = g.Append(s.scratch[:0])
		s.w.Queue(s.scratch)
		c.ungranted = 0
	}
}

// metaResponse is {"credit_dir": "response"}.
var metaResponse, _ = cbor.Marshal(map[string]string{"credit_dir": "response"})

func (s *session) onItems(c *call, p []byte) {
	if len(c.part) > 0 {
		c.part = append(c.part, p...)
		p = c.part
	}
	for len(p) > 0 {
		n, err := wire.SkipItem(p)
		if err != nil {
			if !wire.IsShort(err) {
				s.violations.Add(1)
				p = nil
			}
			break
		}
		c.items++
		c.bytes += uint64(n)
		p = p[n:]
	}
	c.part = append(c.part[:0], p...)
}
