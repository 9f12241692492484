package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

func TestSuccess(t *testing.T) {
	t.Run("R-6.45 R-6.80 nothing written: END alone", func(t *testing.T) {
		req := emitting(t, frame.DefaultLimits(), func(context.Context, *bifaci.OutputStream) error { return nil })
		req.WantEnd()
		assert.Equal(t, "end", types(req))
	})
	for name, c := range map[string]struct {
		finish   func(*bifaci.OutputStream)
		progress float64
		message  any
	}{
		"without Finish":       {func(*bifaci.OutputStream) {}, 1, nil},
		"as Finish says":       {func(o *bifaci.OutputStream) { o.Finish(0.25, "a quarter") }, 0.25, "a quarter"},
		"the last call wins":   {func(o *bifaci.OutputStream) { o.Finish(0.1, "first"); o.Finish(0.9, "last") }, 0.9, "last"},
		"without a message":    {func(o *bifaci.OutputStream) { o.Finish(0.5, "") }, 0.5, nil},
		"within 0 and 1":       {func(o *bifaci.OutputStream) { o.Finish(7, "much") }, 1, "much"},
		"below 0":              {func(o *bifaci.OutputStream) { o.Finish(-1, "less") }, 0, "less"},
		"what is not a number": {func(o *bifaci.OutputStream) { o.Finish(math.NaN(), "odd") }, 1, "odd"},
	} {
		t.Run("R-6.46 R-6.47 L3 END's meta, "+name, func(t *testing.T) {
			req := emitting(t, frame.DefaultLimits(), func(_ context.Context, o *bifaci.OutputStream) error {
				c.finish(o)
				_, err := o.Write([]byte("data"))
				return err
			})
			meta := req.WantEnd()
			assert.Equal(t, uint64(0), meta["exit_code"])
			assert.Equal(t, c.progress, meta["progress"])
			assert.Equal(t, c.message, meta["message"])
			assert.NotContains(t, types(req), "log", "progress is no trailing LOG")
			last := req.Terminal()
			assert.True(t, last.Flag(frame.KeyEOF))
		})
	}
	t.Run("R-6.47 L5 LOGs come before END", func(t *testing.T) {
		req := emitting(t, frame.DefaultLimits(), func(ctx context.Context, o *bifaci.OutputStream) error {
			return errors.Join(o.Progress(0.5, "half"), o.EmitItem(ctx, 1, nil), o.Log("info", failure.User, "late"), o.Close(ctx), o.Progress(0.9, "after the stream"))
		})
		req.WantEnd()
		assert.Equal(t, "log stream_start chunk log stream_end log end", types(req))
	})
}

