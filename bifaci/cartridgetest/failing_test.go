package cartridgetest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync"
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

const (
	text   = "media:enc=utf-8"
	capRun = `cap:in="media:enc=utf-8";out="media:enc=utf-8";under-test`
)

// subject is a test that may fail.
type subject struct {
	testing.TB
	ctx context.Context

	mu       sync.Mutex
	failures []string
	cleanups []func()
}

func (s *subject) Helper()                  {}
func (s *subject) Context() context.Context { return s.ctx }
func (s *subject) Cleanup(f func())         { s.cleanups = append(s.cleanups, f) }

func (s *subject) Errorf(format string, args ...any) {
	s.mu.Lock()
	s.failures = append(s.failures, fmt.Sprintf(format, args...))
	s.mu.Unlock()
}

func (s *subject) Fatalf(format string, args ...any) {
	s.Errorf(format, args...)
	runtime.Goexit()
}

// run runs a test function as go test does, and returns what it complained about.
func run(test func(t testing.TB)) (failures []string) {
	ctx, cancel := context.WithCancel(context.Background())
	s := &subject{ctx: ctx}
	var ended sync.WaitGroup
	ended.Go(func() {
		defer func() {
			cancel()
			for i := len(s.cleanups) - 1; i >= 0; i-- {
				s.cleanups[i]()
			}
		}()
		test(s)
	})
	ended.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.failures
}

// answer is a handler that waits for the end of its input and then writes.
func answer(texts ...string) bifaci.Handler {
	return func(ctx context.Context, r *bifaci.Request) error {
		input, err := r.TakeInput()
		if err != nil {
			return err
		}
		if _, err := input.CollectAllBytes(ctx); err != nil {
			return err
		}
		for _, s := range texts {
			if err := r.Output().EmitItem(ctx, s, nil); err != nil {
				return err
			}
		}
		return nil
	}
}

