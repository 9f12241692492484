package bifaci_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// logLines is a logger's output that can be read while it is written.
type logLines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logLines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func (l *logLines) logger(level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: level}))
}

func TestResponseStreamIsTheRuntimes(t *testing.T) {
	for name, c := range map[string]struct{ registered, requested, media string }{
		"declared":                    {workCap, workCap, "media:enc=utf-8"},
		"declared, as requested":      {workCap, `cap:in="media:enc=utf-8";out="media:";work`, "media:"},
		"none":                        {`cap:effect=none;in="media:enc=utf-8";pass`, `cap:effect=none;in="media:enc=utf-8";pass`, "media:enc=utf-8"},
		"patch":                       {`cap:effect=patch;in="media:image;raw";out="media:image;jpeg";shrink`, `cap:effect=patch;in="media:image;raw";out="media:image;jpeg";shrink`, "media:image;jpeg"},
		"identity, which is declared": {"cap:effect=none", "cap:effect=none", "media:"},
	} {
		t.Run("R-6.30 media of the answer, effect "+name, func(t *testing.T) {
			h := cartridgetest.Start(t, cartridgetest.Serving(t, c.registered, func(_ context.Context, r *bifaci.Request) error {
				return r.Output().Start()
			}))
			req := h.Request(c.requested).End()
			assert.Equal(t, c.media, req.WantStream().MediaURN)
			req.WantEnd()
		})
	}
	t.Run("R-6.30 a media that cannot be told ends the request before the handler", func(t *testing.T) {
		c := cartridgetest.Serving(t, workCap, func(context.Context, *bifaci.Request) error { return nil })
		require.NoError(t, c.Register(workCap, func() bifaci.Op {
			t.Error("the factory was called")
			return failingOp{}
		}))
		h := cartridgetest.Start(t, c)
		open := `cap:?effect;in="media:enc=utf-8";out="media:enc=utf-8";work`
		got := h.Request(open).End().WantErr("HANDLER_ERROR", failure.Internal)
		assert.Contains(t, got.Message, open)
		h.WantIdle()
	})
	t.Run("R-6.31 R-3.5 a fresh uuid as stream id, and the ids of the request on every frame", func(t *testing.T) {
		h := generous(t, 32, func(ctx context.Context, r *bifaci.Request) error {
			out := r.Output()
			return errors.Join(out.Log("info", failure.Internal, "hello"), out.EmitItem(ctx, 1, nil), out.Progress(0.5, ""))
		})
		seen := map[string]bool{}
		for _, ids := range [][2]frame.ID{{frame.NewUUID(), frame.UintID(5)}, {frame.UintID(1), frame.NewUUID()}, {frame.UintID(0), {}}} {
			req := h.Request(workCap, cartridgetest.WithID(ids[0]), cartridgetest.WithRouting(ids[1])).End()
			req.WantItems(uint64(1)).WantEnd()
			for _, f := range req.Frames() {
				assert.Equal(t, ids[0], f.ID(), f)
				assert.Equal(t, ids[1], f.Routing(), f)
			}
			id := req.WantStream().ID
			assert.Regexp(t, `^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, id)
			assert.False(t, seen[id], "the stream id is not fresh")
			seen[id] = true
		}
	})
}

func TestOutputStart(t *testing.T) {
	for name, c := range map[string]struct {
		start     func(*bifaci.Request) (*bifaci.OutputStream, error)
		sequence  bool
		unbounded bool
		meta      map[string]any
	}{
		"bounded scalar":     {func(r *bifaci.Request) (*bifaci.OutputStream, error) { return r.Start() }, false, false, nil},
		"bounded sequence":   {func(r *bifaci.Request) (*bifaci.OutputStream, error) { return r.Start(bifaci.Sequence) }, true, false, nil},
		"unbounded scalar":   {func(r *bifaci.Request) (*bifaci.OutputStream, error) { return r.StartUnbounded() }, false, true, nil},
		"unbounded sequence": {func(r *bifaci.Request) (*bifaci.OutputStream, error) { return r.StartUnbounded(bifaci.Sequence) }, true, true, nil},
		"with meta": {func(r *bifaci.Request) (*bifaci.OutputStream, error) {
			return r.Start(bifaci.WithMeta(frame.Meta{"rate": 8000}))
		}, false, false, map[string]any{"rate": uint64(8000)}},
	} {
		virtual(t, "R-6.32 L16 "+name+": STREAM_START at once", func(t *testing.T) {
			h := worker(t, 4, func(ctx context.Context, r *bifaci.Request) error {
				if _, err := c.start(r); err != nil {
					return err
				}
				s, err := firstStream(ctx, r)
				if err != nil {
					return err
				}
				_, err = s.CollectBytes(ctx)
				return err
			})
			req := h.Request(workCap)
			synctest.Wait()
			got := req.WantStream()
			assert.Equal(t, c.sequence, got.Sequence)
			assert.Equal(t, c.unbounded, got.Unbounded)
			assert.Equal(t, c.meta, got.Meta)
			start := req.Frames()[0]
			assert.True(t, start.Has(frame.KeyIsSequence), "is_sequence is always written")
			assert.Equal(t, c.unbounded, start.Has(frame.KeyUnbounded))
			req.Chunk("go on").End()
			req.WantEnd()
			end := req.Frames()[1]
			require.Equal(t, frame.TypeStreamEnd, end.Type())
			assert.Equal(t, !c.unbounded, end.Has(frame.KeyChunkCount))
		})
	}
	t.Run("R-6.32 a second start of either kind", func(t *testing.T) {
		starts := []func(*bifaci.OutputStream) error{
			func(o *bifaci.OutputStream) error { return o.Start() },
			func(o *bifaci.OutputStream) error { return o.Start(bifaci.Sequence) },
			func(o *bifaci.OutputStream) error { return o.StartUnbounded() },
		}
		firsts := append(starts, func(o *bifaci.OutputStream) error { _, err := o.Write(nil); return err },
			func(o *bifaci.OutputStream) error { return o.EmitItem(t.Context(), 1, nil) })
		for _, first := range firsts {
			h := generous(t, 4, func(_ context.Context, r *bifaci.Request) error {
				if err := first(r.Output()); err != nil {
					return err
				}
				for i, second := range starts {
					if err := second(r.Output()); !errors.Is(err, bifaci.ErrStarted) {
						return fmt.Errorf("start %d: %v", i, err)
					}
				}
				return nil
			})
			req := h.Request(workCap).End()
			req.Collect()
			req.WantEnd()
			assert.Equal(t, 1, strings.Count(types(req), "stream_start"))
		}
	})
	for name, c := range map[string]struct {
		call     func(context.Context, *bifaci.OutputStream) error
		sequence bool
		chunks   uint64
	}{
		"Write":            {func(_ context.Context, o *bifaci.OutputStream) error { _, err := o.Write([]byte("x")); return err }, false, 1},
		"Write of nothing": {func(_ context.Context, o *bifaci.OutputStream) error { _, err := o.Write(nil); return err }, false, 0},
		"EmitCBOR":         {func(ctx context.Context, o *bifaci.OutputStream) error { return o.EmitCBOR(ctx, 1) }, false, 1},
		"EmitCBOR of empty bytes": {func(ctx context.Context, o *bifaci.OutputStream) error {
			return o.EmitCBOR(ctx, []byte{})
		}, false, 0},
		"EmitCBOR of an empty text": {func(ctx context.Context, o *bifaci.OutputStream) error { return o.EmitCBOR(ctx, "") }, false, 0},
		"EmitCBOR of an empty map": {func(ctx context.Context, o *bifaci.OutputStream) error {
			return o.EmitCBOR(ctx, map[string]any{})
		}, false, 0},
		"EmitItem":              {func(ctx context.Context, o *bifaci.OutputStream) error { return o.EmitItem(ctx, 1, nil) }, true, 1},
		"EmitItem of no bytes":  {func(ctx context.Context, o *bifaci.OutputStream) error { return o.EmitItem(ctx, []byte{}, nil) }, true, 1},
		"EmitAll of one":        {func(ctx context.Context, o *bifaci.OutputStream) error { return o.EmitAll(ctx, one) }, true, 1},
		"a write via io.Writer": {func(_ context.Context, o *bifaci.OutputStream) error { _, err := fmt.Fprint(o, "x"); return err }, false, 1},
	} {
		t.Run("R-6.33 implicit start by "+name, func(t *testing.T) {
			h := generous(t, 4, func(ctx context.Context, r *bifaci.Request) error { return c.call(ctx, r.Output()) })
			req := h.Request(workCap).End()
			got := req.WantStream()
			assert.Equal(t, c.sequence, got.Sequence)
			assert.False(t, got.Unbounded)
			req.Collect()
			req.WantEnd()
			frames := req.Frames()
			end := frames[len(frames)-2]
			require.Equal(t, frame.TypeStreamEnd, end.Type())
			assert.Equal(t, c.chunks, end.Uint(frame.KeyChunkCount))
		})
	}
}

// one is a sequence of one value.
func one(yield func(any, error) bool) { yield(1, nil) }

func TestOutputMode(t *testing.T) {
	for name, c := range map[string]struct {
		opts  []bifaci.StartOption
		wrong []func(context.Context, *bifaci.OutputStream) error
		right func(context.Context, *bifaci.OutputStream) error
	}{
		"scalar": {nil, []func(context.Context, *bifaci.OutputStream) error{
			func(ctx context.Context, o *bifaci.OutputStream) error { return o.EmitItem(ctx, "wrong", nil) },
			func(ctx context.Context, o *bifaci.OutputStream) error { return o.EmitAll(ctx, one) },
		}, func(_ context.Context, o *bifaci.OutputStream) error { _, err := o.Write([]byte("right")); return err }},
		"sequence": {[]bifaci.StartOption{bifaci.Sequence}, []func(context.Context, *bifaci.OutputStream) error{
			func(ctx context.Context, o *bifaci.OutputStream) error {
				_, err := o.Write([]byte("wrong"))
				return err
			},
			func(ctx context.Context, o *bifaci.OutputStream) error { _, err := o.Write(nil); return err },
			func(ctx context.Context, o *bifaci.OutputStream) error { return o.EmitCBOR(ctx, "wrong") },
			func(ctx context.Context, o *bifaci.OutputStream) error { return o.EmitCBOR(ctx, []byte("wrong")) },
		}, func(ctx context.Context, o *bifaci.OutputStream) error { return o.EmitItem(ctx, "right", nil) }},
	} {
		t.Run("R-6.34 a "+name+" refuses the other mode, sends nothing of it and goes on", func(t *testing.T) {
			h := generous(t, 4, func(ctx context.Context, r *bifaci.Request) error {
				out, err := r.Start(c.opts...)
				if err != nil {
					return err
				}
				for i, wrong := range c.wrong {
					if err := wrong(ctx, out); !errors.Is(err, bifaci.ErrStreamMode) {
						return fmt.Errorf("wrong call %d: %v", i, err)
					}
				}
				return c.right(ctx, out)
			})
			req := h.Request(workCap).End()
			req.WantItems("right")
			req.WantEnd()
		})
	}
}

func TestStreamingContract(t *testing.T) {
	type start func(*bifaci.OutputStream) error
	bounded := func(o *bifaci.OutputStream) error { return o.Start() }
	unbounded := func(o *bifaci.OutputStream) error { return o.StartUnbounded() }
	item := func(o *bifaci.OutputStream) error { return o.EmitItem(context.Background(), "x", nil) }
	serve := func(t *testing.T, out *manifest.Output, s start, opts ...bifaci.Option) (*cartridgetest.Host, chan error) {
		t.Helper()
		def := manifest.NewCap(workCap, "Work", "work")
		if out != nil {
			def = def.WithOutput(*out)
		}
		c, err := bifaci.New(manifest.New("contract", "1.0.0", "a contract", manifest.DefaultGroup(manifest.IdentityCap(), def)), opts...)
		require.NoError(t, err)
		errs := make(chan error, 8)
		require.NoError(t, c.RegisterFunc(workCap, func(_ context.Context, r *bifaci.Request) error {
			errs <- s(r.Output())
			return nil
		}))
		return cartridgetest.Start(t, c), errs
	}
	bytesOut := manifest.NewOutput(textMedia, "bytes")
	listOut := manifest.NewOutput(textMedia, "items").Sequence(true)
	liveOut := manifest.NewOutput(textMedia, "live").Streaming(true)
	for name, c := range map[string]struct {
		out   *manifest.Output
		start start
		want  error
	}{
		"unbounded without streaming":     {&bytesOut, unbounded, bifaci.ErrNotStreaming},
		"a sequence where bytes are":      {&bytesOut, item, bifaci.ErrStreamMode},
		"bytes where a sequence is":       {&listOut, bounded, bifaci.ErrStreamMode},
		"unbounded with streaming":        {&liveOut, unbounded, nil},
		"bounded where streaming may be":  {&liveOut, bounded, nil},
		"as declared":                     {&bytesOut, bounded, nil},
		"items as declared":               {&listOut, item, nil},
		"anything without a definition":   {nil, unbounded, nil},
		"a sequence without a definition": {nil, item, nil},
	} {
		t.Run("R-6.35 checks on: "+name, func(t *testing.T) {
			h, errs := serve(t, c.out, c.start, bifaci.WithContractChecks(true))
			req := h.Request(workCap).End()
			err := <-errs
			req.Collect()
			req.WantEnd()
			if c.want == nil {
				assert.NoError(t, err)
				assert.Contains(t, types(req), "stream_start")
				return
			}
			assert.ErrorIs(t, err, c.want)
			assert.Equal(t, "end", types(req), "nothing is sent of a refused start")
		})
		t.Run("R-6.35 checks off: "+name, func(t *testing.T) {
			var lines logLines
			h, errs := serve(t, c.out, c.start, bifaci.WithLogger(lines.logger(slog.LevelWarn)))
			for range 3 {
				req := h.Request(workCap).End()
				assert.NoError(t, <-errs)
				req.Collect()
				req.WantEnd()
				assert.Contains(t, types(req), "stream_start", "it is sent unchanged")
			}
			h.CloseInput()
			require.NoError(t, h.Wait())
			reports := strings.Count(lines.String(), "contract")
			if c.want == nil {
				assert.Zero(t, reports, lines.String())
			} else {
				assert.Equal(t, 1, reports, "once per cap:\n%s", lines.String())
			}
		})
	}
}

func TestDataCallsWaitForCredit(t *testing.T) {
	// stuck serves a handler that uses the window of 1 up and then waits in another data call, whose error it hands out.
	stuck := func(t *testing.T) (*cartridgetest.Host, *cartridgetest.Request, chan error) {
		t.Helper()
		errs := make(chan error, 1)
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().EmitItem(ctx, "uses the window up", nil); err != nil {
				return err
			}
			// Only the end of the request may end the wait, not the context of the call.
			err := r.Output().EmitItem(context.WithoutCancel(ctx), "waits", nil)
			errs <- err
			return err
		})
		req := h.Request(workCap)
		req.WantItems("uses the window up")
		wantStill(t, req)
		require.Empty(t, errs)
		return h, req, errs
	}
	virtual(t, "R-6.36 L9.1 they go on with the next grant", func(t *testing.T) {
		_, req, errs := stuck(t)
		req.Grant(1)
		req.WantItems("waits")
		assert.NoError(t, <-errs)
		req.WantEnd()
	})
	virtual(t, "R-6.36 L13 a cancel releases them with its cause", func(t *testing.T) {
		_, req, errs := stuck(t)
		req.Cancel(failure.UserCancel())
		var cancelled *failure.CancelledError
		require.ErrorAs(t, <-errs, &cancelled)
		req.WantErr("CANCELLED", failure.User)
	})
	virtual(t, "R-6.36 R-3.50 a poison releases them with its cause", func(t *testing.T) {
		_, req, errs := stuck(t)
		req.Send(cartridgetest.StreamEndFrame("unknown", 0))
		var fault *failure.Failure
		require.ErrorAs(t, <-errs, &fault)
		assert.Equal(t, "PROTOCOL_ERROR", fault.Code)
		req.WantErr("PROTOCOL_ERROR", failure.Internal)
	})
	virtual(t, "R-6.36 R-2.30 L13 the end of input releases them", func(t *testing.T) {
		h, req, errs := stuck(t)
		req.End()
		h.CloseInput()
		var closed *failure.Failure
		require.ErrorAs(t, <-errs, &closed)
		assert.Equal(t, "CONNECTION_CLOSED", closed.Code)
		req.WantErr("CONNECTION_CLOSED", failure.Environment)
		assert.NoError(t, h.Wait())
	})
	virtual(t, "R-6.36 R-10.16 the end of the request releases a call that a goroutine still makes", func(t *testing.T) {
		errs := make(chan error, 1)
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().EmitItem(ctx, "uses the window up", nil); err != nil {
				return err
			}
			go func() { errs <- r.Output().EmitItem(context.WithoutCancel(ctx), "never sent", nil) }()
			synctest.Wait()
			return errors.New("given up")
		})
		req := h.Request(workCap)
		req.WantItems("uses the window up")
		req.WantErr("HANDLER_ERROR", failure.Internal)
		assert.Error(t, <-errs)
		assert.Len(t, chunks(req), 1)
	})
	virtual(t, "R-6.36 the end of the call's own context ends the call alone", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().EmitItem(ctx, "uses the window up", nil); err != nil {
				return err
			}
			impatient, cancel := context.WithCancelCause(ctx)
			cancel(errors.New("no patience"))
			return r.Output().EmitItem(impatient, "never sent", nil)
		})
		req := h.Request(workCap)
		req.WantItems("uses the window up")
		assert.Equal(t, "no patience", req.WantErr("HANDLER_ERROR", failure.Internal).Message)
	})
}
