package bifaci_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// wantPanic waits for the LOG with the stack and for the ERR of a request that has panicked.
func wantPanic(t *testing.T, req *cartridgetest.Request, what string) {
	t.Helper()
	stack := req.WantLog("error")
	assert.Equal(t, "internal", stack["attribution_class"])
	message, _ := stack["message"].(string)
	assert.True(t, strings.HasPrefix(message, "panic: "), message)
	assert.Contains(t, message, what)
	assert.Contains(t, message, ".go:", "there is no stack")
	assert.LessOrEqual(t, len(message), 8<<10+len("panic: ")+len(what)+1)
	got := req.WantErr("HANDLER_ERROR", failure.Internal)
	assert.True(t, strings.HasPrefix(got.Message, "panic: "), got.Message)
	assert.Contains(t, got.Message, what)
	assert.Equal(t, 1, strings.Count(types(req), "log"), "one LOG with the stack")
}

func TestPanics(t *testing.T) {
	for name, c := range map[string]struct {
		h    bifaci.Handler
		what string
	}{
		"a text":      {func(context.Context, *bifaci.Request) error { panic("on purpose") }, "on purpose"},
		"an error":    {func(context.Context, *bifaci.Request) error { panic(errors.New("an error")) }, "an error"},
		"nil":         {func(context.Context, *bifaci.Request) error { panic(nil) }, "nil"},
		"a bug":       {func(ctx context.Context, _ *bifaci.Request) error { return []error{}[len(fmt.Sprint(ctx))] }, "index out of range"},
		"Goexit":      {func(context.Context, *bifaci.Request) error { runtime.Goexit(); return nil }, "Goexit"},
		"a deep hole": {func(context.Context, *bifaci.Request) error { return dig(500) }, "bottom"},
		"a typed failure, which is untyped all the same": {func(context.Context, *bifaci.Request) error {
			panic(failure.New("TYPED", failure.User, "thrown"))
		}, "thrown"},
	} {
		t.Run("R-6.90 a handler panics with "+name, func(t *testing.T) {
			h := generous(t, 8, c.h)
			wantPanic(t, h.Request(workCap).End(), c.what)
			h.WantIdle()
		})
		t.Run("R-6.91 a goroutine of Request.Go panics with "+name, func(t *testing.T) {
			h := generous(t, 8, func(ctx context.Context, r *bifaci.Request) error {
				r.Go(func(ctx context.Context) error { return c.h(ctx, r) })
				<-ctx.Done()
				return context.Cause(ctx)
			})
			wantPanic(t, h.Request(workCap).End(), c.what)
			h.WantIdle()
		})
		t.Run("R-6.90 R-1.26 a factory panics with "+name, func(t *testing.T) {
			cartridge := cartridgetest.Serving(t, workCap, echoes)
			require.NoError(t, cartridge.Register(workCap, func() bifaci.Op {
				t.Error("the factory went on after: ", c.h(t.Context(), nil))
				return nil
			}))
			h := cartridgetest.Start(t, cartridge)
			wantPanic(t, h.Request(workCap).End(), c.what)
			h.WantIdle()
		})
	}
	t.Run("R-6.90 R-1.26 a factory that gives nothing", func(t *testing.T) {
		cartridge := cartridgetest.Serving(t, workCap, echoes)
		require.NoError(t, cartridge.Register(workCap, func() bifaci.Op { return nil }))
		h := cartridgetest.Start(t, cartridge)
		assert.Contains(t, h.Request(workCap).End().WantErr("HANDLER_ERROR", failure.Internal).Message, "nil")
		h.WantIdle()
	})
	t.Run("R-6.90 100 panics with room for one, then a normal request", func(t *testing.T) {
		var calls atomic.Int32
		c := cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"work", func(ctx context.Context, r *bifaci.Request) error {
			if calls.Add(1) <= 100 {
				panic("not yet")
			}
			return echoes(ctx, r)
		}})
		h := cartridgetest.Start(t, c)
		var reqs []*cartridgetest.Request
		for range 100 {
			reqs = append(reqs, h.Request(capNamed("work")).End())
		}
		for _, req := range reqs {
			req.WantErr("HANDLER_ERROR", failure.Internal)
		}
		req := h.Request(capNamed("work")).Chunk("at last").End()
		req.WantItems("at last")
		req.WantEnd()
		h.WantIdle()
	})
	virtual(t, "R-6.90 whoever waits for the request's credit is released", func(t *testing.T) {
		released := make(chan error, 1)
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			if err := r.Output().EmitItem(ctx, 1, nil); err != nil {
				return err
			}
			go func() { released <- r.Output().EmitItem(context.WithoutCancel(ctx), 2, nil) }()
			synctest.Wait()
			panic("while it waits")
		})
		req := h.Request(workCap)
		wantPanic(t, req, "while it waits")
		assert.Error(t, <-released)
	})
	virtual(t, "R-6.90 R-7.41 its peer calls are cancelled", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			if _, err := r.Peer().Call(ctx, workCap); err != nil {
				return err
			}
			panic("while it calls")
		})
		req := h.Request(workCap)
		reason := h.WantPeerCall(workCap).WantCancel()
		assert.Equal(t, "ABORTED", reason.Code)
		wantPanic(t, req, "while it calls")
	})
	virtual(t, "R-6.90 R-8.21 a cancelled handler that panics ends with the cancel, and its stack is logged", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, _ *bifaci.Request) error {
			<-ctx.Done()
			panic("in the cleanup")
		})
		req := h.Request(workCap)
		wantStill(t, req) // the handler runs; one that is cancelled before is not called
		req.Cancel(failure.UserCancel())
		assert.Contains(t, req.WantLog("error")["message"], "in the cleanup")
		req.WantErr("CANCELLED", failure.User)
	})
}

