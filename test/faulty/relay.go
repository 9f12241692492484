package main

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"sync"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/test/peer"
)

// message is a frame on its way. The bytes of one that nobody changed go on as they are.
type message struct {
	peer.Frame
	wire []byte // nil when the frame was made or changed here
}

func changed(f peer.Frame) message { return message{Frame: f} }

func (m message) bytes() []byte {
	if m.wire != nil {
		return m.wire
	}
	return m.Encode()
}

// id is the frame's id as a text.
func (m message) id() string { return peer.IDKey(m.Frame[peer.KeyID]) }

// relay stands between the host and the honest cartridge. Both directions call the hooks under one lock, in the order of the frames,
// and a hook passes on what it likes with toHost and toCartridge. seq of the frames to the host is counted anew, so that a hook may
// add and drop frames without making a second fault.
type relay struct {
	host struct {
		in  io.Reader
		out io.Writer
	}

	mu            sync.Mutex
	fromHost      func(m message)
	fromCartridge func(m message)
	lastly        func(f peer.Frame) peer.Frame  // changes what goes to the host, after seq was counted; may be nil
	unreadable    func(wire []byte)              // gets bodies of the host's that do not decode
	prefix        func(size uint32) (taken bool) // may take over before a body is read; may be nil
	ended         func()                         // the host's input has ended; passes that on, or not
	atEnd         func(status int) int           // may change the exit status

	requests map[string]peer.Frame // REQs of the host by id
	open     map[string]bool       // of these, without a terminal yet
	seqs     map[string]uint64
	maxFrame uint64
	downward *queue // to the cartridge
	upward   *queue // to the host
}

func newRelay(in io.Reader, out io.Writer) *relay {
	r := &relay{requests: map[string]peer.Frame{}, open: map[string]bool{}, seqs: map[string]uint64{},
		maxFrame: peer.DefaultLimits().MaxFrame, downward: newQueue(), upward: newQueue()}
	r.host.in, r.host.out = in, out
	r.fromHost, r.fromCartridge = r.toCartridge, r.toHost
	r.unreadable = r.downward.put
	r.ended = r.downward.close
	return r
}

// serve runs the honest cartridge behind the relay until it ends.
func (r *relay) serve(ctx context.Context, c *bifaci.Cartridge) error {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	var pumps sync.WaitGroup
	go r.readHost() // ends with the host's input, at the latest with the process
	pumps.Go(func() {
		err := r.downward.drain(inW)
		_ = errors.Join(err, inW.Close()) // a cartridge that reads no more has said why
	})
	pumps.Go(func() { r.readCartridge(outR) })
	pumps.Go(func() {
		if err := r.upward.drain(r.host.out); err != nil {
			outR.CloseWithError(err)
		}
	})
	err := c.Serve(ctx, inR, outW)
	_ = errors.Join(inR.Close(), outW.Close()) // never fail
	r.downward.close()
	pumps.Wait()
	return err
}

// toCartridge passes a frame on to the honest cartridge. The lock is held.
func (r *relay) toCartridge(m message) { r.downward.put(m.bytes()) }

// toHost passes a frame on to the host. The lock is held.
func (r *relay) toHost(m message) {
	if m.Type().IsFlow() {
		flow := m.id() + "/" + peer.IDKey(m.Frame[peer.KeyRoutingID])
		if n := r.seqs[flow]; n != m.Uint(peer.KeySeq) {
			m = changed(m.With(peer.KeySeq, n))
		}
		r.seqs[flow]++
		if t := m.Type(); t == peer.TypeEnd || t == peer.TypeErr {
			delete(r.seqs, flow)
		}
	}
	if r.lastly != nil {
		if f := r.lastly(m.Frame); f != nil {
			m = changed(f)
		}
	}
	r.upward.put(m.bytes())
}

// readHost reads what the host sends. Bytes that break the framing go on as they are, with everything behind them.
func (r *relay) readHost() {
	in := bufio.NewReaderSize(r.host.in, 64<<10)
	for {
		prefix := make([]byte, 4)
		n, err := io.ReadFull(in, prefix)
		size := binary.BigEndian.Uint32(prefix)
		switch {
		case err != nil:
			r.rest(prefix[:n])
			return
		case r.prefix != nil && r.prefix(size):
			return
		case size == 0 || uint64(size) > r.maxFrame:
			r.downward.put(prefix)
			buf := make([]byte, 4096)
			for err == nil {
				n, err = in.Read(buf)
				r.downward.put(append([]byte(nil), buf[:n]...))
			}
			r.rest(nil)
			return
		}
		wire := append(prefix, make([]byte, size)...)
		if n, err := io.ReadFull(in, wire[4:]); err != nil {
			r.rest(wire[:4+n])
			return
		}
		r.takeHost(wire)
	}
}

// rest passes on the last bytes of the host's, and that they are the last.
func (r *relay) rest(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.downward.put(b)
	r.ended()
}

func (r *relay) takeHost(wire []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f, err := peer.Decode(wire[4:])
	if err != nil {
		r.unreadable(wire)
		return
	}
	m := message{f, wire}
	switch f.Type() {
	case peer.TypeHello:
		if n := f.MetaUint("max_frame"); n > 0 {
			r.maxFrame = min(n, peer.DefaultLimits().MaxFrame)
		}
	case peer.TypeReq:
		r.requests[m.id()] = f
		r.open[m.id()] = true
	}
	r.fromHost(m)
}

// readCartridge reads what the honest cartridge sends, to its end.
func (r *relay) readCartridge(out *io.PipeReader) {
	in := bufio.NewReaderSize(out, 64<<10)
	for {
		f, wire, err := peer.ReadFrame(in)
		if err != nil {
			r.upward.close()
			return
		}
		r.mu.Lock()
		m := message{f, wire}
		r.fromCartridge(m)
		if t := m.Type(); t == peer.TypeEnd || t == peer.TypeErr {
			delete(r.open, m.id())
		}
		r.mu.Unlock()
	}
}

// capOf is the cap that a request named.
func (r *relay) capOf(m message) string { return r.requests[m.id()].Text(peer.KeyCap) }

// queue holds bytes until they are written. It has no bound: what waits in it is bounded by the windows of both sides.
type queue struct {
	mu     sync.Mutex
	ready  *sync.Cond
	parts  [][]byte
	closed bool
}

func newQueue() *queue {
	q := &queue{}
	q.ready = sync.NewCond(&q.mu)
	return q
}

func (q *queue) put(b []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed && len(b) > 0 {
		q.parts = append(q.parts, b)
		q.ready.Signal()
	}
}

// close lets drain end when everything was written.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Signal()
}

// drain writes what is put, each part in one piece, until close or an error.
func (q *queue) drain(w io.Writer) error {
	for {
		q.mu.Lock()
		for len(q.parts) == 0 && !q.closed {
			q.ready.Wait()
		}
		parts := q.parts
		q.parts = nil
		q.mu.Unlock()
		if len(parts) == 0 {
			return nil
		}
		for _, b := range parts {
			if _, err := w.Write(b); err != nil {
				q.close()
				return err
			}
		}
	}
}
