package cartridgetest

import "github.com/pipe-cartridge/pipe/bifaci/frame"

// Stream is one stream that the host sends. Its methods wait for the cartridge's credit, one for each CHUNK.
type Stream struct {
	d         *dialogue
	id        string
	sequence  bool
	unbounded bool
	ended     bool
	sent      uint64
	credit    uint64 // guarded by h.mu
}

// StreamOption is how a stream of the host's is started.
type StreamOption func(*Stream, Frame)

// Sequence starts a stream of items.
func Sequence(s *Stream, f Frame) {
	s.sequence = true
	f[frame.KeyIsSequence] = true
}

// Unbounded starts a stream without a promise of length.
func Unbounded(s *Stream, f Frame) {
	s.unbounded = true
	f[frame.KeyUnbounded] = true
}

// Meta gives the stream its meta.
func Meta(m map[string]any) StreamOption {
	return func(_ *Stream, f Frame) { f[frame.KeyMeta] = m }
}

// Chunk sends data as one byte string: a piece of a scalar stream, or a whole item of a sequence.
func (s *Stream) Chunk(data string) *Stream {
	s.d.h.t.Helper()
	return s.payload(Bytes(data), nil)
}

// Item sends one CBOR value, with meta or nil. On a sequence it is cut at max_chunk, as a sender of the protocol does.
func (s *Stream) Item(v any, meta map[string]any) *Stream {
	s.d.h.t.Helper()
	enc := encodeValue(v)
	cut := len(enc)
	if s.sequence {
		cut = int(s.d.h.Limits().MaxChunk)
	}
	for ; len(enc) > cut; enc, meta = enc[cut:], nil {
		s.payload(enc[:cut], meta)
	}
	return s.payload(enc, meta)
}

// payload sends one CHUNK when there is credit.
func (s *Stream) payload(p []byte, meta map[string]any) *Stream {
	h := s.d.h
	h.t.Helper()
	h.awaitOf(s.d, "credit for a CHUNK of stream "+s.id, func() bool {
		if s.credit == 0 {
			return false
		}
		s.credit--
		return true
	})
	f := ChunkFrame(s.id, s.sent, p)
	if meta != nil {
		f[frame.KeyMeta] = meta
	}
	s.sent++
	s.d.send(f, false)
	return s
}

// End ends the stream; an ended one stays so.
func (s *Stream) End() {
	s.d.h.t.Helper()
	if s.ended {
		return
	}
	s.ended = true
	f := StreamEndFrame(s.id, s.sent)
	if s.unbounded {
		f = f.Without(frame.KeyChunkCount)
	}
	s.d.send(f, false)
}

// Credit is how many CHUNKs the cartridge lets the host send now.
func (s *Stream) Credit() uint64 {
	s.d.h.mu.Lock()
	defer s.d.h.mu.Unlock()
	return s.credit
}