func TestFailures(t *testing.T) {
	t.Run("R-6.80 an error: ERR alone behind what was sent, no STREAM_END, coalesced bytes dropped", func(t *testing.T) {
		req := emitting(t, frame.DefaultLimits(), func(ctx context.Context, o *bifaci.OutputStream) error {
			if err := o.EmitCBOR(ctx, 1); err != nil {
				return err
			}
			if _, err := o.Write([]byte("never sent")); err != nil {
				return err
			}
			return errors.New("broken off")
		})
		req.WantErr("HANDLER_ERROR", failure.Internal)
		assert.Equal(t, "stream_start chunk err", types(req))
	})
	arg := "media:audio"
	for name, c := range map[string]struct {
		err  error
		want failure.Failure
	}{
		"a typed failure":        {failure.New("NO_SPEECH", failure.Input, "silence"), failure.Failure{Code: "NO_SPEECH", Class: failure.Input, Message: "silence"}},
		"with its argument":      {failure.New("NO_SPEECH", failure.Input, "silence").ForArgument(arg), failure.Failure{Code: "NO_SPEECH", Class: failure.Input, Message: "silence", ArgURN: arg}},
		"deep in a chain":        {fmt.Errorf("a: %w", fmt.Errorf("b: %w", failure.New("DEEP", failure.Resource, "down there"))), failure.Failure{Code: "DEEP", Class: failure.Resource, Message: "down there"}},
		"one of several":         {errors.Join(errors.New("plain"), failure.New("JOINED", failure.User, "too")), failure.Failure{Code: "JOINED", Class: failure.User, Message: "too"}},
		"of another package":     {fmt.Errorf("wrapped: %w", quotaError{}), failure.Failure{Code: "QUOTA", Class: failure.Resource, Message: "no more today", ArgURN: arg}},
		"a remote failure":       {&failure.Remote{Failure: *failure.New("THEIRS", failure.Environment, "not mine")}, failure.Failure{Code: "THEIRS", Class: failure.Environment, Message: "not mine"}},
		"any other error":        {fmt.Errorf("open: %w", fs.ErrNotExist), failure.Failure{Code: "HANDLER_ERROR", Class: failure.Internal, Message: "open: file does not exist"}},
		"R-6.83 empty code":      {failure.New("", failure.User, "m"), failure.Failure{Code: "HANDLER_ERROR", Class: failure.User, Message: "m"}},
		"R-6.83 blank message":   {failure.New("C", failure.User, " \t"), failure.Failure{Code: "C", Class: failure.User, Message: "C"}},
		"R-6.83 nothing at all":  {new(failure.Failure), failure.Failure{Code: "HANDLER_ERROR", Class: failure.Internal, Message: "HANDLER_ERROR"}},
		"R-6.83 an error of ''":  {errors.New(""), failure.Failure{Code: "HANDLER_ERROR", Class: failure.Internal, Message: "HANDLER_ERROR"}},
		"R-6.85 a context error": {fmt.Errorf("user cancelled: %w", context.Canceled), failure.Failure{Code: "HANDLER_ERROR", Class: failure.Internal, Message: "user cancelled: context canceled"}},
		"R-6.85 a deadline":      {context.DeadlineExceeded, failure.Failure{Code: "HANDLER_ERROR", Class: failure.Internal, Message: "context deadline exceeded"}},
		"R-6.85 a class that is none": {failure.New("C", failure.Class("operator"), "resource exhausted by user input"),
			failure.Failure{Code: "C", Class: failure.Internal, Message: "resource exhausted by user input"}},
	} {
		t.Run("R-6.82 "+name, func(t *testing.T) {
			req := emitting(t, frame.DefaultLimits(), func(context.Context, *bifaci.OutputStream) error { return c.err })
			got := req.WantErr(c.want.Code, c.want.Class)
			assert.Equal(t, c.want, *got)
		})
	}
	t.Run("R-6.82 the requester's own failure passes on unchanged", func(t *testing.T) {
		h := generous(t, 8, echoes)
		req := h.Request(workCap).Chunk("some")
		req.Send(cartridgetest.ErrFrame("UPSTREAM", failure.Environment, "no more").With(frame.KeyMeta, map[string]any{
			"code": "UPSTREAM", "attribution_class": "environment", "message": "no more", "arg_urn": arg}))
		got := req.WantErr("UPSTREAM", failure.Environment)
		assert.Equal(t, failure.Failure{Code: "UPSTREAM", Class: failure.Environment, Message: "no more", ArgURN: arg}, *got)
	})
	t.Run("R-6.82 a peer's failure passes on unchanged", func(t *testing.T) {
		h := generous(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			answer, err := bifaci.CallBytes(ctx, r.Peer(), workCap)
			if err != nil {
				return err
			}
			_, err = answer.CollectBytes(ctx)
			return fmt.Errorf("asking a colleague: %w", err)
		})
		req := h.Request(workCap)
		h.WantPeerCall(workCap).WantBody().Fail("THEIRS", failure.Resource, "tired")
		got := req.WantErr("THEIRS", failure.Resource)
		assert.Equal(t, "tired", got.Message)
	})
	for _, maxFrame := range []uint64{2000, 100_000, 3_670_016} {
		t.Run(fmt.Sprintf("R-6.84 a message is cut to what a frame of %d holds", maxFrame), func(t *testing.T) {
			message := strings.Repeat("ä€😀", int(maxFrame)/8)
			for cut := range 4 { // on whatever byte of a character the bound falls
				req := emitting(t, limitsWith(func(l *frame.Limits) { l.MaxFrame = maxFrame }), func(context.Context, *bifaci.OutputStream) error {
					return failure.New("LONG", failure.Input, strings.Repeat("x", cut)+message)
				})
				got := req.WantErr("LONG", failure.Input)
				assert.True(t, utf8.ValidString(got.Message))
				assert.Greater(t, len(got.Message), int(maxFrame)*3/4)
				assert.True(t, strings.HasSuffix(got.Message, "(cut)"), got.Message[len(got.Message)-20:])
				assert.True(t, strings.HasPrefix(strings.Repeat("x", cut)+message, strings.TrimSuffix(got.Message, " … (cut)")), "a part of a character is left")
			}
		})
	}
	t.Run("R-6.84 a message that fits is left alone", func(t *testing.T) {
		message := strings.Repeat("m", 1500)
		req := emitting(t, limitsWith(func(l *frame.Limits) { l.MaxFrame = 2000 }), func(context.Context, *bifaci.OutputStream) error {
			return errors.New(message)
		})
		assert.Equal(t, message, req.WantErr("HANDLER_ERROR", failure.Internal).Message)
	})
	virtual(t, "R-6.86 R-8.21 a cancelled request ends with the recorded identity, whatever the handler returns", func(t *testing.T) {
		for _, result := range []error{nil, errors.New("own"), failure.New("OWN", failure.Input, "own"), context.Canceled} {
			h := worker(t, 8, func(ctx context.Context, _ *bifaci.Request) error {
				<-ctx.Done()
				return result
			})
			req := h.Request(workCap).Cancel(failure.CancelReason{Code: "LUNCH", Class: failure.User, Message: "back at one"})
			assert.Equal(t, "LUNCH: back at one", req.WantErr("LUNCH", failure.User).Message)
		}
	})
	virtual(t, "R-6.86 R-3.50 so does a poisoned one", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().Start(); err != nil {
				return err
			}
			<-ctx.Done()
			return nil
		})
		req := h.Request(workCap)
		synctest.Wait()
		req.Send(cartridgetest.StreamEndFrame("unknown", 0))
		req.WantErr("PROTOCOL_ERROR", failure.Internal)
		assert.Equal(t, "stream_start err", types(req), "without a STREAM_END")
	})
}

