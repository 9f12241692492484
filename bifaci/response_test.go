package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

// told is one step of reading an answer: an item, a LOG, or how it ended.
type told struct {
	text string
	err  error
}

// reader serves a handler that reads the answer of a peer call to its end and tells what it reads, one by one. The handler itself
// succeeds whatever the answer is.
func reader(t *testing.T, window uint64) (*cartridgetest.Host, *cartridgetest.Request, *cartridgetest.PeerCall, <-chan told) {
	t.Helper()
	steps := make(chan told, 4096)
	h, req, call := caller(t, window, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
		for {
			it, err := c.Response().Next(ctx)
			if err != nil {
				_, again := c.Response().Next(ctx)
				if !errors.Is(again, err) {
					return fmt.Errorf("the end is not sticky: %w, then %w", err, again)
				}
				steps <- told{err: err}
				return nil
			}
			if it.Log != nil {
				steps <- told{text: "log " + it.Log.Level + " " + it.Log.Message}
				continue
			}
			stream := "END"
			if it.Stream != nil {
				stream = it.Stream.ID
			}
			steps <- told{text: stream + " " + string(it.Data.Bytes)}
		}
	})
	return h, req, call, steps
}

// next is the next step when everybody waits.
func next(t *testing.T, steps <-chan told) told {
	t.Helper()
	synctest.Wait()
	select {
	case s := <-steps:
		return s
	default:
		t.Fatal("the reader still waits")
		return told{}
	}
}

// wantSteps compares the next steps, none of which is the end.
func wantSteps(t *testing.T, steps <-chan told, want ...string) {
	t.Helper()
	for _, w := range want {
		got := next(t, steps)
		require.NoError(t, got.err)
		require.Equal(t, w, got.text)
	}
}

// wantWaiting makes sure that the reader has nothing more to tell.
func wantWaiting(t *testing.T, steps <-chan told) {
	t.Helper()
	synctest.Wait()
	require.Empty(t, steps)
}

// wantFailure makes sure of an error's identity.
func wantFailure(t *testing.T, err error, code string, class failure.Class) *failure.Failure {
	t.Helper()
	require.Error(t, err)
	got := failure.From(err)
	require.Equal(t, code, got.Code, "%v", err)
	require.Equal(t, class, got.Class, "%v", err)
	return got
}

