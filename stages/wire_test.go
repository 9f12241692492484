package stages

import (
	"bytes"
	"encoding/binary"
	"hash/fnv"
	"sync"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// What the tests know of the wire they know from fxamacker/cbor and hash/fnv, not from the code under test.

// wireFrame is one frame as an independent peer reads it.
type wireFrame struct {
	typ     frame.Type
	id      any
	seq     uint64
	stream  string
	payload []byte
	meta    map[any]any
	fields  map[uint64]any
	size    int // of the body, bytes
}

func (w wireFrame) has(k frame.Key) bool { _, ok := w.fields[uint64(k)]; return ok }

func (w wireFrame) uint(k frame.Key) uint64 { n, _ := w.fields[uint64(k)].(uint64); return n }

// decodeWire reads everything in b, which must be whole frames.
func decodeWire(t require.TestingT, b []byte) (frames []wireFrame) {
	for len(b) > 0 {
		require.GreaterOrEqual(t, len(b), 4, "the output ends inside a length prefix")
		n := int(binary.BigEndian.Uint32(b))
		require.GreaterOrEqual(t, len(b)-4, n, "the output ends inside a frame")
		w := wireFrame{size: n}
		require.NoError(t, cbor.Unmarshal(b[4:4+n], &w.fields), "body %x", b[4:4+n])
		w.typ = frame.Type(w.uint(frame.KeyType))
		w.id, w.seq = w.fields[uint64(frame.KeyID)], w.uint(frame.KeySeq)
		w.stream, _ = w.fields[uint64(frame.KeyStreamID)].(string)
		w.payload, _ = w.fields[uint64(frame.KeyPayload)].([]byte)
		w.meta, _ = w.fields[uint64(frame.KeyMeta)].(map[any]any)
		if w.typ == frame.TypeChunk {
			require.Equal(t, fnvOf(w.payload), w.uint(frame.KeyChecksum), "checksum of chunk %d", w.uint(frame.KeyChunkIndex))
		}
		frames = append(frames, w)
		b = b[4+n:]
	}
	return frames
}

func ofType(frames []wireFrame, typ frame.Type) (some []wireFrame) {
	for _, w := range frames {
		if w.typ == typ {
			some = append(some, w)
		}
	}
	return some
}

func typesOf(frames []wireFrame) (types []frame.Type) {
	for _, w := range frames {
		types = append(types, w.typ)
	}
	return types
}

func fnvOf(p []byte) uint64 {
	h := fnv.New64a()
	h.Write(p)
	return h.Sum64()
}

// encoded is v as fxamacker/cbor encodes it, with the keys of maps in order.
func encoded(t require.TestingT, v any) []byte {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	require.NoError(t, err)
	b, err := mode.Marshal(v)
	require.NoError(t, err)
	return b
}

// recorder is an output that remembers. It never waits, unless hold is set: then every write waits for a value from hold,
// which is the error of that write.
type recorder struct {
	hold chan error

	mu     sync.Mutex
	bytes  bytes.Buffer
	writes int
}

func (r *recorder) Write(p []byte) (int, error) {
	if r.hold != nil {
		if err := <-r.hold; err != nil {
			return 0, err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.writes++
	return r.bytes.Write(p)
}

// take gives what was written since the last take, and in how many writes.
func (r *recorder) take(t require.TestingT) (frames []wireFrame, writes int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	frames = decodeWire(t, r.bytes.Bytes())
	writes = r.writes
	r.bytes.Reset()
	r.writes = 0
	return frames, writes
}

// vector is a recorder that takes several buffers at a time.
type vector struct{ recorder }

func (v *vector) WriteBuffers(bufs [][]byte) (int64, error) {
	n, err := v.Write(bytes.Join(bufs, nil))
	return int64(n), err
}

// testLink is a link whose output is recorded. Nothing is written before run.
type testLink struct {
	Link
	out  *recorder
	done chan error
}

func newTestLink(limits frame.Limits) *testLink {
	l := &testLink{out: new(recorder)}
	l.Pool, l.Limits = new(Pool), limits
	l.Lanes = NewLanes(l.out, limits.MaxFrame, nil)
	return l
}

// run starts the writer; it ends with finish.
func (l *testLink) run() *testLink {
	l.done = make(chan error, 1)
	go func() { l.done <- l.Lanes.Run(func(err error) error { return err }) }()
	return l
}

// finish ends writer and auditor and gives everything that was written and not taken.
func (l *testLink) finish(t require.TestingT) []wireFrame {
	if l.done == nil {
		l.run()
	}
	l.Link.Close()
	l.Lanes.Close()
	require.NoError(t, <-l.done)
	frames, _ := l.out.take(t)
	return frames
}

func withCredit(n uint64) frame.Limits {
	l := frame.DefaultLimits()
	l.InitialCredit = n
	return l
}

// The frames that a peer sends.

func startFrame(stream string, sequence bool) *frame.Frame {
	f := &frame.Frame{Type: frame.TypeStreamStart, StreamID: []byte(stream), MediaURN: []byte("media:bytes"), IsSequence: sequence}
	f.Has = f.Has.With(frame.KeyStreamID).With(frame.KeyMediaURN).With(frame.KeyIsSequence)
	return f
}

func chunkFrame(stream string, index int, payload []byte) *frame.Frame {
	f := &frame.Frame{Type: frame.TypeChunk, StreamID: []byte(stream), Payload: payload, ChunkIndex: uint64(index), Checksum: fnvOf(payload)}
	f.Has = f.Has.With(frame.KeyStreamID).With(frame.KeyPayload).With(frame.KeyChunkIndex).With(frame.KeyChecksum)
	return f
}

func withMeta(f *frame.Frame, meta []byte) *frame.Frame {
	f.Meta, f.Has = meta, f.Has.With(frame.KeyMeta)
	return f
}

func streamEndFrame(stream string, count int) *frame.Frame {
	f := &frame.Frame{Type: frame.TypeStreamEnd, StreamID: []byte(stream), ChunkCount: uint64(count)}
	f.Has = f.Has.With(frame.KeyStreamID)
	if count >= 0 {
		f.Has = f.Has.With(frame.KeyChunkCount)
	}
	return f
}

// credits sums the grants per stream.
func credits(frames []wireFrame) map[string]uint64 {
	sum := map[string]uint64{}
	for _, w := range ofType(frames, frame.TypeCredit) {
		sum[w.stream] += w.uint(frame.KeyCredit)
	}
	return sum
}

func TestOfTheTests(t *testing.T) {
	f := chunkFrame("s", 3, []byte("xyz"))
	f.Seq = 9
	frames := decodeWire(t, frame.Append(nil, f))
	require.Len(t, frames, 1)
	require.Equal(t, []any{frame.TypeChunk, uint64(9), "s", []byte("xyz"), uint64(3)},
		[]any{frames[0].typ, frames[0].seq, frames[0].stream, frames[0].payload, frames[0].uint(frame.KeyChunkIndex)})
}
