package bifaci_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/stats"
)

// breachOfBody is a body that breaks a rule of section 3.4 with its last frame.
type breachOfBody struct {
	name   string // with the rule's id
	frames []cartridgetest.Frame
	code   string
	class  failure.Class
	says   string // in the message
	late   bool   // found when the payload is taken, or after a while
}

// large is more than what is verified while it is routed.
const large = 5000

// violations are the bodies that a window of 2 can have.
func violations() []breachOfBody {
	var (
		start = cartridgetest.StartFrame("s", "media:")
		seq   = start.With(frame.KeyIsSequence, true)
		end   = cartridgetest.EndFrame(false)
		good  = cartridgetest.Bytes("x")
		big   = cartridgetest.Bytes(strings.Repeat("x", large))
	)
	chunk := func(i uint64, p []byte) cartridgetest.Frame { return cartridgetest.ChunkFrame("s", i, p) }
	ended := cartridgetest.StreamEndFrame
	list := func(f ...cartridgetest.Frame) []cartridgetest.Frame { return f }
	const protocol, decode, corrupt = failure.ProtocolError, failure.DecodeError, failure.CorruptedData
	const internal = failure.Internal
	return []breachOfBody{
		{"R-3.30 STREAM_START without stream_id", list(start.Without(frame.KeyStreamID)), protocol, internal, "stream_id", false},
		{"R-3.30 STREAM_START without media_urn", list(start.Without(frame.KeyMediaURN)), protocol, internal, "media_urn", false},
		{"R-3.30 a stream_id started twice", list(start, start), protocol, internal, `"s"`, false},
		{"R-3.30 a stream_id used again after its STREAM_END", list(start, ended("s", 0), start), protocol, internal, `"s"`, false},
		{"R-3.31 CHUNK without stream_id", list(start, chunk(0, good).Without(frame.KeyStreamID)), protocol, internal, "stream_id", false},
		{"R-3.31 CHUNK without payload", list(start, chunk(0, good).Without(frame.KeyPayload)), protocol, internal, "payload", false},
		{"R-3.31 STREAM_END without stream_id", list(start, ended("s", 0).Without(frame.KeyStreamID)), protocol, internal, "stream_id", false},
		{"R-3.31 CHUNK of a stream never started", list(chunk(0, good)), protocol, internal, `"s"`, false},
		{"R-3.31 STREAM_END of a stream never started", list(ended("s", 0)), protocol, internal, `"s"`, false},
		{"R-3.31 CHUNK of a stream that has ended", list(start, ended("s", 0), chunk(0, good)), protocol, internal, `"s"`, false},
		{"R-3.31 STREAM_END of a stream that has ended", list(start, ended("s", 0), ended("s", 0)), protocol, internal, `"s"`, false},
		{"R-3.32 a wrong checksum", list(start, chunk(0, good).With(frame.KeyChecksum, uint64(1))), corrupt, internal, `"s"`, false},
		{"R-3.32 a wrong checksum of a sequence", list(seq, chunk(0, good).With(frame.KeyChecksum, uint64(1))), corrupt, internal, `"s"`, false},
		{"R-3.32 a wrong checksum of a large payload", list(start, chunk(0, big).With(frame.KeyChecksum, uint64(1))), corrupt, internal, `"s"`, true},
		{"R-3.33 chunk_index with a gap", list(start, chunk(0, good), chunk(2, good)), protocol, internal, "2", false},
		{"R-3.33 chunk_index twice", list(start, chunk(0, good), chunk(0, good)), protocol, internal, "0", false},
		{"R-3.33 chunk_index that does not begin with 0", list(start, chunk(1, good)), protocol, internal, "1", false},
		{"R-3.34 CHUNK beyond the window", list(start, chunk(0, good), chunk(1, good), chunk(2, good)), failure.CreditViolation, internal, "window", false},
		{"R-3.35 chunk_count too low", list(start, chunk(0, good), ended("s", 0)), protocol, internal, "chunk_count 0 after 1", false},
		{"R-3.35 chunk_count too high", list(start, chunk(0, good), ended("s", 2)), protocol, internal, "chunk_count 2 after 1", false},
		{"R-3.35 chunk_count of an unbounded stream, wrong",
			list(start.With(frame.KeyUnbounded, true), ended("s", 1)), protocol, internal, "chunk_count 1 after 0", false},
		{"R-3.36 STREAM_END inside an item", list(seq, chunk(0, []byte{0x45, 1, 2}), ended("s", 1)), decode, internal, "3 bytes", false},
		{"R-3.37 a scalar payload that is no CBOR", list(start, chunk(0, []byte{0xff})), decode, internal, `"s"`, false},
		{"R-3.37 a scalar payload that is empty", list(start, chunk(0, []byte{})), decode, internal, `"s"`, false},
		{"R-3.37 a scalar payload with half a value", list(start, chunk(0, good[:1])), decode, internal, `"s"`, false},
		{"R-3.37 a scalar payload with two values", list(start, chunk(0, append(good, good...))), decode, internal, `"s"`, false},
		{"R-3.37 a large scalar payload that is no CBOR", list(start, chunk(0, big[:large-1])), decode, internal, `"s"`, true},
		{"R-3.37 a sequence that cannot become CBOR", list(seq, chunk(0, []byte{0x1c})), decode, internal, `"s"`, false},
		{"R-3.37 a large chunk of a sequence that cannot become CBOR", list(seq, chunk(0, append([]byte{0x41, 0}, make([]byte, large)...)),
			chunk(1, []byte{0xff})), decode, internal, `"s"`, false},
		{"R-3.38 END while a stream is open", list(start, chunk(0, good), end), protocol, internal, `"s"`, false},
		{"R-3.38 END while one of two streams is open",
			list(start, cartridgetest.StartFrame("t", "media:"), ended("s", 0), end), protocol, internal, `"t"`, false},
	}
}