func TestAnswerInOrder(t *testing.T) {
	virtual(t, "R-7.10 items and LOGs come in order of arrival, a LOG before any data", func(t *testing.T) {
		_, req, call, steps := reader(t, 32)
		call.Log("queued", failure.Internal, "wait")
		wantSteps(t, steps, "log queued wait")
		call.Stream("a", textMedia).Chunk("1")
		call.Log("info", failure.Internal, "between")
		b := call.Stream("b", textMedia, cartridgetest.Sequence).Chunk("2")
		wantSteps(t, steps, "a 1", "log info between", "b 2")
		b.Item("text", nil)
		wantSteps(t, steps, "b text")
		call.End()
		require.Equal(t, io.EOF, next(t, steps).err)
		req.WantEnd()
	})
	virtual(t, "R-7.10 an item has its value, its meta and its stream", func(t *testing.T) {
		got := make(chan bifaci.ResponseItem, 1)
		_, req, call := caller(t, 4, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			it, err := c.Response().Next(ctx)
			if err != nil {
				return err
			}
			got <- it
			return answered(ctx, c)
		})
		call.Stream("words", textMedia, cartridgetest.Sequence, cartridgetest.Unbounded, cartridgetest.Meta(map[string]any{"lang": "en"})).
			Item(map[string]any{"w": "hello"}, map[string]any{"at": 3})
		it := <-got
		v, err := it.Data.Value()
		require.NoError(t, err)
		assert.Equal(t, map[string]any{"w": "hello"}, textKeys(v))
		assert.Equal(t, frame.Meta{"at": int64(3)}, it.Data.Meta)
		require.NotNil(t, it.Stream)
		assert.Equal(t, "words", it.Stream.ID)
		assert.Equal(t, textMedia, it.Stream.MediaURN)
		assert.True(t, it.Stream.IsSequence)
		assert.True(t, it.Stream.Unbounded)
		meta, err := frame.DecodeMeta(it.Stream.Meta)
		require.NoError(t, err)
		assert.Equal(t, frame.Meta{"lang": "en"}, meta)
		call.End()
		req.WantEnd()
	})
	virtual(t, "R-7.11 STREAM_END is not the end: a LOG and another stream may follow", func(t *testing.T) {
		_, req, call, steps := reader(t, 8)
		s := call.Stream("a", textMedia).Chunk("1")
		s.End()
		wantSteps(t, steps, "a 1")
		wantWaiting(t, steps)
		call.Log("info", failure.Internal, "not yet")
		wantSteps(t, steps, "log info not yet")
		call.Stream("b", textMedia).Chunk("2")
		wantSteps(t, steps, "b 2")
		call.End()
		require.Equal(t, io.EOF, next(t, steps).err)
		req.WantEnd()
	})
	virtual(t, "R-7.11 ERR after STREAM_END is an error", func(t *testing.T) {
		_, req, call, steps := reader(t, 8)
		call.Stream("a", textMedia).Chunk("1").End()
		wantSteps(t, steps, "a 1")
		call.Fail("LATE", failure.Environment, "after all")
		wantFailure(t, next(t, steps).err, "LATE", failure.Environment)
		req.WantEnd()
	})
	virtual(t, "R-7.17 END's payload is a last item", func(t *testing.T) {
		_, req, call, steps := reader(t, 8)
		call.Stream("a", textMedia).Chunk("1").End()
		call.Send(cartridgetest.EndFrame(true).With(frame.KeyPayload, []byte("the rest")))
		wantSteps(t, steps, "a 1", "END the rest")
		require.Equal(t, io.EOF, next(t, steps).err)
		req.WantEnd()
	})
	virtual(t, "R-7.17 an empty payload is none", func(t *testing.T) {
		_, req, call, steps := reader(t, 8)
		call.Send(cartridgetest.EndFrame(true).With(frame.KeyPayload, []byte{}))
		require.Equal(t, io.EOF, next(t, steps).err)
		req.WantEnd()
	})
}

// textKeys makes the maps of a decoded value comparable with literals.
func textKeys(v any) any {
	switch m := v.(type) {
	case map[any]any:
		p := map[string]any{}
		for k, e := range m {
			p[fmt.Sprint(k)] = textKeys(e)
		}
		return p
	case frame.Meta:
		return map[string]any(m)
	}
	return v
}

