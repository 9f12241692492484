package stages

import (
	"fmt"
	"math"
	"sync/atomic"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
	"github.com/pipe-cartridge/pipe/credit"
)

// Inbox is one incoming stream: the window that its sender must keep to, the checks on what arrives, and the bounded
// hand-off to its one reader. Consuming grants credit; arriving does not, but for the continuation of an item (R-10.20,
//
type Inbox struct {
	recv    *Receiver
	granter Granter
	window  credit.Window
	own     chunkQueue // unused when the receiver merges

	media     string
	meta      []byte
	sequence  bool
	unbounded bool

	// Written by route only.
	over     bool   // STREAM_END was seen
	index    uint64 // the next chunk_index
	received inCounters

	held    atomic.Uint64 // continuation credit held back while the request waits
	discard atomic.Bool
	listed  atomic.Bool // on the auditor's list

	// Touched by the reader only.
	rd runReader

	seq *sequenceState // of a sequence stream, else nil
}

// inCounters is what has arrived of a stream, for whoever asks; its reader is elsewhere, so each value is stored whole.
type inCounters struct {
	chunks, bytes atomic.Uint64
	ended         atomic.Bool
}

// sequenceState is what following and joining the items of a sequence takes; scalar streams do without.
type sequenceState struct {
	scan     frame.Scanner // route's
	itemSize int64         // route's: bytes of the item that scan is in
	asm      assembly      // the reader's
}

func newInbox(r *Receiver, f *frame.Frame) *Inbox {
	in := &Inbox{recv: r, media: string(f.MediaURN), sequence: f.IsSequence && f.Has.Has(frame.KeyIsSequence),
		unbounded: f.Unbounded && f.Has.Has(frame.KeyUnbounded)}
	if f.Has.Has(frame.KeyMeta) {
		in.meta = append([]byte(nil), f.Meta...)
	}
	in.own.init()
	in.window.Init(r.link.Limits.InitialCredit)
	in.granter = Granter{lanes: r.link.Lanes, flow: r.flow, stream: append([]byte(nil), f.StreamID...), dir: r.dir, tell: r.link.Granted}
	if in.sequence {
		in.seq = new(sequenceState)
	}
	if r.discard.Load() {
		in.discard.Store(true)
	}
	return in
}

// ID is the stream id.
func (in *Inbox) ID() string { return string(in.granter.stream) }

// MediaURN is the label of the stream as its sender wrote it.
func (in *Inbox) MediaURN() string { return in.media }

// Meta is the CBOR map of the stream's meta, or nil.
func (in *Inbox) Meta() []byte { return in.meta }

// IsSequence reports whether the stream carries items (spec/wire.md 8.3), not a run of bytes.
func (in *Inbox) IsSequence() bool { return in.sequence }

// IsUnbounded reports whether the sender made no promise of length.
func (in *Inbox) IsUnbounded() bool { return in.unbounded }

func (in *Inbox) queue() *chunkQueue {
	if in.recv.merged != nil {
		return in.recv.merged
	}
	return &in.own
}

// arrive is route's part of one CHUNK: index, window and CBOR heads for every payload, checksum and the rest for small ones.
func (in *Inbox) arrive(f *frame.Frame, block *Block) (stats.Fate, *failure.Failure) {
	if !f.Has.Has(frame.KeyPayload) {
		return stats.Consumed, protocolError("chunk %d of %s without payload", f.ChunkIndex, in.describe())
	}
	if f.ChunkIndex != in.index {
		return stats.Consumed, protocolError("chunk of %s has chunk_index %d, expected %d", in.describe(), f.ChunkIndex, in.index)
	}
	if !in.window.Arrive() {
		return stats.Dropped(stats.CreditViolation), failure.Newf(failure.CreditViolation, failure.Internal, "chunk %d of %s exceeds the window of %d", f.ChunkIndex, in.describe(), in.recv.link.Limits.InitialCredit)
	}
	in.index++
	in.received.chunks.Store(in.index)
	in.received.bytes.Store(in.received.bytes.Load() + uint64(len(f.Payload)))
	c := chunk{payload: f.Payload, sum: f.Checksum, block: block, in: in}
	if f.Has.Has(frame.KeyMeta) {
		c.meta = f.Meta
	}
	if len(f.Payload) <= inlinePayload || in.discard.Load() {
		if fault := in.verify(&c); fault != nil {
			return stats.Consumed, fault
		}
		c.flags |= chunkVerified
	}
	continues, unfinished := false, false
	if in.sequence {
		continues = in.seq.scan.InItem()
		if fault := in.follow(f.Payload); fault != nil {
			return stats.Consumed, fault
		}
		unfinished = in.seq.scan.InItem()
	}
	// The first chunk of an item is credited when the item is read, the others at once. In a window of 1 the first
	// one cannot wait for that: the others would never come.
	atOnce := continues || unfinished && in.recv.link.Limits.InitialCredit == 1
	switch {
	case in.discard.Load():
		block.Release()
		in.grantNow()
		return stats.Consumed, nil
	case atOnce:
		c.flags |= chunkCredited
	}
	if in.recv.link.Decoder != nil {
		in.keep(&c)
	}
	verified := c.flags&chunkVerified != 0
	if !in.queue().put(&c) {
		block.Release() // ended meanwhile, by a cancel or a violation
		return stats.Dropped(stats.Cancelled), nil
	}
	if atOnce {
		in.grantNow()
	}
	if in.discard.Load() {
		in.sweep() // it was said between the look above and the put
	} else if !verified && !in.recv.rd.poll {
		in.recv.link.audit.watch(in)
	}
	return stats.Delivered, nil
}