// Each way in which a test can be wrong about a cartridge fails it, in virtual time, with a message that says what came instead.
func TestFailures(t *testing.T) {
	for _, tc := range []struct {
		name    string
		handler bifaci.Handler
		test    func(h *cartridgetest.Host)
		says    []string
	}{
		{"another item", answer("a", "b"), func(h *cartridgetest.Host) {
			h.Request(capRun).End().WantItems("a", "c")
		}, []string{`item 2 of request`, `is "b", want "c"`}},
		{"an item too few", answer("a"), func(h *cartridgetest.Host) {
			h.Request(capRun).End().WantItems("a", "b")
		}, []string{"ended with end", "before item 2 of 2"}},
		{"an item that does not come", answer("a"), func(h *cartridgetest.Host) {
			h.Request(capRun).WantItems("a")
		}, []string{"waited 20s for item 1 of 1", "the last frames of the link were", "cartridge→host heartbeat"}},
		{"an item too many", answer("a", "b"), func(h *cartridgetest.Host) {
			h.Request(capRun).End().WantItems("a").WantEnd()
		}, []string{`1 items of request`, `not expected, the first is "b"`}},
		{"other bytes", answer("a", "b"), func(h *cartridgetest.Host) {
			h.Request(capRun).End().WantBytes("abc")
		}, []string{`2 bytes "ab", want 3 bytes "abc"`}},
		{"ERR instead of END", func(context.Context, *bifaci.Request) error { return errors.New("no") }, func(h *cartridgetest.Host) {
			h.Request(capRun).End().WantEnd()
		}, []string{"HANDLER_ERROR", "want END"}},
		{"END instead of ERR", answer("a"), func(h *cartridgetest.Host) {
			h.Request(capRun).End().WantErr("HANDLER_ERROR", failure.Internal)
		}, []string{"want ERR HANDLER_ERROR/internal"}},
		{"ERR of another class", func(context.Context, *bifaci.Request) error { return errors.New("no") }, func(h *cartridgetest.Host) {
			h.Request(capRun).End().WantErr("HANDLER_ERROR", failure.Input)
		}, []string{"want ERR HANDLER_ERROR/input"}},
		{"no LOG", answer("a"), func(h *cartridgetest.Host) {
			h.Request(capRun).End().WantLog("info")
		}, []string{"before a LOG of level info"}},
		{"other grants", answer("a"), func(h *cartridgetest.Host) {
			req := h.Request(capRun)
			req.Stream("s", text).Chunk("x")
			req.WantGrants("s", 2)
		}, []string{"grants for stream s", "are [1], want [2]"}},
		{"more granted", answer("a"), func(h *cartridgetest.Host) {
			req := h.Request(capRun)
			req.Stream("s", text).Chunk("x").Chunk("y")
			req.WantGrants("s", 1) // leave one
			req.Stream("s2", text).Chunk("x")
			synctest.Wait()
			req.WantGranted("s", 0)
		}, []string{"1 chunks of stream s were granted, want 0"}},
		{"no credit", func(ctx context.Context, _ *bifaci.Request) error { <-ctx.Done(); return nil }, func(h *cartridgetest.Host) {
			s := h.Request(capRun).Stream("s", text)
			for range h.Limits().InitialCredit + 1 {
				s.Chunk("x")
			}
		}, []string{"waited 20s for credit for a CHUNK of stream s"}},
		{"a slot left behind", func(ctx context.Context, _ *bifaci.Request) error { <-ctx.Done(); return nil }, func(h *cartridgetest.Host) {
			h.Request(capRun)
			h.WantIdle()
		}, []string{"the terminal of every request"}},
		{"a goroutine left behind", func(ctx context.Context, r *bifaci.Request) error {
			go func() { time.Sleep(time.Hour) }()
			return nil
		}, func(h *cartridgetest.Host) {
			h.Request(capRun).End().WantEnd()
			h.WantIdle()
		}, []string{"waited 20s for the goroutines of requests to end", "failing_test.go"}},
		{"another peer call", func(ctx context.Context, r *bifaci.Request) error {
			_, err := r.Peer().Call(ctx, "cap:effect=none")
			return err
		}, func(h *cartridgetest.Host) {
			h.Request(capRun).End()
			h.WantPeerCall(capRun)
		}, []string{"calls cap:effect=none, want " + capRun}},
		{"a breach", answer("a"), func(h *cartridgetest.Host) {
			h.Request(capRun).End().WantItems("a").WantEnd()
			_, err := h.Check().Tap(cartridgetest.ToHost, nil).Write([]byte{0, 0, 0, 0})
			_ = err // a tap that wraps nothing does not fail
		}, []string{"cartridge→host: frames decode: a length prefix of 0"}},
		{"capacities that are taken", answer("a"), func(h *cartridgetest.Host) {
			h.WantRefused([]byte(`{"all":1}`), "UNKNOWN_POOL")
		}, []string{"want an ERR UNKNOWN_POOL"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				failures := run(func(sub testing.TB) {
					tc.test(cartridgetest.Start(sub, cartridgetest.Serving(sub, capRun, tc.handler), cartridgetest.WithWindow(2)))
				})
				require.NotEmpty(t, failures)
				for _, s := range tc.says {
					assert.Contains(t, failures[0], s)
				}
				time.Sleep(2 * time.Hour) // virtual: what the handler left behind ends
			})
		})
	}
}

func TestFailureSaysThatTheLinkHasEnded(t *testing.T) {
	failures := run(func(t testing.TB) {
		h := cartridgetest.Start(t, cartridgetest.Serving(t, capRun, answer("a")))
		h.SendBytes([]byte{0, 0, 0, 0})
		h.Probe()
	})
	require.NotEmpty(t, failures)
	assert.Contains(t, failures[0], "the link has ended (EOF) before an answer with id")
	assert.Contains(t, failures[0], "Serve returned")
}

func TestFailureOfACartridgeThatDoesNotStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		var h *cartridgetest.Host
		failures := run(func(t testing.TB) {
			h = cartridgetest.Start(t, cartridgetest.Serving(t, capRun, func(context.Context, *bifaci.Request) error {
				<-release
				return nil
			}))
			h.Request(capRun)
			h.Probe()
			synctest.Wait() // the handler has started; one that has not is not called
		})
		close(release)
		require.NotEmpty(t, failures)
		assert.Contains(t, failures[0], "Serve does not end when its context does")
		assert.Contains(t, failures[0], "failing_test.go", "it shows who waits")
	})
}