func TestAnswerEnds(t *testing.T) {
	end := func(meta map[string]any) cartridgetest.Frame {
		f := cartridgetest.EndFrame(false)
		if meta != nil {
			f = f.With(frame.KeyMeta, meta)
		}
		return f
	}
	for name, f := range map[string]cartridgetest.Frame{
		"without meta":      end(nil),
		"without exit_code": end(map[string]any{"progress": 1.0}),
		"with exit_code 1":  end(map[string]any{"exit_code": uint64(1), "progress": 1.0}),
		"with exit_code -1": end(map[string]any{"exit_code": -1}),
	} {
		virtual(t, "R-7.12 END "+name+" is END_WITHOUT_SUCCESS", func(t *testing.T) {
			_, req, call, steps := reader(t, 8)
			call.Stream("a", textMedia).Chunk("1").End()
			call.Send(f)
			wantSteps(t, steps, "a 1")
			wantFailure(t, next(t, steps).err, failure.EndWithoutSuccess, failure.Internal)
			req.WantEnd()
		})
	}
	virtual(t, "R-7.12 what a successful END says can be read after it", func(t *testing.T) {
		status := make(chan frame.EndStatus, 1)
		_, req, call := caller(t, 4, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			err := answered(ctx, c)
			status <- c.Response().Status()
			return err
		})
		call.Send(end(map[string]any{"exit_code": uint64(0), "progress": 0.5, "message": "half of it"}))
		got := <-status
		assert.Equal(t, 0.5, got.Progress)
		assert.Equal(t, "half of it", got.Message)
		req.WantEnd()
	})
	virtual(t, "R-7.13 ERR keeps code, class, message and argument, behind what came before it", func(t *testing.T) {
		_, req, call, steps := reader(t, 8)
		call.Chunk("1")
		e := cartridgetest.ErrFrame("NO_VOICE", failure.Input, "nothing to hear")
		e.Meta()["arg_urn"] = "media:audio"
		call.Send(e)
		wantSteps(t, steps, "body 1")
		var remote *failure.Remote
		require.ErrorAs(t, next(t, steps).err, &remote)
		assert.Equal(t, failure.Failure{Code: "NO_VOICE", Class: failure.Input, Message: "nothing to hear", ArgURN: "media:audio"}, remote.Failure)
		req.WantEnd()
	})
	virtual(t, "R-7.13 a handler that returns it passes it on unchanged", func(t *testing.T) {
		_, req, call := caller(t, 4, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			return fmt.Errorf("asking elsewhere: %w", answered(ctx, c))
		})
		call.Fail("NO_VOICE", failure.Input, "nothing to hear")
		assert.Equal(t, "nothing to hear", req.WantErr("NO_VOICE", failure.Input).Message)
	})
	for name, f := range map[string]cartridgetest.Frame{
		"an ERR without a code":             cartridgetest.ErrFrame("", failure.Input, "x"),
		"an ERR without a message":          cartridgetest.ErrFrame("X", failure.Input, " "),
		"an ERR of an unknown class":        cartridgetest.ErrFrame("X", "weather", "x"),
		"an ERR without meta":               cartridgetest.ErrFrame("X", failure.Input, "x").Without(frame.KeyMeta),
		"a LOG without a level":             cartridgetest.LogFrame("", failure.Internal, "x"),
		"a LOG of an unknown class":         cartridgetest.LogFrame("info", "weather", "x"),
		"a LOG without a message":           cartridgetest.LogFrame("info", failure.Internal, ""),
		"R-7.21 progress that is no number": cartridgetest.LogFrame("x", "", "x").With(frame.KeyMeta, map[string]any{"level": "progress", "message": "m", "progress": "much"}),
		"R-7.21 progress without a number":  cartridgetest.LogFrame("x", "", "x").With(frame.KeyMeta, map[string]any{"level": "progress", "message": "m"}),
	} {
		virtual(t, "R-7.13 "+name+" is a PROTOCOL_ERROR of the call", func(t *testing.T) {
			_, req, call, steps := reader(t, 8)
			call.Send(f)
			got := wantFailure(t, next(t, steps).err, failure.ProtocolError, failure.Internal)
			if name == "R-7.21 progress that is no number" {
				assert.Contains(t, got.Message, "progress is text, want a number")
			}
			reason := call.WantCancel()
			assert.Equal(t, failure.Aborted, reason.Code)
			assert.Equal(t, failure.Internal, reason.Class)
			req.WantEnd()
		})
	}
}

