package stages

import (
	"context"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Item is one value of a stream: on a scalar stream the value of one CHUNK, on a sequence stream one item whatever number of
// CHUNKs it came in. It belongs to whoever reads it and may be kept for ever; Block.Release gives the memory back
// early.
type Item struct {
	Enc   []byte // the CBOR encoding, exactly one value
	Meta  []byte // the CBOR map of the item's meta, or nil
	Block *Block // holds Enc and Meta, or nil
	sum   uint64 // the verified checksum of Enc, when it is a CHUNK of a scalar stream
	whole bool   // it is
}

// Piece gives the item of a scalar stream for being sent on. The item is used up; of an item that was read by somebody else
// before, the checksum may no longer be true.
func (it Item) Piece() (p Piece, ok bool) {
	return Piece{it.Enc, nil, it.Block, it.sum, true, true, false}, it.whole
}

// Piece is one CHUNK as it arrived, verified, for being sent on without a copy or a hash. Its bytes cannot be reached, so
// its checksum stays true.
type Piece struct {
	enc   []byte
	meta  []byte
	block *Block
	sum   uint64
	first bool // begins an item, or is a scalar piece
	last  bool // ends an item, or is a scalar piece
	seq   bool // from a sequence stream
}

// Size is the length of the piece's encoding, bytes.
func (p *Piece) Size() int { return len(p.enc) }

// Release gives the memory of a piece that is not sent on back.
func (p *Piece) Release() { p.block.Release() }

// runReader is the reading end of a chunkQueue: the run taken and how far it is consumed.
type runReader struct {
	run  []chunk
	at   int
	poll bool // never wait: errDry says that nothing is there
}

// next gives the next chunk, verified. It waits like chunkQueue.take.
func (rr *runReader) next(ctx context.Context, q *chunkQueue, r *Receiver) (*chunk, error) {
	for {
		if r.failed.Load() {
			rr.drop()
			return nil, r.Err()
		}
		if rr.at < len(rr.run) {
			rr.at++
			return &rr.run[rr.at-1], nil
		}
		run, err := rr.take(ctx, q, r)
		rr.run, rr.at = run, 0
		if err != nil {
			return nil, err
		}
		if fault := verifyRun(run); fault != nil {
			rr.drop()
			r.owner.Fault(fault)
			return nil, fault
		}
	}
}

func (rr *runReader) take(ctx context.Context, q *chunkQueue, r *Receiver) ([]chunk, error) {
	if !rr.poll {
		r.act.enter()
		defer r.act.leave()
		return q.take(ctx, rr.run, r.beforeWait)
	}
	run, end, ok := q.tryTake(rr.run)
	if !ok {
		end = errDry
	}
	return run, end
}

// drop gives back what was taken and not consumed.
func (rr *runReader) drop() {
	for i := range rr.run[rr.at:] {
		rr.run[rr.at+i].block.Release()
	}
	clear(rr.run)
	rr.run, rr.at = rr.run[:0], 0
}

// assembly puts items together from chunks, on the reader's goroutine.
type assembly struct {
	scan frame.Scanner
	part *Block // the item so far, when it has more than one chunk
	meta []byte
	owed *chunk // the chunk that began the item and is credited when the item is read
	rest []byte // unread bytes of a chunk that held more than one item
	hold chunk  // that chunk, or a copy of the one that began a longer item
}

// Next reads one item. It waits for one, and before that grants what is pending; at the end it returns io.EOF, or the error
// that ended the stream. One goroutine at a time may read a stream.
func (in *Inbox) Next(ctx context.Context) (Item, error) {
	for {
		if in.sequence && len(in.seq.asm.rest) > 0 && !in.recv.failed.Load() {
			if item, ok, err := in.nextOfRest(); ok || err != nil {
				return item, err
			}
			continue
		}
		c, err := in.rd.next(ctx, &in.own, in.recv)
		if err != nil {
			return Item{}, err
		}
		item, ok, fault := in.assemble(c)
		if fault != nil {
			in.recv.owner.Fault(fault)
			return Item{}, fault
		}
		if ok {
			return item, nil
		}
	}
}

// assemble takes one verified chunk and gives the item that it completes, if it does.
func (in *Inbox) assemble(c *chunk) (item Item, ok bool, fault *failure.Failure) {
	if !in.sequence {
		in.consumed(c)
		item = Item{c.payload, c.meta, c.block, c.sum, true}
		*c = chunk{}
		return item, true, nil
	}
	if len(c.payload) == 0 { // carries nothing, and no meta that could belong to anything
		in.consumed(c)
		return Item{}, false, nil
	}
	a := &in.seq.asm
	continues := a.scan.InItem()
	n, done, err := a.scan.Feed(c.payload)
	if err != nil { // route has followed the same bytes
		return Item{}, false, failure.Newf(failure.DecodeError, failure.Internal, "%s: %w", in.describe(), err)
	}
	if !continues && done && n == len(c.payload) {
		in.consumed(c)
		item = Item{Enc: c.payload, Meta: c.meta, Block: c.block}
		*c = chunk{}
		return in.checked(item)
	}
	if !continues {
		a.hold, a.owed, a.meta = *c, &a.hold, c.meta
	}
	a.join(in.recv.link.Pool, c.payload[:n])
	if continues && n == len(c.payload) {
		c.block.Release()
	} else if n < len(c.payload) {
		// More items follow in the same chunk. They share its memory, so none of them may give it back.
		a.rest = c.payload[n:]
		if continues {
			a.rest = append([]byte(nil), a.rest...)
			c.block.Release()
		}
	}
	*c = chunk{}
	if !done {
		return Item{}, false, nil
	}
	return in.finish()
}

// nextOfRest gives the items that follow the first one of a chunk; they have no meta of their own. ok is false
// when the last of them goes on in the next chunk.
func (in *Inbox) nextOfRest() (item Item, ok bool, err error) {
	a := &in.seq.asm
	n, done, err := a.scan.Feed(a.rest)
	if err != nil {
		fault := failure.Newf(failure.DecodeError, failure.Internal, "%s: %w", in.describe(), err)
		in.recv.owner.Fault(fault)
		return Item{}, false, fault
	}
	if !done {
		a.join(in.recv.link.Pool, a.rest)
		a.rest, a.owed, a.meta = nil, nil, nil
		return Item{}, false, nil
	}
	item, ok, fault := in.checked(Item{Enc: a.rest[:n:n]})
	a.rest = a.rest[n:]
	if fault != nil {
		in.recv.owner.Fault(fault)
		return Item{}, false, fault
	}
	return item, ok, nil
}

// join appends p to the item under assembly; its memory grows by what arrived.
func (a *assembly) join(pool *Pool, p []byte) {
	have := 0
	if a.part != nil {
		have = len(a.part.Buf)
	}
	if a.part == nil || have+len(p) > cap(a.part.Buf) {
		larger := pool.Get(max(2*have, have+len(p)))
		larger.Buf = larger.Buf[:have]
		if a.part != nil {
			copy(larger.Buf, a.part.Buf)
			a.part.Release()
		}
		a.part = larger
	}
	a.part.Buf = append(a.part.Buf, p...)
}

// finish gives the joined item out and credits the chunk that began it.
func (in *Inbox) finish() (Item, bool, *failure.Failure) {
	a := &in.seq.asm
	item := Item{Enc: a.part.Buf, Meta: a.meta, Block: a.part}
	if a.owed != nil {
		in.consumed(a.owed)
		if a.meta != nil {
			item.Meta = append([]byte(nil), a.meta...)
		}
		if len(a.rest) == 0 {
			a.owed.block.Release()
		}
	}
	a.part, a.owed, a.meta, a.hold = nil, nil, nil, chunk{}
	return in.checked(item)
}

// checked makes sure that an item of a sequence is one valid CBOR value, text included; byte strings cost their head.
func (in *Inbox) checked(item Item) (Item, bool, *failure.Failure) {
	if _, ok := frame.InnerBytes(item.Enc); ok {
		return item, true, nil
	}
	if err := frame.WellFormed(item.Enc); err != nil {
		return Item{}, false, failure.Newf(failure.DecodeError, failure.Internal, "an item of %s is not valid CBOR: %w", in.describe(), err)
	}
	return item, true, nil
}

// NextPiece reads one CHUNK without opening it, for [Sender.Forward]. Pieces and items of one stream may be read in turn,
// but not within one item. It waits and ends like Next.
func (in *Inbox) NextPiece(ctx context.Context) (Piece, error) {
	if in.sequence {
		return in.nextFragment(ctx)
	}
	c, err := in.rd.next(ctx, &in.own, in.recv)
	if err != nil {
		return Piece{}, err
	}
	p := Piece{c.payload, c.meta, c.block, c.sum, true, true, false}
	in.consumed(c)
	*c = chunk{}
	return p, nil
}

// nextFragment is NextPiece of a sequence stream.
func (in *Inbox) nextFragment(ctx context.Context) (Piece, error) {
	a := &in.seq.asm
	if len(a.rest) > 0 && !in.recv.failed.Load() {
		n, done, err := a.scan.Feed(a.rest)
		if err != nil {
			return Piece{}, in.undecodable(err)
		}
		p := Piece{enc: a.rest[:n:n], sum: frame.Checksum(a.rest[:n]), first: true, last: done, seq: true}
		a.rest = a.rest[n:]
		return p, nil
	}
	c, err := in.rd.next(ctx, &in.own, in.recv)
	if err != nil {
		return Piece{}, err
	}
	for len(c.payload) == 0 { // carries nothing
		in.consumed(c)
		if c, err = in.rd.next(ctx, &in.own, in.recv); err != nil {
			return Piece{}, err
		}
	}
	p := Piece{c.payload, c.meta, c.block, c.sum, !a.scan.InItem(), true, true}
	n, done, err := a.scan.Feed(c.payload)
	if err != nil {
		return Piece{}, in.undecodable(err)
	}
	p.last = done
	if n < len(c.payload) {
		p.enc, p.block = c.payload[:n], nil
		p.sum = frame.Checksum(p.enc)
		a.rest = c.payload[n:]
	}
	if !p.first {
		p.meta = nil
	}
	in.consumed(c)
	*c = chunk{}
	return p, nil
}

// undecodable poisons the request for bytes that are no CBOR.
func (in *Inbox) undecodable(err error) *failure.Failure {
	fault := failure.Newf(failure.DecodeError, failure.Internal, "%s: %w", in.describe(), err)
	in.recv.owner.Fault(fault)
	return fault
}

// NextMerged reads the next item or LOG of a merged response in arrival order; in is the item's stream, nil for a LOG and
// for the payload of END. It waits and ends like [Inbox.Next].
func (r *Receiver) NextMerged(ctx context.Context) (item Item, in *Inbox, log *frame.LogRecord, err error) {
	for {
		if r.rest != nil && !r.failed.Load() {
			in = r.rest
			item, ok, err := in.nextOfRest()
			if len(in.seq.asm.rest) == 0 {
				r.rest = nil
			}
			if ok || err != nil {
				return item, in, nil, err
			}
			continue
		}
		c, err := r.rd.next(ctx, r.merged, r)
		if err != nil {
			return Item{}, nil, nil, err
		}
		if c.log != nil {
			return Item{}, nil, c.log, nil
		}
		if c.flags&chunkTail != 0 {
			enc := frame.AppendBytesHead(nil, len(c.payload))
			return Item{Enc: append(enc, c.payload...)}, nil, nil, nil
		}
		in = c.in
		item, ok, fault := in.assemble(c)
		if fault != nil {
			r.owner.Fault(fault)
			return Item{}, in, nil, fault
		}
		if in.sequence && len(in.seq.asm.rest) > 0 {
			r.rest = in
		}
		if ok {
			return item, in, nil, nil
		}
	}
}
