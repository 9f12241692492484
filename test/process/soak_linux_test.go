package process

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/pools"
)

const (
	soakVariable = "PIPE_SOAK" // how long, a duration; `make soak` sets it
	soakDefault  = 20 * time.Second
	soakLooks    = 10 // how often the load pauses for a look; the first is the measure of the others
	soakWorkers  = 8
	soakSlack    = 4 << 20 // bytes of memory that are noise in a process of some 20 MiB
	soakStream   = 1 << 20 // bytes of a long stream
	soakEnding   = 2       // goroutines that may be on their way out at a look, after their answer was read
)

// TestSoak: after hours of everything at once a cartridge is what it was after the first minute.
func TestSoak(t *testing.T) {
	needsProcess(t)
	t.Run("R-4.29 R-6.81 mixed load: every request ends once, memory and goroutines stay", func(t *testing.T) {
		if inPlainBinary(t) {
			return
		}
		length := soakDefault
		if text := os.Getenv(soakVariable); text != "" {
			var err error
			length, err = time.ParseDuration(text)
			require.NoError(t, err, soakVariable)
		}
		s := newSoak(t)
		var workers sync.WaitGroup
		for range soakWorkers {
			seed := rand.Uint64()
			workers.Go(func() { s.work(rand.New(rand.NewPCG(seed, 1))) })
		}
		var first look
		for i := range soakLooks {
			select {
			case <-time.After(length / soakLooks):
			case <-s.ctx.Done():
			}
			if s.ctx.Err() != nil {
				break
			}
			now := s.look()
			t.Logf("look %d: %d calls, %.1f MiB, %d goroutines", i, s.made.Load(), float64(now.memory)/(1<<20), now.goroutines)
			if i == 0 {
				first = now
				continue
			}
			assert.LessOrEqual(t, now.memory, max(first.memory+first.memory/10, first.memory+soakSlack), "memory")
			assert.LessOrEqual(t, now.goroutines, first.goroutines+first.goroutines/10+soakEnding, "goroutines")
		}
		s.stop(nil)
		workers.Wait()
		require.NoError(t, s.err())
		s.finish()
	})
}

// soak is a process under load.
type soak struct {
	t       *testing.T
	p       *host.Process
	ctx     context.Context
	stop    context.CancelCauseFunc
	resting sync.RWMutex // held for reading by each call, for writing by a look

	made, ended, cancelled atomic.Uint64
}

func newSoak(t *testing.T) *soak {
	s := &soak{t: t}
	s.ctx, s.stop = context.WithCancelCause(t.Context())
	var err error
	s.p, err = host.Start(t.Context(), stuntPath(t))
	require.NoError(t, err)
	t.Cleanup(s.p.Close)
	return s
}

