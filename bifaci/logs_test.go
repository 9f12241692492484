package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"math"
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
)

// reporter is what an output and its ProgressSender have in common.
type reporter interface {
	Progress(p float64, message string) error
	Log(level string, class failure.Class, message string) error
	LogForArgument(level string, class failure.Class, message, argURN string) error
}

// logMetas runs one call on an output or on its sender, and returns the meta of every LOG and the call's error.
func logMetas(t *testing.T, detached bool, call func(reporter) error) (metas []map[string]any, err error) {
	t.Helper()
	req := emitting(t, frame.DefaultLimits(), func(_ context.Context, o *bifaci.OutputStream) error {
		if detached {
			err = call(o.ProgressSender())
		} else {
			err = call(o)
		}
		return nil
	})
	req.WantEnd()
	for _, f := range req.Frames() {
		if f.Type() == frame.TypeLog {
			metas = append(metas, f.Meta())
		}
	}
	return metas, err
}

func TestLogs(t *testing.T) {
	for rule, detached := range map[string]bool{"R-6.50 R-6.51": false, "R-6.53": true} {
		for name, c := range map[string]struct {
			call func(reporter) error
			want map[string]any
		}{
			"Log": {func(r reporter) error { return r.Log("info", failure.User, "hello") },
				map[string]any{"level": "info", "message": "hello", "attribution_class": "user"}},
			"any level": {func(r reporter) error { return r.Log("heartfelt", failure.Environment, "ä€😀") },
				map[string]any{"level": "heartfelt", "message": "ä€😀", "attribution_class": "environment"}},
			"LogForArgument": {func(r reporter) error { return r.LogForArgument("warn", failure.Input, "odd", "media:audio") },
				map[string]any{"level": "warn", "message": "odd", "attribution_class": "input", "arg_urn": "media:audio"}},
			"Progress":              {func(r reporter) error { return r.Progress(0.5, "half") }, map[string]any{"level": "progress", "message": "half", "progress": 0.5}},
			"progress of 0":         {func(r reporter) error { return r.Progress(0, "start") }, map[string]any{"level": "progress", "message": "start", "progress": 0.0}},
			"progress above 1":      {func(r reporter) error { return r.Progress(1.5, "much") }, map[string]any{"level": "progress", "message": "much", "progress": 1.0}},
			"progress below 0":      {func(r reporter) error { return r.Progress(math.Inf(-1), "no") }, map[string]any{"level": "progress", "message": "no", "progress": 0.0}},
			"progress with no text": {func(r reporter) error { return r.Progress(1, "") }, map[string]any{"level": "progress", "message": "progress", "progress": 1.0}},
			"progress of blank":     {func(r reporter) error { return r.Progress(1, " \n") }, map[string]any{"level": "progress", "message": "progress", "progress": 1.0}},
		} {
			t.Run(rule+" "+name, func(t *testing.T) {
				metas, err := logMetas(t, detached, c.call)
				require.NoError(t, err)
				assert.Equal(t, []map[string]any{c.want}, metas)
			})
		}
		for name, call := range map[string]func(reporter) error{
			"a blank level":           func(r reporter) error { return r.Log(" ", failure.Internal, "m") },
			"a blank message":         func(r reporter) error { return r.Log("info", failure.Internal, "\t") },
			"the level progress":      func(r reporter) error { return r.Log("progress", failure.Internal, "m") },
			"no class":                func(r reporter) error { return r.Log("info", "", "m") },
			"an unknown class":        func(r reporter) error { return r.Log("info", "operator", "m") },
			"a blank argument":        func(r reporter) error { return r.LogForArgument("info", failure.Internal, "m", "  ") },
			"progress for an arg":     func(r reporter) error { return r.LogForArgument("progress", failure.Internal, "m", "media:a") },
			"a blank text for an arg": func(r reporter) error { return r.LogForArgument("info", failure.Internal, "", "media:a") },
			"NaN":                     func(r reporter) error { return r.Progress(math.NaN(), "m") },
		} {
			t.Run(rule+" refused, and nothing is sent: "+name, func(t *testing.T) {
				metas, err := logMetas(t, detached, call)
				assert.Error(t, err)
				assert.Empty(t, metas)
			})
		}
	}
	t.Run("R-6.51 values need not increase", func(t *testing.T) {
		metas, err := logMetas(t, false, func(r reporter) error {
			return errors.Join(r.Progress(0.9, "a"), r.Progress(0.1, "b"), r.Progress(0.1, "b"))
		})
		require.NoError(t, err)
		assert.Len(t, metas, 3)
	})
	virtual(t, "R-6.52 L14 R-10.2 they need no credit and pass data that waits for it", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			out := r.Output()
			if err := out.EmitItem(ctx, "window", nil); err != nil {
				return err
			}
			r.Go(func(ctx context.Context) error { return out.EmitItem(ctx, "waits", nil) })
			synctest.Wait()
			return errors.Join(out.Progress(0.5, "half"), out.Log("info", failure.Internal, "still here"))
		})
		req := h.Request(workCap).End()
		req.WantItems("window")
		req.WantLog("progress")
		req.WantLog("info")
		wantStill(t, req)
		req.Grant(1)
		req.WantItems("waits")
		req.WantEnd()
	})
	virtual(t, "R-6.53 after the terminal they are counted stragglers, never a frame, and no error", func(t *testing.T) {
		for _, result := range []error{nil, errors.New("failed")} {
			kept := make(chan *bifaci.ProgressSender, 1)
			h := worker(t, 8, func(_ context.Context, r *bifaci.Request) error {
				kept <- r.Output().ProgressSender()
				return result
			})
			req := h.Request(workCap).End()
			before, stragglers := settled(req), h.Probe().Stragglers
			p := <-kept
			assert.NoError(t, p.Progress(0.5, "late"))
			assert.NoError(t, p.Log("info", failure.Internal, "late"))
			assert.NoError(t, p.LogForArgument("info", failure.Internal, "late", "media:a"))
			assert.Equal(t, before, settled(req))
			pulse := h.Probe()
			assert.EqualValues(t, 3, pulse.Stragglers-stragglers)
			assert.Zero(t, pulse.Drops)
			h.CloseInput()
			require.NoError(t, h.Wait())
			assert.NoError(t, p.Progress(0.5, "after the link"))
		}
	})
	virtual(t, "R-6.53 from many goroutines while the handler writes", func(t *testing.T) {
		h := worker(t, 32, func(ctx context.Context, r *bifaci.Request) error {
			p := r.Output().ProgressSender()
			for n := range 8 {
				r.Go(func(context.Context) error {
					for range 50 {
						if err := p.Log("info", failure.Internal, fmt.Sprint(n)); err != nil {
							return err
						}
					}
					return nil
				})
			}
			for range 30 {
				if err := r.Output().EmitItem(ctx, "x", nil); err != nil {
					return err
				}
			}
			return nil
		})
		req := h.Request(workCap).End()
		req.Collect()
		req.WantEnd()
		assert.Equal(t, 400, strings.Count(types(req), "log"))
	})
	virtual(t, "R-8.24 a cancelled handler may log, also while the data lane is full", func(t *testing.T) {
		logged := make(chan error, 1)
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			p := r.Output().ProgressSender()
			r.Go(func(context.Context) error {
				for range 3000 { // more than the lane, the writer and the pipe hold
					if err := p.Log("info", failure.Internal, strings.Repeat("fills the lane ", 100)); err != nil {
						return err
					}
				}
				return nil
			})
			<-ctx.Done()
			logged <- p.Log("info", failure.Internal, "cleaning up")
			return context.Cause(ctx)
		})
		h.HoldOutput(true)
		req := h.Request(workCap)
		synctest.Wait()
		req.Cancel(failure.UserCancel())
		synctest.Wait()
		require.Empty(t, logged, "the lane was not full")
		h.HoldOutput(false)
		assert.NoError(t, <-logged)
		req.WantErr("CANCELLED", failure.User)
		said := false
		for _, f := range req.Frames() {
			said = said || f.Meta()["message"] == "cleaning up"
		}
		assert.True(t, said)
	})
}

