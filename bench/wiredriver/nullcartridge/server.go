//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bench/wiredriver/wire"
)

type server struct {
	out         *os.File
	mu          sync.Mutex // guards writes of whole frames
	buf         []byte     // replies queued by the reader; reader only
	front, tail []byte

	held    [4][]byte // chunks not verified yet, with NULL_VERIFY=4
	heldSum [4]uint64
	nheld   int
	reqs    map[wire.ID]*request
	live    sync.WaitGroup
}

func (s *server) write(b []byte) {
	s.mu.Lock()
	_, err := s.out.Write(b)
	s.mu.Unlock()
	if err != nil {
		os.Exit(0)
	}
}

func (s *server) flush() {
	if len(s.buf) > 0 {
		s.write(s.buf)
		s.buf = s.buf[:0]
	}
}

// add queues a frame from the reader goroutine.
func (s *server) add(f *wire.Frame) {
	s.buf = f.Append(s.buf)
	if len(s.buf) > 64<<10 {
		s.flush()
	}
}

func opOf(cap string) string {
	if cap == "cap:effect=none" {
		return "echo"
	}
	for _, p := range strings.Split(cap, ";") {
		switch p = strings.TrimPrefix(p, "cap:"); p {
		case "sink", "source", "echo", "items", "tokens", "spin":
			return p
		}
	}
	return ""
}

func (s *server) handle(f *wire.Frame) {
	switch f.Type {
	case wire.Heartbeat:
		meta := mustMarshal(map[string]any{"pools": []byte(`{"all":{"declared":0,"configured":0,"active":0,"queued":0}}`)})
		g := wire.Frame{Has: 1 << wire.KMeta, Version: version, Type: wire.Heartbeat, ID: f.ID, Meta: meta}
		s.add(&g)
		return
	case wire.Req:
		q := &request{id: f.ID, xid: f.XID, op: opOf(string(f.Cap)), stream: []byte("out"), credit: window}
		q.cond = sync.NewCond(&q.mu)
		s.reqs[f.ID] = q
		return
	case wire.Chunk, wire.Credit, wire.End:
	default:
		return
	}
	q := s.reqs[f.ID]
	if q == nil {
		return
	}
	switch f.Type {
	case wire.Credit:
		q.mu.Lock()
		q.credit += f.Credit
		q.mu.Unlock()
		q.cond.Broadcast()
	case wire.Chunk:
		if verify && wire.Checksum(f.Payload) != f.Checksum {
			badChecksum()
		}
		if verify4 {
			s.hold(f)
		}
		data, ok := wire.Inner(f.Payload)
		if !ok {
			data = f.Payload
		}
		q.bytes += uint64(len(data))
		switch q.op {
		case "source", "items", "tokens", "spin":
			q.arg = append(q.arg, data...)
		case "echo":
			s.echo(q, f)
		}
		if q.unacked++; q.unacked >= max(1, window/2) {
			g := wire.Frame{Has: 1<<wire.KCredit | 1<<wire.KMeta | 1<<wire.KStreamID, Version: version, Type: wire.Credit,
				ID: q.id, Credit: q.unacked, Meta: metaRequest, StreamID: f.StreamID}
			if q.xid.Int {
				g.XID = q.xid
				g.Has |= 1 << wire.KXID
			}
			s.add(&g)
			q.unacked = 0
		}
	case wire.End:
		s.release()
		s.end(q)
	}
}

func badChecksum() {
	fmt.Fprintln(os.Stderr, "nullcartridge: bad checksum")
	os.Exit(1)
}

// hold keeps a chunk until four can be verified in one pass.
func (s *server) hold(f *wire.Frame) {
	s.held[s.nheld] = append(s.held[s.nheld][:0], f.Payload...)
	s.heldSum[s.nheld] = f.Checksum
	if s.nheld++; s.nheld == 4 {
		s.nheld = 0
		if wire.Checksum4(&s.held) != s.heldSum {
			badChecksum()
		}
	}
}

func (s *server) release() {
	for i := 0; i < s.nheld; i++ {
		if wire.Checksum(s.held[i]) != s.heldSum[i] {
			badChecksum()
		}
	}
	s.nheld = 0
}

// echo sends the payload back from where it lies in the read buffer. A driver
// that consumes what it asks for never lets the window run dry, so the reader
// does not wait for credit; in a real cartridge that would be an error.
func (s *server) echo(q *request, f *wire.Frame) {
	if !q.started {
		g := q.start(false)
		s.add(&g)
		q.started = true
	}
	g := q.chunk()
	g.Has |= 1<<wire.KPayload | 1<<wire.KChecksum
	g.Payload, g.Checksum = f.Payload, f.Checksum
	if verify {
		g.Checksum = wire.Checksum(f.Payload)
	}
	if len(f.Payload) < 4096 {
		s.add(&g)
		return
	}
	front, tail := g.Around(s.front[:0], s.tail[:0])
	s.front, s.tail = front, tail
	s.flush()
	s.mu.Lock()
	err := writev(s.out, front, g.Payload, tail)
	s.mu.Unlock()
	if err != nil {
		os.Exit(0)
	}
}

func (s *server) end(q *request) {
	switch q.op {
	case "sink":
		g := q.start(false)
		s.add(&g)
		p := wire.CBORBytes(strconv.AppendUint(nil, q.bytes, 10))
		g = q.chunk()
		g.Has |= 1<<wire.KPayload | 1<<wire.KChecksum
		g.Payload, g.Checksum = p, wire.Checksum(p)
		s.add(&g)
		s.buf = q.finish(s.buf)
		delete(s.reqs, q.id)
	case "echo":
		if !q.started {
			g := q.start(false)
			s.add(&g)
		}
		s.buf = q.finish(s.buf)
		delete(s.reqs, q.id)
	case "source", "items", "tokens", "spin":
		n, err := strconv.Atoi(string(q.arg))
		if err != nil {
			n = 0
		}
		s.live.Add(1)
		go func() {
			defer s.live.Done()
			switch q.op {
			case "source":
				s.source(q, n)
			case "items":
				s.small(q, true, wire.CBORBytes(make([]byte, 64)), n, n)
			case "tokens":
				// Writes coalesce to 4096 bytes, so 256 tokens make a chunk.
				s.tokens(q, n)
			case "spin":
				x := uint64(n)
				for end := time.Now().Add(time.Duration(n) * time.Millisecond); time.Now().Before(end); {
					for i := 0; i < 100000; i++ {
						x = x*6364136223846793005 + 1442695040888963407
					}
				}
				s.small(q, false, wire.CBORBytes(strconv.AppendUint(nil, x, 10)), 1, 1)
			}
		}()
	default:
		g := wire.Frame{Has: 1 << wire.KMeta, Version: version, Type: wire.Err, ID: q.id,
			Meta: mustMarshal(map[string]string{"code": "NO_HANDLER", "attribution_class": "environment", "message": "no such cap"})}
		if q.xid.Int {
			g.XID = q.xid
			g.Has |= 1 << wire.KXID
		}
		s.add(&g)
		delete(s.reqs, q.id)
	}
}