// keep copies what aliases the read buffer.
func (in *Inbox) keep(c *chunk) {
	if c.block != nil {
		return
	}
	d := in.recv.link.Decoder
	c.payload = d.slab.keep(c.payload)
	if c.meta != nil {
		c.meta = d.slab.keep(c.meta)
	}
}

// follow tracks where sequence items end, which costs heads and no bytes.
func (in *Inbox) follow(p []byte) *failure.Failure {
	for len(p) > 0 {
		n, done, err := in.seq.scan.Feed(p)
		if err != nil {
			return failure.Newf(failure.DecodeError, failure.Internal, "chunk %d of %s: %w", in.index-1, in.describe(), err)
		}
		in.seq.itemSize += int64(n)
		if limit := in.recv.link.MaxItem; limit > 0 && in.seq.itemSize > limit {
			return failure.Newf(failure.ItemTooLarge, failure.Resource, "an item of %s exceeds %d bytes", in.describe(), limit)
		}
		if done {
			in.seq.itemSize = 0
		}
		p = p[n:]
	}
	return nil
}

// grantNow grants one chunk back on arrival, or notes it while the request waits.
func (in *Inbox) grantNow() {
	if in.recv.waiting.Load() {
		in.held.Add(1)
		if in.recv.waiting.Load() {
			return
		}
		in.grantHeld() // admitted in between
		return
	}
	in.granter.Grant(in.window.Immediate(1))
}

func (in *Inbox) grantHeld() {
	if n := in.held.Swap(0); n > 0 {
		in.granter.Grant(in.window.Immediate(n))
	}
}

// consumed returns the credit of one chunk that its reader has read.
func (in *Inbox) consumed(c *chunk) {
	if c.flags&(chunkCredited|chunkTail) != 0 {
		return
	}
	c.flags |= chunkCredited
	if n := in.window.Consume(1); n > 0 {
		in.granter.Grant(n)
	} else if !in.recv.pending.Load() {
		in.recv.pending.Store(true)
	}
}

// Close discards the stream, on its reader's goroutine: what was received and not read and what still arrives is checked,
// credited and dropped, so that an abandoned stream never blocks its sender. A stream of a merged response is closed
// with all others, by [Receiver.Discard].
func (in *Inbox) Close() {
	in.discard.Store(true)
	in.rd.drop()
	if in.sequence {
		in.seq.asm = assembly{}
	}
	in.sweep()
}

// sweep empties the queue of a stream that nobody reads any more and credits every chunk that has arrived, also what its
// reader had taken; the window sees to it that none is credited twice. A chunk that is being audited stops it: then
// the auditor sweeps when it has done. It never waits, and any goroutine may call it once discard is set.
func (in *Inbox) sweep() {
	if in.recv.merged == nil || in.recv.discard.Load() {
		in.recv.drop(in.queue())
	}
	in.granter.Grant(in.window.Flush() + in.window.Immediate(math.MaxUint64))
}

// drop checks and releases what a queue holds.
func (r *Receiver) drop(cq *chunkQueue) {
	for {
		run, _, ok := cq.tryTake(nil)
		if !ok || len(run) == 0 {
			return
		}
		if fault := verifyRun(run); fault != nil {
			r.owner.Fault(fault)
		}
		for i := range run {
			run[i].block.Release()
		}
	}
}

// verify checks one payload's checksum and, on a scalar stream, that it is exactly one CBOR value.
func (in *Inbox) verify(c *chunk) *failure.Failure {
	if frame.Checksum(c.payload) != c.sum {
		return in.corrupted(c)
	}
	return in.wellFormed(c)
}

func (in *Inbox) wellFormed(c *chunk) *failure.Failure {
	if in.sequence {
		return nil
	}
	if _, ok := frame.InnerBytes(c.payload); ok {
		return nil
	}
	if err := frame.WellFormed(c.payload); err != nil {
		return failure.Newf(failure.DecodeError, failure.Internal, "a chunk of %s is not exactly one CBOR value: %w", in.describe(), err)
	}
	return nil
}

func (in *Inbox) corrupted(c *chunk) *failure.Failure {
	return failure.New(failure.CorruptedData, failure.Internal,
		fmt.Sprintf("a chunk of %s with %d payload bytes has the wrong checksum: key 16 says %016x, the bytes give %016x",
			in.describe(), len(c.payload), c.sum, frame.Checksum(c.payload)))
}

// verifyRun checks every chunk of a run that route has not checked, four checksums abreast. All chunks of a merged run
// know their own stream.
func verifyRun(run []chunk) *failure.Failure {
	var payloads [4][]byte
	var sums [4]uint64
	var at [4]int
	n := 0
	for i := range run {
		if run[i].flags&chunkVerified != 0 {
			continue
		}
		payloads[n], at[n] = run[i].payload, i
		if n++; n < 4 {
			continue
		}
		n = 0
		frame.Checksum4(&payloads, &sums)
		for k, j := range at {
			if fault := run[j].settle(sums[k]); fault != nil {
				return fault
			}
		}
	}
	if n == 1 {
		return run[at[0]].settle(frame.Checksum(payloads[0]))
	}
	if n > 0 {
		for k := n; k < 4; k++ {
			payloads[k] = nil
		}
		frame.Checksum4(&payloads, &sums)
		for k := 0; k < n; k++ {
			if fault := run[at[k]].settle(sums[k]); fault != nil {
				return fault
			}
		}
	}
	return nil
}

// settle compares a computed checksum and finishes the verification of c.
func (c *chunk) settle(sum uint64) *failure.Failure {
	if sum != c.sum {
		return c.in.corrupted(c)
	}
	if fault := c.in.wellFormed(c); fault != nil {
		return fault
	}
	c.flags |= chunkVerified
	return nil
}