func TestRunWithKeepalive(t *testing.T) {
	// slow takes d of virtual time.
	slow := func(d time.Duration, v string, err error) func(context.Context) (string, error) {
		return func(ctx context.Context) (string, error) {
			select {
			case <-time.After(d):
				return v, err
			case <-ctx.Done():
				return "", context.Cause(ctx)
			}
		}
	}
	serve := func(t *testing.T, f func(context.Context) (string, error), opts ...bifaci.Option) *cartridgetest.Request {
		t.Helper()
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			v, err := bifaci.RunWithKeepalive(ctx, r.Output(), 0.25, "loading", f)
			if err != nil {
				return err
			}
			return say(ctx, r, v)
		}, opts...)
		return h.Request(workCap).End()
	}
	for name, c := range map[string]struct {
		opts  []bifaci.Option
		takes time.Duration
		logs  int
	}{
		"every 5 s by default":         {nil, 17 * time.Second, 3},
		"nothing for something quick":  {nil, 4999 * time.Millisecond, 0},
		"as often as the option says":  {[]bifaci.Option{bifaci.WithKeepaliveInterval(time.Minute)}, 10*time.Minute + time.Second, 10},
		"0 as an option is no storm":   {[]bifaci.Option{bifaci.WithKeepaliveInterval(0)}, 11 * time.Second, 2},
		"a long time without anything": {nil, time.Hour + time.Second, 720},
	} {
		virtual(t, "R-6.55 "+name, func(t *testing.T) {
			start := time.Now()
			req := serve(t, slow(c.takes, "loaded", nil), c.opts...)
			time.Sleep(c.takes) // the harness is less patient
			req.WantItems("loaded")
			req.WantEnd()
			assert.Equal(t, c.takes, time.Since(start), "it returns with f")
			logs := 0
			for _, f := range req.Frames() {
				if f.Type() == frame.TypeLog {
					logs++
					assert.Equal(t, map[string]any{"level": "progress", "message": "loading", "progress": 0.25}, f.Meta())
				}
			}
			assert.Equal(t, c.logs, logs)
		})
	}
	virtual(t, "R-6.55 f's error is returned", func(t *testing.T) {
		req := serve(t, slow(time.Second, "", failure.New("OWN", failure.Resource, "no memory")))
		req.WantErr("OWN", failure.Resource)
	})
	virtual(t, "R-6.55 a panic of f becomes an error, with its stack in a LOG", func(t *testing.T) {
		wantPanic(t, serve(t, func(context.Context) (string, error) { panic("in the model") }), "in the model")
	})
	virtual(t, "R-6.55 so does Goexit, and the handler goes on", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			_, err := bifaci.RunWithKeepalive(ctx, r.Output(), 0, "loading", func(context.Context) (int, error) {
				panic(nil)
			})
			var p *bifaci.PanicError
			if !errors.As(err, &p) {
				return err
			}
			return say(ctx, r, "went on")
		})
		req := h.Request(workCap).End()
		req.WantItems("went on")
		req.WantEnd()
	})
	virtual(t, "R-6.55 it does not return before f, also when it is cancelled", func(t *testing.T) {
		returned := false
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			_, err := bifaci.RunWithKeepalive(ctx, r.Output(), 0, "stubborn", func(context.Context) (int, error) {
				<-after(31 * time.Second)
				returned = true
				return 0, nil
			})
			if !returned {
				return errors.New("f still runs")
			}
			return err
		})
		req := h.Request(workCap)
		time.Sleep(time.Second)
		req.Cancel(failure.UserCancel())
		wantStill(t, req)
		time.Sleep(31 * time.Second)
		req.WantErr("CANCELLED", failure.User)
		assert.Equal(t, 6, strings.Count(types(req), "log"), "and it goes on reporting (R-8.24)")
	})
	virtual(t, "R-6.55 R-6.51 what cannot be reported is refused before f runs", func(t *testing.T) {
		_, err := bifaci.RunWithKeepalive(t.Context(), bifaci.DiscardOutput(), math.NaN(), "m", func(context.Context) (int, error) {
			t.Error("f runs")
			return 0, nil
		})
		assert.Error(t, err)
	})
	virtual(t, "R-6.55 a failed output does not end f", func(t *testing.T) {
		results := make(chan string, 1)
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			v, err := bifaci.RunWithKeepalive(context.WithoutCancel(ctx), r.Output(), 0, "m", slow(time.Minute, "kept", nil))
			results <- fmt.Sprint(v, " ", err)
			return err
		})
		h.Request(workCap)
		synctest.Wait()
		h.BreakOutput(errors.New("the host is gone"))
		assert.Equal(t, "kept <nil>", <-results)
		assert.Error(t, h.Wait())
	})
}