// err is what ended the load early, or nil.
func (s *soak) err() error {
	if err := context.Cause(s.ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// work makes one call after the other until the load is over, or one does not end as it should.
func (s *soak) work(rng *rand.Rand) {
	for s.ctx.Err() == nil {
		s.resting.RLock()
		err := s.one(rng)
		s.resting.RUnlock()
		if err != nil {
			s.stop(err)
		}
	}
}

// one makes a call of some kind, or turns a knob. Its context is the test's: a call that has begun is seen to its end.
func (s *soak) one(rng *rand.Rand) error {
	ctx := s.t.Context()
	switch n := rng.IntN(100); {
	case n < 50:
		return s.want(s.call(stunt("wait"), mediaText, []byte(strconv.Itoa(rng.IntN(3)))), "")
	case n < 60:
		return s.want(s.call(urn.Identity, "media:", bytes.Repeat([]byte{byte(n)}, rng.IntN(soakStream))), "")
	case n < 75:
		return s.cancel(time.Duration(rng.IntN(4)) * time.Millisecond)
	case n < 85:
		return s.want(s.call(stunt("panics"), mediaText, nil), failure.HandlerError)
	case n < 88:
		return s.want(s.call(stunt("nobody"), mediaText, nil), failure.NoHandler)
	case n < 94:
		policy := host.Online()
		if n%2 == 0 {
			policy = host.Offline()
		}
		return s.p.SetPolicy(policy)
	}
	_, err := s.p.Probe(ctx, pools.Desired{"all": []uint64{0, 2, 5}[rng.IntN(3)]})
	return err
}

// call makes one call with one argument, to its end.
func (s *soak) call(capURN, media string, value []byte) error {
	s.made.Add(1)
	defer s.ended.Add(1)
	got, err := s.p.CallBytes(s.t.Context(), capURN, host.Argument{MediaURN: media, Value: value})
	switch {
	case err != nil:
		return err
	case capURN == urn.Identity && !bytes.Equal(got, value):
		return fmt.Errorf("identity gave %d bytes for %d, or others", len(got), len(value))
	case capURN == stunt("wait") && string(got) != "waited "+string(value):
		return fmt.Errorf("wait %s said %q", value, got)
	}
	return nil
}

// want says whether a call ended with the given code, or well when there is none.
func (s *soak) want(err error, code string) error {
	var remote *failure.Remote
	switch {
	case code == "":
		return err
	case errors.As(err, &remote) && remote.Code == code:
		return nil
	}
	return fmt.Errorf("a call ended with %v, want %s", err, code)
}

// cancel makes a call that does not end, and cancels it, while it waits or while it runs.
func (s *soak) cancel(after time.Duration) error {
	s.made.Add(1)
	call, err := s.p.Call(s.t.Context(), stunt("stall"))
	if err != nil {
		return err
	}
	time.AfterFunc(after, func() { call.Cancel(failure.UserCancel()) })
	<-call.Context().Done()
	s.cancelled.Add(1)
	s.ended.Add(1)
	var reason *failure.CancelledError
	if cause := context.Cause(call.Context()); !errors.As(cause, &reason) {
		return fmt.Errorf("a cancelled call ended with %w", cause)
	}
	return nil
}

// look is what a process at rest is.
type look struct{ memory, goroutines uint64 }

// look lets every call end and measures the process.
func (s *soak) look() look {
	s.resting.Lock()
	defer s.resting.Unlock()
	s.rest()
	for range 2 { // what the first collection frees the second one gives back
		_, err := s.p.CallBytes(s.t.Context(), stunt("settle"))
		require.NoError(s.t, err)
	}
	text, err := s.p.CallBytes(s.t.Context(), stunt("census"))
	require.NoError(s.t, err)
	goroutines, err := strconv.ParseUint(string(text), 10, 64)
	require.NoError(s.t, err)
	return look{s.memory(), goroutines}
}

// rest waits until no pool has anything active or waiting: cancelled handlers may still be on their way out.
func (s *soak) rest() {
	deadline := time.Now().Add(floodPatience)
	for {
		_, err := s.p.Probe(s.t.Context(), pools.Desired{"all": 0})
		require.NoError(s.t, err)
		all := s.p.Pools()["all"]
		if all.Active == 0 && all.Queued == 0 {
			return
		}
		require.True(s.t, time.Now().Before(deadline), "the pool is not empty: %+v", all)
		time.Sleep(time.Millisecond) // between two questions, not for order
	}
}

// memory is what the process occupies, in bytes.
func (s *soak) memory() uint64 {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.p.PID()))
	require.NoError(s.t, err)
	_, rest, _ := strings.Cut(string(status), "\nVmRSS:")
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")), 10, 64)
	require.NoError(s.t, err)
	return kib << 10
}

// finish makes sure that every request has ended once: a second terminal would be a straggler without a cancel.
func (s *soak) finish() {
	s.rest()
	stats := s.p.Stats()
	s.t.Logf("%d calls, %d of them cancelled; %d frames in, %d out", s.made.Load(), s.cancelled.Load(), stats.FramesIn, stats.FramesOut)
	assert.Equal(s.t, s.made.Load(), s.ended.Load())
	assert.Equal(s.t, s.cancelled.Load(), stats.Stragglers.ByFrameType["err"], "one late answer for each cancelled call")
	assert.Zero(s.t, stats.Stragglers.ByFrameType["end"])
	for reason, types := range stats.Drops.ByReasonFrameType {
		assert.Zero(s.t, types["end"]+types["err"], "terminals dropped as %s", reason)
	}
	require.NoError(s.t, s.p.Shutdown(s.t.Context()))
}