func TestAnswerViolations(t *testing.T) {
	start := cartridgetest.StartFrame("a", textMedia)
	sequence := start.With(frame.KeyIsSequence, true)
	chunk := func(i uint64, payload []byte) cartridgetest.Frame { return cartridgetest.ChunkFrame("a", i, payload) }
	one := chunk(0, cartridgetest.Bytes("x"))
	type frames []cartridgetest.Frame
	for _, c := range []struct {
		name, code string
		send       frames
	}{
		{"R-3.30 a stream without an id", failure.ProtocolError, frames{start.Without(frame.KeyStreamID)}},
		{"R-3.30 a stream without a media URN", failure.ProtocolError, frames{start.Without(frame.KeyMediaURN)}},
		{"R-3.30 a stream that starts twice", failure.ProtocolError, frames{start, start}},
		{"R-3.31 a chunk of no stream", failure.ProtocolError, frames{one}},
		{"R-3.31 a chunk without a payload", failure.ProtocolError, frames{start, one.Without(frame.KeyPayload)}},
		{"R-3.31 a chunk after its stream", failure.ProtocolError, frames{start, cartridgetest.StreamEndFrame("a", 0), one}},
		{"R-3.31 the end of no stream", failure.ProtocolError, frames{cartridgetest.StreamEndFrame("a", 0)}},
		{"R-3.32 a wrong checksum", failure.CorruptedData, frames{start, one.With(frame.KeyChecksum, uint64(1))}},
		{"R-3.32 a wrong checksum of a large chunk", failure.CorruptedData,
			frames{start, chunk(0, cartridgetest.Bytes(string(make([]byte, 100_000)))).With(frame.KeyChecksum, uint64(1))}},
		{"R-3.33 a gap", failure.ProtocolError, frames{start, chunk(1, cartridgetest.Bytes("x"))}},
		{"R-3.34 a chunk beyond the window", failure.CreditViolation,
			frames{start, one, chunk(1, cartridgetest.Bytes("x")), chunk(2, cartridgetest.Bytes("x"))}},
		{"R-3.35 a wrong chunk_count", failure.ProtocolError, frames{start, one, cartridgetest.StreamEndFrame("a", 2)}},
		{"R-3.36 an end inside an item", failure.DecodeError,
			frames{sequence, chunk(0, []byte{0x43, 1}), cartridgetest.StreamEndFrame("a", 1)}},
		{"R-3.37 a payload that is two values", failure.DecodeError, frames{start, chunk(0, []byte{0x01, 0x02})}},
		{"R-3.37 a sequence that is no CBOR", failure.DecodeError, frames{sequence, chunk(0, []byte{0xff})}},
		{"R-3.38 END while a stream is open", failure.ProtocolError, frames{start, cartridgetest.EndFrame(true)}},
	} {
		virtual(t, "R-7.14 "+c.name+" fails the call and not the request", func(t *testing.T) {
			release := make(chan struct{})
			result := make(chan error, 1)
			h, req, call := caller(t, 2, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
				<-release
				var err error
				for err == nil {
					_, err = c.Response().Next(ctx)
				}
				result <- err
				return nil
			})
			call.Send(c.send...)
			synctest.Wait()
			close(release)
			wantFailure(t, <-result, c.code, failure.Internal)
			reason := call.WantCancel()
			assert.Equal(t, failure.Aborted, reason.Code)
			assert.Equal(t, failure.Internal, reason.Class)
			assert.False(t, reason.ForceKill)
			req.WantEnd()
			if c.code == failure.CreditViolation {
				assert.Equal(t, uint64(1), h.Probe().Drops, "the chunk is counted")
			}
		})
	}
	virtual(t, "R-7.14 R-3.39 more streams than a request may have", func(t *testing.T) {
		_, req, call, steps := reader(t, 2)
		for i := range 257 {
			call.Send(cartridgetest.StartFrame(fmt.Sprint(i), textMedia))
		}
		wantFailure(t, next(t, steps).err, failure.ProtocolError, failure.Internal)
		call.WantCancel()
		req.WantEnd()
	})
}

func TestAnswerIsLost(t *testing.T) {
	virtual(t, "R-7.15 R-2.30 by the end of the link: an error behind what came before it", func(t *testing.T) {
		h, req, call, steps := reader(t, 8)
		req.End()
		call.Stream("a", textMedia).Chunk("1").End()
		h.CloseInput()
		wantSteps(t, steps, "a 1")
		wantFailure(t, next(t, steps).err, failure.ConnectionClosed, failure.Environment)
		req.WantEnd()
		require.NoError(t, h.Wait())
	})
	virtual(t, "R-7.15 R-2.32 by broken input", func(t *testing.T) {
		h, req, _, steps := reader(t, 8)
		h.SendBytes([]byte{0, 0, 0, 1, 0xff})
		wantFailure(t, next(t, steps).err, failure.ProtocolError, failure.Internal)
		req.WantErr(failure.ProtocolError, failure.Internal)
		require.Error(t, h.Wait())
	})
	virtual(t, "R-7.15 R-2.33 by an output that fails", func(t *testing.T) {
		h, _, _, steps := reader(t, 8)
		gone := errors.New("the host is gone")
		h.BreakOutput(gone)
		h.Send(cartridgetest.HeartbeatFrame(nil)) // its answer is the write that fails
		got := next(t, steps).err
		require.ErrorIs(t, got, bifaci.ErrOutputClosed)
		require.ErrorIs(t, got, gone)
		require.ErrorIs(t, h.Wait(), gone)
	})
	virtual(t, "R-7.15 by a cancel of the request, and what was not read is gone", func(t *testing.T) {
		release := make(chan struct{})
		result := make(chan error, 1)
		_, req, call := caller(t, 8, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			<-release
			result <- answered(ctx, c)
			return nil
		})
		call.Stream("a", textMedia).Chunk("1")
		req.Cancel(failure.UserCancel())
		call.WantCancel()
		close(release)
		wantFailure(t, <-result, failure.Cancelled, failure.User)
		req.WantErr(failure.Cancelled, failure.User)
	})
	virtual(t, "R-7.15 a reader's context that ends because of an io.EOF elsewhere is no clean end", func(t *testing.T) {
		result := make(chan error, 1)
		_, req, call := caller(t, 8, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			reading, cancel := context.WithCancelCause(ctx)
			cancel(fmt.Errorf("the browser went away: %w", io.EOF))
			_, err := c.Response().CollectBytes(reading)
			result <- err
			return answered(ctx, c)
		})
		require.ErrorContains(t, <-result, "the browser went away")
		call.End()
		req.WantEnd()
	})
}

