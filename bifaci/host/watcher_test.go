package host_test

import (
	"context"
	"log/slog"
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
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

func TestActivityTimeout(t *testing.T) {
	begin := func(t *testing.T, def manifest.Cap, opts ...host.Option) (*fake, *host.Call, Frame) {
		h := closing(t, append(opts, host.WithHeartbeat(0, 0))...)
		f, _ := attachFake(t, h, def)
		call, err := h.Call(t.Context(), def.URN)
		require.NoError(t, err)
		return f, call, f.want(frame.TypeReq)
	}
	expired := func(t *testing.T, f *fake, call *host.Call, after time.Duration) {
		begun := time.Now()
		_, err := call.Response().Next(t.Context())
		wantFailure(t, err, failure.ActivityTimeout, failure.Environment)
		assert.Equal(t, after, time.Since(begun))
		got := f.want(frame.TypeCancel)
		assert.Equal(t, "ABORTED", got.Meta()["code"])
		assert.Equal(t, "environment", got.Meta()["attribution_class"])
	}
	virtual(t, "R-12.73 silence ends the call, any frame begins it anew", func(t *testing.T) {
		f, call, req := begin(t, plainCap("a"), host.WithActivityTimeout(10*time.Second))
		for range 5 {
			time.Sleep(9 * time.Second)
			f.answer(req, cartridgetest.LogFrame("info", failure.Internal, "still here"))
			it, err := call.Response().Next(t.Context())
			require.NoError(t, err)
			require.NotNil(t, it.Log)
		}
		expired(t, f, call, 10*time.Second)
	})
	virtual(t, "R-12.73 R-5.33 the time stands still while the request is queued", func(t *testing.T) {
		f, call, req := begin(t, plainCap("a"), host.WithActivityTimeout(10*time.Second))
		f.answer(req, cartridgetest.LogFrame("queued", failure.Internal, "Request queued (position 1 on pool 'all')"))
		synctest.Wait()
		time.Sleep(time.Hour)
		f.answer(req, cartridgetest.LogFrame("dequeued", failure.Internal, "Request dequeued"))
		for range 2 {
			_, err := call.Response().Next(t.Context())
			require.NoError(t, err)
		}
		expired(t, f, call, 10*time.Second)
	})
	virtual(t, "R-12.73 the cap's metadata override it, and only where there is a limit", func(t *testing.T) {
		def := plainCap("a").WithMetadata("activity_timeout_secs", "3")
		f, call, _ := begin(t, def, host.WithActivityTimeout(10*time.Second))
		expired(t, f, call, 3*time.Second)
		_, call, req := begin(t, def)
		_ = req
		time.Sleep(time.Hour)
		synctest.Wait()
		require.NoError(t, context.Cause(call.Context()), "off by default")
	})
	virtual(t, "R-12.73 one call may have its own, and after the answer nothing ticks", func(t *testing.T) {
		h := closing(t, host.WithHeartbeat(0, 0))
		f, _ := attachFake(t, h, plainCap("a"))
		call, err := h.Call(t.Context(), named("a"), host.WithCallActivityTimeout(time.Second))
		require.NoError(t, err)
		f.answer(f.want(frame.TypeReq), answerBytes("whole")...)
		synctest.Wait()
		time.Sleep(time.Minute)
		got, err := call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "whole", string(got))
	})
}

func TestContract(t *testing.T) {
	breaches := map[string]func(Frame) Frame{
		"a sequence":        func(f Frame) Frame { return f.With(frame.KeyIsSequence, true) },
		"an endless answer": func(f Frame) Frame { return f.With(frame.KeyUnbounded, true) },
	}
	for name, breach := range breaches {
		virtual(t, "R-12.74 "+name+" that was not declared fails the call", func(t *testing.T) {
			h := closing(t, host.WithContractChecks(true))
			f, _ := attachFake(t, h, plainCap("a"))
			call, err := h.Call(t.Context(), named("a"))
			require.NoError(t, err)
			f.answer(f.want(frame.TypeReq), breach(cartridgetest.StartFrame("s", "media:")))
			_, err = call.Response().Next(t.Context())
			wantFailure(t, err, failure.ContractViolation, failure.Internal)
			got := f.want(frame.TypeCancel)
			assert.Equal(t, "ABORTED", got.Meta()["code"])
			assert.Equal(t, "internal", got.Meta()["attribution_class"])
		})
		virtual(t, "R-12.74 "+name+" that was not declared is logged once per cap by default", func(t *testing.T) {
			var log strings.Builder
			h := closing(t, host.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
			f, _ := attachFake(t, h, plainCap("a"))
			for range 3 {
				call, err := h.Call(t.Context(), named("a"))
				require.NoError(t, err)
				frames := answerBytes()
				frames[0] = breach(frames[0])
				if frames[0].Flag(frame.KeyUnbounded) {
					delete(frames[1], frame.KeyChunkCount)
				}
				f.answer(f.want(frame.TypeReq), frames...)
				_, err = call.Response().CollectBytes(t.Context())
				require.NoError(t, err)
			}
			synctest.Wait()
			assert.Equal(t, 1, strings.Count(log.String(), "breaks the declared contract"))
		})
	}
	virtual(t, "R-12.74 what was declared is no breach, and can be read before the call", func(t *testing.T) {
		th := newTheatre(t)
		h := th.host(host.WithContractChecks(true))
		spec := th.cartridge("a", capability{urn: named("items"), handler: func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().StartUnbounded(bifaci.Sequence); err != nil {
				return err
			}
			return r.Output().EmitItem(ctx, "one", nil)
		}, change: func(c *manifest.Cap) { c.Output.IsSequence = true }})
		register(t, h, spec)
		def, _, err := h.Definition(named("items"))
		require.NoError(t, err)
		_, out := def.SequenceShape()
		assert.True(t, out)
		_, out = def.StreamingShape()
		assert.True(t, out)
		wantAnswer(t, h, named("items"), "one")
	})
}

func TestCloseFeedsAndWait(t *testing.T) {
	begin := func(t *testing.T) (*fake, *host.Call, Frame) {
		h := closing(t, host.WithHeartbeat(0, 0))
		f, _ := attachFake(t, h, plainCap("a"))
		call, err := h.Call(t.Context(), named("a"))
		require.NoError(t, err)
		return f, call, f.want(frame.TypeReq)
	}
	virtual(t, "R-12.83 nil only after END", func(t *testing.T) {
		f, call, req := begin(t)
		done := inBackground(func() error { return call.CloseFeedsAndWait(t.Context()) })
		f.want(frame.TypeCloseStream)
		time.Sleep(59 * time.Second)
		f.answer(req, answerBytes("whole")...)
		require.NoError(t, <-done)
	})
	virtual(t, "R-12.83 an ERR is what happened", func(t *testing.T) {
		f, call, req := begin(t)
		done := inBackground(func() error { return call.CloseFeedsAndWait(t.Context()) })
		f.want(frame.TypeCloseStream)
		f.answer(req, cartridgetest.ErrFrame("NO_VOICE", failure.Input, "nothing to hear"))
		wantFailure(t, <-done, "NO_VOICE", failure.Input)
	})
	virtual(t, "R-12.83 after a minute it gives up, and the call lives on", func(t *testing.T) {
		f, call, req := begin(t)
		begun := time.Now()
		require.ErrorContains(t, call.CloseFeedsAndWait(t.Context()), "minute")
		assert.Equal(t, time.Minute, time.Since(begun))
		f.want(frame.TypeCloseStream)
		f.answer(req, answerBytes("whole")...)
		got, err := call.Response().CollectBytes(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "whole", string(got))
	})
}
