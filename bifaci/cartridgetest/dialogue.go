package cartridgetest

import (
	"errors"
	"fmt"
	"io"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// dialogue is one request as the host has it: what it sends, numbered and credited, and what came back.
type dialogue struct {
	h           *Host
	id, routing frame.ID
	answers     bool   // the host is the one who answers: a peer call
	seq         uint64 // of the next flow frame; touched by the test only

	out []*Stream // guarded by h.mu
	in  incoming  // guarded by h.mu
}

// incoming is what the cartridge has sent for a request.
type incoming struct {
	first    Frame // the REQ of a peer call
	frames   []Frame
	streams  []*Answer
	items    []Item
	logs     []Frame
	grants   map[string][]uint64 // by stream
	terminal Frame               // END or ERR
	cancel   Frame               // CANCEL of a peer call

	itemsTaken, logsTaken, streamsTaken int
	owed                                map[string]uint64 // chunks that came and were not granted back yet
	parts                               map[string]*part
}

// part is a sequence item that is not complete.
type part struct {
	bytes []byte
	meta  map[string]any
}

func newIncoming(first Frame) incoming {
	return incoming{first: first, grants: map[string][]uint64{}, owed: map[string]uint64{}, parts: map[string]*part{}}
}

// Answer is one stream that the cartridge has started.
type Answer struct {
	ID, MediaURN         string
	Sequence, Unbounded  bool
	Meta                 map[string]any
	Chunks               uint64 // received so far
	Ended                bool
	ChunkCount           uint64 // of its STREAM_END
	HasChunkCount, Whole bool   // Whole: STREAM_END came
}

// Item is one value of a stream of the cartridge: that of a CHUNK on a scalar stream, or an item of a sequence.
type Item struct {
	Stream   string
	Value    any
	Meta     map[string]any
	Encoding []byte // of the value, as it came
}

// String is the content of a byte string or of text, and otherwise the value as Go prints it.
func (it Item) String() string {
	switch v := it.Value.(type) {
	case []byte:
		return string(v)
	case string:
		return v
	}
	return fmt.Sprint(it.Value)
}

// is reports whether the item is what a test wants: a string stands for a byte string or a text of that content.
func (it Item) is(want any) bool {
	switch w := want.(type) {
	case string:
		switch it.Value.(type) {
		case []byte, string:
			return it.String() == w
		}
		return false
	}
	return string(encodeValue(want)) == string(encodeValue(it.Value))
}

// take sorts a frame in and gives the CREDIT that it earns; h.mu is held.
func (d *dialogue) take(f Frame) (grant Frame) {
	in := &d.in
	if f.Type() == frame.TypeCredit {
		in.grants[f.Stream()] = append(in.grants[f.Stream()], f.Uint(frame.KeyCredit))
		if s := d.stream(f.Stream()); s != nil {
			s.credit += f.Uint(frame.KeyCredit)
		}
		return nil
	}
	in.frames = append(in.frames, f)
	switch f.Type() {
	case frame.TypeStreamStart:
		in.streams = append(in.streams, &Answer{ID: f.Stream(), MediaURN: f.Text(frame.KeyMediaURN), Meta: f.Meta(),
			Sequence: f.Flag(frame.KeyIsSequence), Unbounded: f.Flag(frame.KeyUnbounded)})
	case frame.TypeChunk:
		d.chunk(f)
		return d.earned(f.Stream())
	case frame.TypeStreamEnd:
		if a := in.answer(f.Stream()); a != nil {
			a.Ended, a.Whole = true, true
			a.ChunkCount, a.HasChunkCount = f.Uint(frame.KeyChunkCount), f.Has(frame.KeyChunkCount)
		}
		if p := in.parts[f.Stream()]; p != nil && len(p.bytes) > 0 {
			d.h.t.Errorf("cartridgetest: stream %s of request %s ended inside an item", f.Stream(), short(d.id))
		}
	case frame.TypeLog:
		in.logs = append(in.logs, f)
	case frame.TypeEnd, frame.TypeErr:
		in.terminal = f
	case frame.TypeCancel:
		in.cancel = f
	}
	return nil
}

// chunk puts items together.
func (d *dialogue) chunk(f Frame) {
	in := &d.in
	a := in.answer(f.Stream())
	if a == nil {
		return // the check complains
	}
	a.Chunks++
	if !a.Sequence {
		var v any
		if err := cborModes().dec.Unmarshal(f.Payload(), &v); err != nil {
			d.h.t.Errorf("cartridgetest: the payload of %s is not one CBOR value: %v", f, err)
			return
		}
		in.items = append(in.items, Item{f.Stream(), v, f.Meta(), f.Payload()})
		return
	}
	p := in.parts[f.Stream()]
	if p == nil {
		p = new(part)
		in.parts[f.Stream()] = p
	}
	if len(p.bytes) == 0 {
		p.meta = f.Meta()
	}
	p.bytes = append(p.bytes, f.Payload()...)
	for len(p.bytes) > 0 {
		var v any
		rest, err := cborModes().dec.UnmarshalFirst(p.bytes, &v)
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			d.h.t.Errorf("cartridgetest: %s carries no item: %v", f, err)
			p.bytes = nil
			return
		}
		n := len(p.bytes) - len(rest)
		in.items = append(in.items, Item{f.Stream(), v, p.meta, p.bytes[:n:n]})
		p.bytes, p.meta = rest, nil
	}
}