func TestAnswerLogsAreBounded(t *testing.T) {
	virtual(t, "R-7.16 1024 are kept, progress goes first, then the oldest, data never", func(t *testing.T) {
		release := make(chan struct{})
		logs := make(chan string, 4096)
		data := make(chan string, 8)
		h, req, call := caller(t, 8, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			<-release
			for it, err := range c.Response().Items(ctx) {
				if err != nil {
					return err
				}
				if it.Log != nil {
					logs <- it.Log.Message
					continue
				}
				data <- string(it.Data.Bytes)
			}
			close(logs)
			close(data)
			return nil
		})
		progress := func(message string) {
			call.Send(cartridgetest.LogFrame("", "", "").With(frame.KeyMeta, map[string]any{"level": "progress", "message": message, "progress": 0.5}))
		}
		a := call.Stream("a", textMedia).Chunk("first")
		progress("p0")
		progress("p1")
		for i := range 1022 {
			call.Log("info", failure.Internal, fmt.Sprint(i))
		}
		call.Log("info", failure.Internal, "instead of p0")
		progress("instead of p1")
		call.Log("info", failure.Internal, "instead of progress")
		a.Chunk("second")
		call.Log("info", failure.Internal, "instead of 0")
		assert.Equal(t, uint64(4), h.Probe().Drops, "each loss is counted")
		close(release)
		call.End()
		req.WantEnd()
		var got []string
		for m := range logs {
			got = append(got, m)
		}
		var want []string
		for i := 1; i < 1022; i++ {
			want = append(want, fmt.Sprint(i))
		}
		want = append(want, "instead of p0", "instead of progress", "instead of 0")
		assert.Equal(t, want, got)
		assert.Equal(t, "first", <-data)
		assert.Equal(t, "second", <-data)
	})
}

