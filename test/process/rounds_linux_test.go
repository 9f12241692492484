package process

import (
	"context"
	"errors"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// roundsVariable sets how often cartridges are started and killed; `make soak` sets it to 1000.
const roundsVariable = "PIPE_SOAK_ROUNDS"

func rounds(t *testing.T) int {
	n, err := strconv.Atoi(os.Getenv(roundsVariable))
	if err != nil {
		return 9
	}
	require.Positive(t, n)
	return n
}

// hosted is a host with a real cartridge that is shut down at the end of the test.
func hosted(t *testing.T, opts ...host.Option) (*host.Host, host.ID) {
	t.Helper()
	h := host.New(opts...)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		assert.NoError(t, h.Shutdown(ctx))
	})
	id, err := h.Register(host.Spec{Path: probePath(t), Groups: []manifest.Group{manifest.DefaultGroup(manifest.NewCap(capEcho, "echo", "echo"))}})
	require.NoError(t, err)
	return h, id
}

func pidOf(t *testing.T, h *host.Host, id host.ID) int {
	t.Helper()
	for _, r := range h.Cartridges() {
		if r.Cartridge == id {
			return r.Stats.PID
		}
	}
	t.Fatalf("cartridge %s is not in the inventory", id)
	return 0
}

func TestRounds(t *testing.T) {
	needsProcess(t)
	t.Run("R-12.16 R-12.22 R-12.50 started, killed and started again, a host leaves no process, descriptor or goroutine", func(t *testing.T) {
		h, id := hosted(t)
		var pids []int
		files, routines := 0, 0
		for round := range rounds(t) {
			got, err := h.CallBytes(t.Context(), capEcho, host.Argument{MediaURN: "media:", Value: []byte("hello")})
			require.NoError(t, err, "round %d", round)
			require.Equal(t, "hello", string(got))
			pid := pidOf(t, h, id)
			pids = append(pids, pid)
			call, err := h.Call(t.Context(), capHold) // known since the first HELLO
			require.NoError(t, err)
			want := failure.CartridgeDied
			switch round % 3 {
			case 0:
				require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
			case 1:
				require.NoError(t, h.Kill(id, host.OutOfMemory))
				want = failure.OOMKilled
			case 2:
				reason := failure.UserCancel()
				reason.ForceKill = true
				call.Cancel(reason)
				want = failure.Cancelled
			}
			_, err = call.Response().CollectBytes(t.Context())
			require.Equal(t, want, failure.From(err).Code, "round %d: %v", round, err)
			gone(t, pid)
			if round == 2 { // every way was gone once
				files, routines = settledFiles(t, 1000), settledGoroutines(1000)
			}
		}
		assert.LessOrEqual(t, settledFiles(t, files), files, "descriptors")
		assert.LessOrEqual(t, settledGoroutines(routines), routines, "goroutines")
		for _, pid := range pids {
			gone(t, pid)
		}
	})
	t.Run("R-12.18 R-12.22 stopped when idle and started again", func(t *testing.T) {
		h, id := hosted(t, host.WithIdleTimeout(time.Millisecond))
		for range min(rounds(t), 100) / 2 {
			got, err := h.CallBytes(t.Context(), capEcho, host.Argument{MediaURN: "media:", Value: []byte("hello")})
			require.NoError(t, err, "a request that races the stop is served")
			require.Equal(t, "hello", string(got))
		}
		until(t, "the cartridge to be stopped", func() bool { return pidOf(t, h, id) == 0 })
	})
}

// until waits for what comes without a signal to wait for.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	late := time.After(time.Minute)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("waited a minute for %s", what)
		}
	}
}

// gone waits until a process has ended and was waited for.
func gone(t *testing.T, pid int) {
	t.Helper()
	until(t, "process "+strconv.Itoa(pid)+" to be collected", func() bool {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		// A number may come again; then it is somebody else's child.
		return errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ESRCH) || !strings.Contains(string(stat), " "+strconv.Itoa(os.Getpid())+" ")
	})
}

// settledFiles is the number of open descriptors, at most limit, or what it is after a while.
func settledFiles(t *testing.T, limit int) (n int) {
	t.Helper()
	for range 200 {
		entries, err := os.ReadDir("/proc/self/fd")
		require.NoError(t, err)
		if n = len(entries); n <= limit {
			break
		}
		time.Sleep(10 * time.Millisecond) // between two looks: nothing tells when the number changes
	}
	return n
}

// settledGoroutines is the same for goroutines.
func settledGoroutines(limit int) (n int) {
	for range 200 {
		if n = runtime.NumGoroutine(); n <= limit {
			break
		}
		time.Sleep(10 * time.Millisecond) // between two looks: nothing tells when the number changes
	}
	return n
}