// quotaError declares its own identity.
type quotaError struct{}

func (quotaError) Error() string               { return "quota" }
func (quotaError) FailureCode() string         { return "QUOTA" }
func (quotaError) FailureClass() failure.Class { return failure.Resource }
func (quotaError) FailureMessage() string      { return "no more today" }
func (quotaError) FailureArgURN() string       { return "media:audio" }

func TestOneTerminal(t *testing.T) {
	t.Run("R-6.81 R-4.11 L4 nothing of a request follows its terminal, however many goroutines go on", func(t *testing.T) {
		for name, result := range map[string]error{"END": nil, "ERR": errors.New("failed")} {
			late := make(chan struct{})
			var senders sync.WaitGroup
			h := generous(t, 8, func(ctx context.Context, r *bifaci.Request) error {
				out := r.Output()
				if err := out.Start(bifaci.Sequence); err != nil {
					return err
				}
				for range 8 {
					senders.Go(func() {
						for range 50 {
							_ = out.EmitItem(context.Background(), "x", nil) // errors are what is expected at the end
							_ = out.Log("info", failure.Internal, "still here")
						}
						<-late
						for range 50 {
							_ = out.EmitItem(context.Background(), "late", nil)
							if err := out.Log("info", failure.Internal, "late"); err != nil {
								t.Errorf("a LOG after %s: %v", name, err)
							}
						}
					})
				}
				return result
			})
			req := h.Request(workCap).End()
			req.Collect()
			before := h.Probe().Stragglers
			sent := len(req.Frames())
			close(late)
			senders.Wait()
			after := h.Probe()
			assert.GreaterOrEqual(t, after.Stragglers-before, uint64(8*50), "each late LOG is a straggler")
			assert.Zero(t, after.Drops)
			assert.Len(t, req.Frames(), sent)
		}
	})
}

func TestFramesThatAreTooLarge(t *testing.T) {
	t.Run("R-6.92 they are an error to their sender only", func(t *testing.T) {
		huge := strings.Repeat("h", 4<<20)
		h := generous(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			out := r.Output()
			if err := out.Log("info", failure.Internal, huge); err == nil {
				return errors.New("a LOG of 4 MiB was taken")
			}
			if err := out.Start(bifaci.WithMeta(frame.Meta{"m": huge})); err == nil {
				return errors.New("a STREAM_START of 4 MiB was taken")
			}
			if err := out.Start(bifaci.Sequence); err != nil {
				return fmt.Errorf("a start after one that did not fit: %w", err)
			}
			if err := out.EmitItem(ctx, "fits", nil); err != nil {
				return err
			}
			return out.EmitItem(ctx, "x", frame.Meta{"m": huge})
		})
		other := h.Request(workCap, cartridgetest.WithID(frame.UintID(1)))
		for range 3 {
			req := h.Request(workCap).End()
			got := req.WantErr("HANDLER_ERROR", failure.Internal)
			assert.Contains(t, got.Message, "max_frame")
			assert.Equal(t, "stream_start chunk err", types(req))
		}
		other.End().WantErr("HANDLER_ERROR", failure.Internal)
		assert.Zero(t, h.Probe().Drops, "the writer goes on")
	})
	t.Run("R-6.92 values without an encoding too", func(t *testing.T) {
		h := generous(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			return r.Output().Start(bifaci.WithMeta(frame.Meta{"m": make(chan int)}))
		})
		h.Request(workCap).End().WantErr("HANDLER_ERROR", failure.Internal)
		require.Zero(t, h.Probe().Drops)
	})
}