// dig panics with a stack of n calls.
func dig(n int) error {
	if n == 0 {
		panic("bottom")
	}
	return fmt.Errorf("%d: %w", n, dig(n-1))
}

// TestOnePanicLeavesOthersAlone is field case F9.
func TestOnePanicLeavesOthersAlone(t *testing.T) {
	panics := map[string]bifaci.Handler{
		"handler": func(context.Context, *bifaci.Request) error { panic("F9") },
		"goexit":  func(context.Context, *bifaci.Request) error { runtime.Goexit(); return nil },
		"go": func(ctx context.Context, r *bifaci.Request) error {
			r.Go(func(context.Context) error { panic("F9") })
			<-ctx.Done()
			return nil
		},
		"goexit-in-go": func(ctx context.Context, r *bifaci.Request) error {
			r.Go(func(context.Context) error { runtime.Goexit(); return nil })
			return nil
		},
	}
	list := []served{{"echo", echoes}, {"factory", echoes}}
	for name, h := range panics {
		list = append(list, served{name, h})
	}
	c := cartridgeOf(t, bounded(map[string]uint64{"all": 21}), nil, list...)
	require.NoError(t, c.Register(capNamed("factory"), func() bifaci.Op { panic("F9") }))
	h := cartridgetest.Start(t, c)
	for _, l := range list[1:] {
		t.Run("F9 R-6.90 R-6.91 "+l.name+" while 20 others run", func(t *testing.T) {
			var others []*cartridgetest.Request
			for range 20 {
				others = append(others, h.Request(capNamed("echo")).Chunk("before"))
			}
			bad := h.Request(capNamed(l.name)).End()
			wantPanic(t, bad, "panic: ")
			for _, req := range others {
				req.Chunk("after").End()
				req.WantItems("before", "after")
				req.WantEnd()
			}
			h.WantIdle() // the slot is free again
		})
	}
}