func TestUnansweredRequestsFailTheTest(t *testing.T) {
	failures := run(func(t testing.TB) {
		h := cartridgetest.Start(t, cartridgetest.Serving(t, capRun, answer("a")))
		h.Request(capRun)
		h.CloseInput()
		if err := h.Wait(); err != nil {
			t.Fatalf("%v", err)
		}
		// A request that the cartridge cannot have seen stands for one that it forgot.
		b := []byte{0, 0, 0, 0x16, 0xa5, 0, 6, 1, 1, 2, 5, 3, 0, 0x0a, 0x6b, 'c', 'a', 'p', ':', 'x', '=', 'y', 'y', 'y', 'y', 'y'}
		if _, err := h.Check().Tap(cartridgetest.ToCartridge, io.Discard).Write(b); err != nil {
			t.Fatalf("%v", err)
		}
	})
	assert.Contains(t, strings.Join(failures, "\n"), "request 5 was never answered")
}

func TestPeerCallsArePlayed(t *testing.T) {
	h := cartridgetest.Start(t, cartridgetest.Serving(t, capRun, func(ctx context.Context, r *bifaci.Request) error {
		got, err := bifaci.CallBytes(ctx, r.Peer(), "cap:effect=none", bifaci.BytesArg{MediaURN: text, Value: []byte("question")})
		if err != nil {
			return err
		}
		b, err := got.CollectBytes(ctx)
		if err != nil {
			return err
		}
		_, err = r.Output().Write(b)
		return err
	}))
	req := h.Request(capRun).End()
	call := h.WantPeerCall("cap:effect=none")
	assert.Equal(t, req.ID(), call.Parent())
	assert.Equal(t, text, call.WantStream().MediaURN)
	call.WantItems("question").WantBody()
	call.Chunk("answer").End()
	req.WantItems("answer").WantEnd()

	req = h.Request(capRun).End()
	call = h.WantPeerCall("cap:effect=none")
	call.Fail("BUSY", failure.Resource, "later")
	assert.Equal(t, "later", req.WantErr("BUSY", failure.Resource).Message)

	req = h.Request(capRun).End()
	call = h.WantPeerCall("cap:effect=none")
	req.Cancel(failure.UserCancel())
	assert.Equal(t, failure.UserCancel(), call.WantCancel())
	req.WantErr(failure.Cancelled, failure.User)
	h.WantIdle()
}

func TestCreditIsManualOnDemand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgetest.Serving(t, capRun, answer("a", "b", "c", "d", "e")),
			cartridgetest.WithWindow(2), cartridgetest.WithManualCredit())
		req := h.Request(capRun).End()
		req.WantItems("a", "b")
		synctest.Wait()
		assert.Len(t, req.Frames(), 3, "STREAM_START and a window of two")
		req.Grant(1).WantItems("c")
		synctest.Wait()
		assert.Nil(t, req.Terminal())
		req.Grant(2).WantItems("d", "e").WantEnd()
	})
}

func TestStreamsOfABody(t *testing.T) {
	h := cartridgetest.Start(t, cartridgetest.Serving(t, capRun, func(ctx context.Context, r *bifaci.Request) error {
		input, err := r.TakeInput()
		if err != nil {
			return err
		}
		for s, err := range input.All(ctx) {
			if err != nil {
				return err
			}
			said := fmt.Sprint(s.MediaURN(), s.IsSequence(), s.IsUnbounded(), s.Meta()["k"])
			for it, err := range s.Items(ctx) {
				if err != nil {
					return err
				}
				said += fmt.Sprint(string(it.Bytes), it.Meta["n"])
			}
			if err := r.Output().EmitItem(ctx, said, nil); err != nil {
				return err
			}
		}
		return nil
	}), cartridgetest.WithLimits(frame.Limits{MaxFrame: 4000, MaxChunk: 3, MaxReorderBuffer: 1, InitialCredit: 2}), cartridgetest.WithReadSize(1))
	req := h.Request(capRun)
	req.Stream("one", "media:a", cartridgetest.Meta(map[string]any{"k": "v"})).Chunk("x").End()
	req.Stream("two", "media:b", cartridgetest.Sequence, cartridgetest.Unbounded).Item([]byte("longer than a chunk"), map[string]any{"n": 1}).End()
	req.End()
	req.WantItems("media:afalse falsevx<nil>", "media:btrue true <nil>longer than a chunk1").WantEnd()
}