// TestStreamChecks: each breach poisons the request, whether its handler reads or not, and nobody else.
func TestStreamChecks(t *testing.T) {
	for _, v := range violations() {
		virtual(t, v.name+", and the handler never reads", func(t *testing.T) {
			c := cartridgeOf(t, nil, nil, answers("other"), served{"one", func(ctx context.Context, _ *bifaci.Request) error {
				<-ctx.Done()
				return nil
			}})
			h := cartridgetest.Start(t, c, cartridgetest.WithWindow(2))
			began := time.Now()
			got := h.Request(capNamed("one")).Send(v.frames...).WantErr(v.code, v.class)
			assert.Contains(t, got.Message, v.says)
			if v.late {
				assert.LessOrEqual(t, time.Since(began), 200*time.Millisecond, "of virtual time")
			} else {
				assert.Zero(t, time.Since(began), "at once")
			}
			var violated uint64
			if v.code == failure.CreditViolation {
				violated = 1
			}
			assert.Equal(t, violated, c.Drops().ByReason[stats.CreditViolation])
			h.Request(capNamed("other")).End().WantItems("other").WantEnd()
			h.WantIdle()
		})
		if v.code == failure.CreditViolation {
			continue // who reads grants
		}
		virtual(t, v.name+", and the handler reads", func(t *testing.T) {
			h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
				input, err := r.TakeInput()
				if err != nil {
					return err
				}
				// It ignores the error, and all of its output came before it.
				_, err = input.CollectStreams(ctx)
				assert.Error(t, err)
				<-ctx.Done() // an unbounded stream was refused before it was wrong
				return nil
			}}), cartridgetest.WithWindow(2))
			began := time.Now()
			h.Request(capNamed("one")).Send(v.frames...).WantErr(v.code, v.class)
			assert.Zero(t, time.Since(began), "at once")
			h.WantIdle()
		})
	}
}

func TestStreamTolerance(t *testing.T) {
	start, end := cartridgetest.StartFrame("s", "media:"), cartridgetest.EndFrame(false)
	chunk := cartridgetest.ChunkFrame("s", 0, cartridgetest.Bytes("x"))
	for name, frames := range map[string][]cartridgetest.Frame{
		"R-3.35 an unbounded stream without chunk_count": {start.With(frame.KeyUnbounded, true), chunk,
			cartridgetest.StreamEndFrame("s", 1).Without(frame.KeyChunkCount), end},
		"R-3.35 an unbounded stream with the right chunk_count": {start.With(frame.KeyUnbounded, true), chunk,
			cartridgetest.StreamEndFrame("s", 1), end},
		"R-3.35 a bounded stream that promises nothing": {start, chunk, cartridgetest.StreamEndFrame("s", 1).Without(frame.KeyChunkCount), end},
		"R-3.36 a sequence that ends between items":     {start.With(frame.KeyIsSequence, true), chunk, cartridgetest.StreamEndFrame("s", 1), end},
	} {
		virtual(t, name+" is fine", func(t *testing.T) {
			h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
				return r.Output().EmitItem(ctx, transcript(ctx, r), nil)
			}}))
			h.Request(capNamed("one")).Send(frames...).WantItems("[media: x eof] eof").WantEnd()
			h.WantIdle()
		})
	}
	virtual(t, "R-3.36 the message tells how many bytes are left over", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", g.handle}))
		req := h.Request(capNamed("one"))
		r := <-g.started
		req.Send(start.With(frame.KeyIsSequence, true),
			cartridgetest.ChunkFrame("s", 0, []byte{0x01, 0x59, 0x01, 0x00, 7, 7, 7}), cartridgetest.StreamEndFrame("s", 1))
		<-r.Context().Done()
		g.open()
		assert.Contains(t, req.WantErr(failure.DecodeError, failure.Internal).Message, "6 bytes")
	})
}