func TestRequestGo(t *testing.T) {
	virtual(t, "R-6.91 the terminal waits for every goroutine, and they may use input and output", func(t *testing.T) {
		done := make(chan struct{})
		h := worker(t, 32, func(ctx context.Context, r *bifaci.Request) error {
			out, err := r.Start(bifaci.Sequence)
			if err != nil {
				return err
			}
			r.Go(func(ctx context.Context) error {
				s, err := r.Input(ctx, textMedia)
				if err != nil {
					return err
				}
				b, err := s.CollectBytes(ctx)
				if err != nil {
					return err
				}
				r.Go(func(ctx context.Context) error { // one starts another
					<-done
					return out.EmitItem(ctx, b, nil)
				})
				return nil
			})
			return nil
		})
		req := h.Request(workCap)
		wantStill(t, req)
		req.Chunk("read after the handler has returned").End()
		wantStill(t, req)
		close(done)
		req.WantItems("read after the handler has returned")
		req.WantEnd()
		h.WantIdle()
	})
	virtual(t, "R-6.91 R-6.82 the error of one fails the request and ends the context of all", func(t *testing.T) {
		causes := make(chan error, 2)
		first := failure.New("FIRST", failure.Input, "the first")
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			r.Go(func(ctx context.Context) error {
				<-ctx.Done()
				causes <- context.Cause(ctx)
				return errors.New("the second")
			})
			synctest.Wait()
			r.Go(func(context.Context) error { return first })
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return errors.New("the third")
		})
		req := h.Request(workCap)
		assert.Equal(t, "the first", req.WantErr("FIRST", failure.Input).Message)
		for range cap(causes) {
			assert.ErrorIs(t, <-causes, first)
		}
		h.WantIdle()
	})
	virtual(t, "R-6.91 the error of the handler ends the others and stands", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			for range 3 {
				r.Go(func(ctx context.Context) error {
					<-ctx.Done()
					return fmt.Errorf("told to stop: %w", context.Cause(ctx))
				})
			}
			return failure.New("OWN", failure.User, "enough")
		})
		req := h.Request(workCap)
		assert.Equal(t, "enough", req.WantErr("OWN", failure.User).Message)
		h.WantIdle()
	})
	virtual(t, "R-6.91 R-8.20 a cancel ends them and its words stand", func(t *testing.T) {
		h := worker(t, 1, func(ctx context.Context, r *bifaci.Request) error {
			r.Go(func(ctx context.Context) error {
				<-ctx.Done()
				return errors.New("told to stop")
			})
			return nil
		})
		req := h.Request(workCap)
		wantStill(t, req)
		req.Cancel(failure.UserCancel())
		assert.Equal(t, "Cancelled by user", req.WantErr("CANCELLED", failure.User).Message)
		h.WantIdle()
	})
	virtual(t, "R-6.91 R-6.80 success and failure: a late error turns a nil return into ERR", func(t *testing.T) {
		h := worker(t, 8, func(ctx context.Context, r *bifaci.Request) error {
			r.Go(func(ctx context.Context) error {
				if err := r.Output().EmitItem(ctx, "one", nil); err != nil {
					return err
				}
				<-after(time.Second)
				return errors.New("late")
			})
			return nil
		})
		req := h.Request(workCap)
		req.WantItems("one")
		assert.Equal(t, "late", req.WantErr("HANDLER_ERROR", failure.Internal).Message)
		assert.Equal(t, "stream_start chunk err", types(req))
	})
	virtual(t, "R-6.91 after the request it does nothing", func(t *testing.T) {
		kept := make(chan *bifaci.Request, 1)
		h := worker(t, 8, func(_ context.Context, r *bifaci.Request) error {
			kept <- r
			return nil
		})
		h.Request(workCap).End().WantEnd()
		synctest.Wait()
		(<-kept).Go(func(context.Context) error {
			t.Error("it ran")
			return nil
		})
		h.WantIdle()
	})
}

func TestRequestGoOnTheCommandLine(t *testing.T) {
	run := func(t *testing.T, h bifaci.Handler) (stdout, stderr string, err error) {
		t.Helper()
		var out, diagnostics logLines
		c := cartridgetest.Serving(t, workCap, h)
		err = c.RunCLI(t.Context(), []string{"under-test"}, strings.NewReader("input"), &out, &diagnostics)
		return out.String(), diagnostics.String(), err
	}
	t.Run("R-6.91 R-2.16 goroutines are waited for", func(t *testing.T) {
		out, _, err := run(t, func(_ context.Context, r *bifaci.Request) error {
			r.Go(func(ctx context.Context) error {
				s, err := r.Input(ctx, textMedia)
				if err != nil {
					return err
				}
				_, err = io.Copy(r.Output(), s.Reader(ctx))
				return err
			})
			return nil
		})
		require.NoError(t, err)
		assert.Equal(t, "input", out)
	})
	for name, c := range map[string]struct {
		h    bifaci.Handler
		what string
	}{
		"R-6.91 a panic of one": {func(ctx context.Context, r *bifaci.Request) error {
			r.Go(func(context.Context) error { panic("on purpose") })
			<-ctx.Done()
			return context.Cause(ctx)
		}, "panic: on purpose"},
		"R-6.91 an error of one": {func(ctx context.Context, r *bifaci.Request) error {
			r.Go(func(context.Context) error { return errors.New("the first error") })
			<-ctx.Done()
			return errors.New("the second error")
		}, "the first error"},
		"R-6.90 a panic of the handler": {func(context.Context, *bifaci.Request) error { panic("on purpose") }, "panic: on purpose"},
		"R-6.90 Goexit of the handler":  {func(context.Context, *bifaci.Request) error { runtime.Goexit(); return nil }, "panic: runtime.Goexit"},
	} {
		t.Run(name, func(t *testing.T) {
			_, diagnostics, err := run(t, c.h)
			var f *failure.Failure
			require.ErrorAs(t, err, &f)
			assert.Equal(t, "HANDLER_ERROR", f.Code)
			assert.Contains(t, f.Message, c.what)
			if strings.HasPrefix(c.what, "panic") {
				assert.Contains(t, diagnostics, ".go:", "the stack goes to standard error")
				assert.Equal(t, 1, strings.Count(diagnostics, "[error]"))
			}
		})
	}
}