func TestAnswerCollectors(t *testing.T) {
	// collected is what a collector makes of an answer.
	collected := func(t *testing.T, collect func(context.Context, *bifaci.PeerResponse) (any, error), answer func(*cartridgetest.PeerCall)) (any, error) {
		t.Helper()
		type result struct {
			v   any
			err error
		}
		results := make(chan result, 1)
		_, req, call := caller(t, 8, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			v, err := collect(ctx, c.Response())
			results <- result{v, err}
			return nil
		})
		answer(call)
		got := <-results
		req.WantEnd()
		return got.v, got.err
	}
	bytes := func(ctx context.Context, r *bifaci.PeerResponse) (any, error) { return r.CollectBytes(ctx) }
	value := func(ctx context.Context, r *bifaci.PeerResponse) (any, error) { return r.CollectValue(ctx) }
	for name, collect := range map[string]func(context.Context, *bifaci.PeerResponse) (any, error){"CollectBytes": bytes, "CollectValue": value} {
		virtual(t, "R-7.20 "+name+" fails as soon as a LOG appears", func(t *testing.T) {
			_, err := collected(t, collect, func(p *cartridgetest.PeerCall) { p.Log("warn", failure.Resource, "running hot") })
			require.ErrorContains(t, err, "running hot")
		})
		virtual(t, "R-7.13 "+name+" fails with ERR", func(t *testing.T) {
			_, err := collected(t, collect, func(p *cartridgetest.PeerCall) { p.Chunk("x").Fail("NO", failure.User, "no") })
			wantFailure(t, err, "NO", failure.User)
		})
	}
	virtual(t, "R-7.20 CollectBytes joins all items of all streams and END's payload", func(t *testing.T) {
		got, err := collected(t, bytes, func(p *cartridgetest.PeerCall) {
			p.Stream("a", textMedia).Chunk("1").Chunk("2").End()
			p.Stream("b", textMedia).Item("3", nil).End()
			p.Send(cartridgetest.EndFrame(true).With(frame.KeyPayload, []byte("4")))
		})
		require.NoError(t, err)
		assert.Equal(t, []byte("1234"), got)
	})
	virtual(t, "R-7.20 CollectValue gives the one item", func(t *testing.T) {
		got, err := collected(t, value, func(p *cartridgetest.PeerCall) {
			p.Stream("a", textMedia, cartridgetest.Sequence).Item(42, nil)
			p.End()
		})
		require.NoError(t, err)
		assert.EqualValues(t, 42, got)
	})
	virtual(t, "R-7.20 CollectValue of nothing is ErrStreamEmpty", func(t *testing.T) {
		_, err := collected(t, value, func(p *cartridgetest.PeerCall) { p.End() })
		require.ErrorIs(t, err, bifaci.ErrStreamEmpty)
	})
	virtual(t, "R-7.20 CollectValue of two is an error", func(t *testing.T) {
		_, err := collected(t, value, func(p *cartridgetest.PeerCall) { p.Chunk("1").Chunk("2").End() })
		require.ErrorContains(t, err, "more than one")
	})
}

func TestCollectBytesForwarding(t *testing.T) {
	meta := func(m map[string]any) cartridgetest.Frame {
		return cartridgetest.LogFrame("", "", "").With(frame.KeyMeta, m)
	}
	virtual(t, "R-7.21 R-7.22 progress is mapped into the whole, other LOGs go on as they are", func(t *testing.T) {
		_, req, call := caller(t, 8, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			got, err := c.Response().CollectBytesForwarding(ctx, r.Output(), 0.2, 0.5)
			if err != nil {
				return err
			}
			return r.Output().EmitCBOR(ctx, got)
		})
		for _, p := range []any{0.5, uint64(1), 7.5, -3} {
			call.Send(meta(map[string]any{"level": "progress", "message": "part", "progress": p}))
		}
		call.Chunk("da")
		call.Log("warn", failure.Resource, "running hot")
		call.Send(meta(map[string]any{"level": "info", "message": "too quiet", "attribution_class": "input", "arg_urn": "media:audio"}))
		call.Chunk("ta").End()
		for _, want := range []float64{0.45, 0.7, 0.7, 0.2} {
			m := req.WantLog("progress")
			assert.InDelta(t, want, m["progress"], 1e-9)
			assert.Equal(t, "part", m["message"])
		}
		assert.Equal(t, map[string]any{"level": "warn", "message": "running hot", "attribution_class": "resource"}, req.WantLog("warn"))
		assert.Equal(t, map[string]any{"level": "info", "message": "too quiet", "attribution_class": "input", "arg_urn": "media:audio"}, req.WantLog("info"))
		req.WantItems("data")
		req.WantEnd()
	})
	virtual(t, "R-7.21 an answer that fails", func(t *testing.T) {
		_, req, call := caller(t, 8, func(ctx context.Context, r *bifaci.Request, c *bifaci.PeerCall) error {
			_, err := c.Response().CollectBytesForwarding(ctx, r.Output(), 0, 1)
			return err
		})
		call.Chunk("x").Fail("NO", failure.User, "no")
		req.WantErr("NO", failure.User)
	})
	t.Run("R-7.21 MapProgress clamps", func(t *testing.T) {
		for _, c := range []struct{ v, base, weight, want float64 }{{0, 0, 1, 0}, {1, 0, 1, 1}, {0.5, 0.5, 0.5, 0.75}, {2, 0.1, 0.2, 0.3}, {-1, 0.1, 0.2, 0.1}} {
			assert.InDelta(t, c.want, bifaci.MapProgress(c.v, c.base, c.weight), 1e-12, "%v", c)
		}
	})
}