// earned is the CREDIT for what has come of a stream, in batches of half a window, or nil.
func (d *dialogue) earned(stream string) Frame {
	d.in.owed[stream]++
	if d.h.opts.manual || d.in.owed[stream] < max(1, d.h.limits.InitialCredit/2) {
		return nil
	}
	n := d.in.owed[stream]
	d.in.owed[stream] = 0
	return d.creditFrame(stream, n)
}

// creditFrame grants chunks of the cartridge's.
func (d *dialogue) creditFrame(stream string, n uint64) Frame {
	dir := frame.CreditResponse
	if d.answers {
		dir = frame.CreditRequest
	}
	return d.addressed(CreditFrame(dir, stream, n)).With(frame.KeySeq, uint64(0))
}

func (in *incoming) answer(stream string) *Answer {
	for _, a := range in.streams {
		if a.ID == stream {
			return a
		}
	}
	return nil
}

// stream is the host's own stream with an id, or nil; h.mu is held.
func (d *dialogue) stream(id string) *Stream {
	for _, s := range d.out {
		if s.id == id {
			return s
		}
	}
	return nil
}

// addressed gives a frame the ids of the request, where it has none of its own.
func (d *dialogue) addressed(f Frame) Frame {
	if !f.Has(frame.KeyID) {
		f = f.With(frame.KeyID, idValue(d.id))
	}
	if !d.routing.IsZero() && !f.Has(frame.KeyRoutingID) {
		f = f.With(frame.KeyRoutingID, idValue(d.routing))
	}
	return f
}

// send sends a frame of the request, numbered. forced frames are not judged.
func (d *dialogue) send(f Frame, forced bool) {
	d.h.t.Helper()
	f = d.addressed(f)
	if !f.Has(frame.KeySeq) {
		n := uint64(0)
		if f.Type().IsFlow() {
			n = d.seq
			d.seq++
		}
		f = f.With(frame.KeySeq, n)
	}
	d.h.send(f, forced)
}

// force sends frames that may break the rules.
func (d *dialogue) force(frames []Frame) {
	d.h.t.Helper()
	for _, f := range frames {
		d.h.mu.Lock()
		if s := d.stream(f.Stream()); s != nil && f.Type() == frame.TypeChunk {
			s.sent++
			s.credit -= min(1, s.credit)
		}
		d.h.mu.Unlock()
		d.send(f, true)
	}
}

// closeStreams ends the streams that are open.
func (d *dialogue) closeStreams() {
	d.h.t.Helper()
	for _, s := range d.out {
		s.End()
	}
}

// open starts a stream.
func (d *dialogue) open(id, mediaURN string, opts []StreamOption) *Stream {
	d.h.t.Helper()
	s := &Stream{d: d, id: id}
	f := StartFrame(id, mediaURN)
	for _, opt := range opts {
		opt(s, f)
	}
	d.h.mu.Lock()
	s.credit = d.h.limits.InitialCredit
	d.out = append(d.out, s)
	d.h.mu.Unlock()
	d.send(f, false)
	return s
}

// only is the one stream of simple requests: the last one that was started, or a new one.
func (d *dialogue) only(mediaURN string, opts ...StreamOption) *Stream {
	d.h.t.Helper()
	if n := len(d.out); n > 0 {
		return d.out[n-1]
	}
	return d.open("body", mediaURN, opts)
}
