package stages

import (
	"context"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// Write sends bytes on a scalar stream: small writes coalesce, a write that makes the buffer due sends everything, cut at
// max_chunk, each piece wrapped as a CBOR byte string (spec/wire.md 8.2, R-6.37). The caller may use p again afterwards.
func (s *Sender) Write(ctx context.Context, p []byte) error {
	s.mu.Lock()
	if !s.busy && len(s.buf) > bufHead && len(s.buf)-bufHead+len(p) < coalesceBytes && s.broken == nil && s.refused == nil &&
		s.hole == nil && s.state != senderEnded && time.Since(s.since) < coalesceAge {
		s.buf = append(s.buf, p...)
		s.mu.Unlock()
		return nil
	}
	s.mu.Unlock()
	if err := s.turn(ctx); err != nil {
		return err
	}
	defer s.endCall()
	return s.writeLocked(ctx, p)
}

func (s *Sender) writeLocked(ctx context.Context, p []byte) error {
	if err := s.ready(false); err != nil || len(p) == 0 {
		return err
	}
	held := max(0, len(s.buf)-bufHead)
	if held+len(p) >= coalesceBytes || held > 0 && time.Since(s.since) >= coalesceAge {
		return s.breakOff(s.sendBytes(ctx, p))
	}
	if held == 0 {
		if s.buf == nil {
			s.buf = make([]byte, bufHead, bufHead+max(len(p), 27))
		}
		s.since = time.Now()
	}
	s.buf = append(s.buf, p...)
	return nil
}

// sendBytes sends the coalesced bytes and p behind them, as one run of bytes.
func (s *Sender) sendBytes(ctx context.Context, p []byte) error {
	var held []byte
	if len(s.buf) > bufHead {
		held = s.buf[bufHead:]
	}
	total, cut := len(held)+len(p), s.cut(0)
	if total == 0 {
		return nil
	}
	if total <= cut && total <= laneInline-bufHead {
		if s.buf == nil {
			s.buf = make([]byte, bufHead, bufHead+total)
		}
		s.buf = append(s.buf, p...)
		payload := headInFront(s.buf)
		err := s.send(ctx, 1, func() fragment { return fragment{payload: payload} })
		s.buf = s.buf[:bufHead]
		return err
	}
	at := 0
	err := s.send(ctx, (total+cut-1)/cut, func() fragment {
		n := min(cut, total-at)
		f := s.bytesFragment(n)
		k := 0
		if at < len(held) {
			k = copy(f.payload[len(f.payload)-n:], held[at:])
		}
		if k < n {
			copy(f.payload[len(f.payload)-n+k:], p[at+k-len(held):])
		}
		at += n
		return f
	})
	if s.buf != nil {
		s.buf = s.buf[:bufHead]
	}
	return err
}

// bytesFragment makes room for n bytes behind the head of their byte string.
func (s *Sender) bytesFragment(n int) fragment {
	var f fragment
	if n+bufHead > laneInline {
		f.block = s.link.Pool.Get(n + bufHead)
		f.payload = f.block.Buf[:0]
	} else {
		f.payload = make([]byte, 0, n+bufHead)
	}
	f.payload = frame.AppendBytesHead(f.payload, n)
	f.payload = f.payload[:len(f.payload)+n]
	return f
}

// headInFront puts the head of a byte string into the room in front of b's data and returns head and data.
func headInFront(b []byte) []byte {
	n := len(b) - bufHead
	var room [9]byte
	h := frame.AppendBytesHead(room[:0], n)
	copy(b[bufHead-len(h):], h)
	return b[bufHead-len(h):]
}

// Flush sends the coalesced tail.
func (s *Sender) Flush(ctx context.Context) error {
	if err := s.lock(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if s.broken != nil || s.state == senderEnded || len(s.buf) <= bufHead {
		return s.broken
	}
	return s.breakOff(s.sendBytes(ctx, nil))
}

// EmitValue sends one value on a scalar stream: a byte string as Write does; text in pieces that are text; an array
// element by element; a map entry by entry as [key, value]; anything else as one CHUNK. Nothing is sent of a value with an
// element that does not fit into a frame.
func (s *Sender) EmitValue(ctx context.Context, v any) error {
	if b, ok := v.([]byte); ok {
		return s.Write(ctx, b)
	}
	if err := s.turn(ctx); err != nil {
		return err
	}
	defer s.endCall()
	if err := s.ready(false); err != nil {
		return err
	}
	return s.breakOff(s.emitValue(ctx, v))
}

func (s *Sender) emitValue(ctx context.Context, v any) error {
	enc, err := frame.AppendValue(nil, v)
	if err != nil {
		return err
	}
	shape, content, elements := frame.Split(enc)
	switch shape {
	case frame.ShapeBytes:
		return s.writeLocked(ctx, content)
	case frame.ShapeText:
		elements = s.textPieces(content)
	case frame.ShapeOther:
		elements = [][]byte{enc}
	}
	limit := s.largest()
	for _, e := range elements {
		if len(e) > limit {
			return &ValueTooLargeError{len(e), limit}
		}
	}
	if err := s.sendBytes(ctx, nil); err != nil { // buffered bytes first, before arrays as well
		return err
	}
	at := 0
	return s.send(ctx, len(elements), func() fragment {
		at++
		return fragment{payload: elements[at-1]}
	})
}

// chunkOverhead is what a CHUNK has beside payload, stream id and meta, at most, bytes (spec/wire.md 8.4).
const chunkOverhead = 84

// largest is how many bytes of payload fit into a frame, whatever max_chunk says.
func (s *Sender) largest() int {
	return int(min(s.link.Limits.MaxFrame, frame.MaxBody)) - chunkOverhead - len(s.id)
}

func (s *Sender) textPieces(text []byte) (pieces [][]byte) {
	for cut := s.cut(0); len(text) > 0; {
		n := splitText(text, cut)
		pieces = append(pieces, append(frame.AppendTextHead(make([]byte, 0, n+bufHead), n), text[:n]...))
		text = text[n:]
	}
	return pieces
}

// EmitItem sends one item of a sequence stream: encoded once, the encoding cut at max_chunk, meta on the first CHUNK
// (spec/wire.md 8.3, R-6.41). meta is a CBOR map, or nil.
func (s *Sender) EmitItem(ctx context.Context, v any, meta []byte) error {
	if err := s.turn(ctx); err != nil {
		return err
	}
	defer s.unlock()
	if err := s.ready(true); err != nil {
		return err
	}
	if s.inItem { // of a forward that is not finished
		return s.breakOff(ErrPieceOrder)
	}
	return s.breakOff(s.emitItem(ctx, v, meta))
}

func (s *Sender) emitItem(ctx context.Context, v any, meta []byte) error {
	var block *Block
	if b, ok := v.([]byte); ok && len(b)+bufHead > laneInline && len(b) <= s.cut(len(meta))-bufHead {
		block = s.link.Pool.Get(len(b) + bufHead)
		enc := append(frame.AppendBytesHead(block.Buf[:0], len(b)), b...)
		return s.sendItem(ctx, enc, meta, block)
	}
	enc, err := frame.AppendValue(s.enc[:0], v)
	if err != nil {
		return err
	}
	if len(enc) <= laneInline {
		s.enc = enc[:0] // the lane copies it
	} else {
		s.enc = nil // the lane keeps it
	}
	return s.sendItem(ctx, enc, meta, nil)
}

// sendItem sends an encoded item; block, when not nil, holds all of it and the item is one CHUNK.
func (s *Sender) sendItem(ctx context.Context, enc, meta []byte, block *Block) error {
	first, cut := s.cut(len(meta)), s.cut(0)
	chunks := 1
	if len(enc) > first {
		chunks += (len(enc) - first + cut - 1) / cut
	}
	s.inItem = true
	n := first
	err := s.send(ctx, chunks, func() fragment {
		k := min(n, len(enc))
		f := fragment{payload: enc[:k:k], meta: meta, block: block}
		enc, meta, n = enc[k:], nil, cut
		return f
	})
	if err == nil {
		s.inItem = false
	}
	return err
}

// Forward sends a piece on as it came, with its encoding and its checksum; where it does not fit this link it is cut anew.
// The piece is used up. On a sequence stream pieces must come in the order in which they were read.
func (s *Sender) Forward(ctx context.Context, p Piece) error {
	if err := s.turn(ctx); err != nil {
		p.Release()
		return err
	}
	defer s.unlock()
	if err := s.ready(p.seq); err != nil {
		p.Release()
		return err
	}
	return s.breakOff(s.forward(ctx, p))
}

func (s *Sender) forward(ctx context.Context, p Piece) error {
	if p.seq && p.first == s.inItem {
		p.Release()
		return ErrPieceOrder
	}
	if err := s.sendBytes(ctx, nil); err != nil {
		p.Release()
		return err
	}
	cut := s.cut(len(p.meta))
	if !p.seq {
		p.meta = nil // chunk borders mean nothing there, so meta has no item to belong to
		cut = s.cut(0) + bufHead
	}
	if len(p.enc) > cut {
		defer p.Release()
		return s.recut(ctx, &p)
	}
	if _, err := s.acquire(ctx, 1); err != nil {
		p.Release()
		return err
	}
	b, err := s.begin(ctx)
	if err != nil {
		p.Release()
		return err
	}
	err = s.putChunk(b, p.enc, p.meta, p.sum, p.block)
	b.End()
	s.inItem = p.seq && !p.last
	return err
}

// recut sends a piece that is too long for one CHUNK of this link.
func (s *Sender) recut(ctx context.Context, p *Piece) error {
	if p.seq {
		enc := append([]byte(nil), p.enc...)
		err := s.sendItem(ctx, enc, p.meta, nil)
		s.inItem = s.inItem || !p.last
		return err
	}
	if inner, ok := frame.InnerBytes(p.enc); ok {
		return s.sendBytes(ctx, inner)
	}
	v, err := frame.DecodeValue(p.enc)
	if err != nil {
		return err
	}
	if text, ok := v.(string); ok {
		return s.emitValue(ctx, text)
	}
	if limit := s.largest(); len(p.enc) > limit {
		return &ValueTooLargeError{len(p.enc), limit}
	}
	enc := append([]byte(nil), p.enc...)
	return s.send(ctx, 1, func() fragment { return fragment{payload: enc} })
}