func TestManyStreams(t *testing.T) {
	for name, tc := range map[string]struct {
		limit int
		opts  []bifaci.Option
	}{"the default of 256": {256, nil}, "an option": {2, []bifaci.Option{bifaci.WithMaxStreamsPerRequest(2)}}} {
		virtual(t, "R-3.39 "+name, func(t *testing.T) {
			h := cartridgetest.Start(t, cartridgeOf(t, nil, tc.opts, served{"one", func(ctx context.Context, r *bifaci.Request) error {
				input, err := r.TakeInput()
				if err != nil {
					return err
				}
				streams, err := input.CollectStreams(ctx)
				if err != nil {
					return err
				}
				return r.Output().EmitItem(ctx, len(streams), nil)
			}}))
			fill := func() *cartridgetest.Request {
				req := h.Request(capNamed("one"))
				for i := range tc.limit {
					req.Stream(strings.Repeat("s", i+1), "media:").End()
				}
				return req
			}
			fill().End().WantItems(tc.limit).WantEnd()
			got := fill().Send(cartridgetest.StartFrame("more", "media:")).WantErr(failure.ProtocolError, failure.Internal)
			assert.Contains(t, got.Message, "more")
			h.WantIdle()
		})
	}
}

// A payload too large to be verified while it is routed is verified all the same.
func TestLargePayloads(t *testing.T) {
	big := cartridgetest.Bytes(strings.Repeat("x", 200<<10))
	bad := cartridgetest.ChunkFrame("s", 1, big).With(frame.KeyChecksum, uint64(1))
	body := []cartridgetest.Frame{cartridgetest.StartFrame("s", "media:"), cartridgetest.ChunkFrame("s", 0, big), bad}
	virtual(t, "R-3.32 behind a good one, and the handler reads neither", func(t *testing.T) {
		ended := make(chan error, 1)
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, _ *bifaci.Request) error {
			<-ctx.Done()
			ended <- context.Cause(ctx)
			return nil
		}}))
		began := time.Now()
		h.Request(capNamed("one")).Send(body...).WantErr(failure.CorruptedData, failure.Internal)
		assert.LessOrEqual(t, time.Since(began), 300*time.Millisecond)
		require.ErrorContains(t, <-ended, failure.CorruptedData)
		h.WantIdle()
	})
	virtual(t, "R-3.32 the good one in front is still read", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			it, err := s.Next(ctx)
			assert.NoError(t, err)
			assert.Len(t, it.Bytes, 200<<10)
			_, err = s.Next(ctx)
			assert.ErrorContains(t, err, failure.CorruptedData)
			return err
		}}))
		req := h.Request(capNamed("one")).Send(body[:2]...)
		synctest.Wait()
		req.Send(bad).WantErr(failure.CorruptedData, failure.Internal)
		h.WantIdle()
	})
	virtual(t, "R-3.32 of a stream that the handler has closed, and after its return", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", func(ctx context.Context, r *bifaci.Request) error {
			s, err := firstStream(ctx, r)
			if err != nil {
				return err
			}
			if err := s.Close(); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		}}))
		h.Request(capNamed("one")).Send(body...).WantErr(failure.CorruptedData, failure.Internal)
		h.WantIdle()
	})
	virtual(t, "R-3.37 nothing but the first breach counts", func(t *testing.T) {
		g := newGate()
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, served{"one", g.handle}))
		req := h.Request(capNamed("one"))
		r := <-g.started
		req.Send(body[0], cartridgetest.ChunkFrame("s", 0, big[:len(big)-1]), bad)
		<-r.Context().Done()
		g.open()
		req.WantErr(failure.DecodeError, failure.Internal)
	})
}
