//go:build unix

package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/host"
)

func TestF6_AChildThatWillNotDie(t *testing.T) {
	needsProcess(t)
	t.Run("R-12.21 R-12.22 is killed after the grace and waited for", func(t *testing.T) {
		const grace = 500 * time.Millisecond
		p, err := host.Start(t.Context(), stuntPath(t), host.WithShutdownGrace(grace), host.WithEnv(append(os.Environ(), "STUNT_MODE=undead")...))
		require.NoError(t, err)
		pid := p.PID()
		require.NoError(t, syscall.Kill(pid, syscall.SIGTERM), "it ignores that")
		start := time.Now()
		err = p.Shutdown(t.Context())
		assert.GreaterOrEqual(t, time.Since(start), grace)
		assert.ErrorContains(t, err, "was killed")
		assert.Contains(t, p.Stderr(), "the run has ended, the process goes on: <nil>")
		assert.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "not even a zombie is left")
		assert.Equal(t, err, p.Shutdown(t.Context()), "a second shutdown")
	})
	t.Run("R-12.21 a child that ends well is not killed", func(t *testing.T) {
		p, err := host.Start(t.Context(), stuntPath(t))
		require.NoError(t, err)
		require.NoError(t, p.Shutdown(t.Context()))
		assert.ErrorIs(t, syscall.Kill(p.PID(), 0), syscall.ESRCH)
	})
}

func TestF6_AChildDoesNotOutliveItsHost(t *testing.T) {
	needsProcess(t)
	t.Run("R-12.13 R-12.22 the host is killed", func(t *testing.T) {
		// Both processes inherit the end of a pipe: it ends when both are gone, wherever an orphan is collected.
		alive, inherited, err := os.Pipe()
		require.NoError(t, err)
		out, hostOut, err := os.Pipe()
		require.NoError(t, err)
		self, err := os.Executable()
		require.NoError(t, err)
		h := exec.Command(self)
		h.Env = append(os.Environ(), hostVariable+"="+stuntPath(t))
		h.Stdout, h.ExtraFiles = hostOut, []*os.File{inherited}
		require.NoError(t, h.Start())
		require.NoError(t, errors.Join(inherited.Close(), hostOut.Close()))
		var pid int
		_, err = fmt.Fscan(out, &pid)
		require.NoError(t, err, "the host has started no cartridge")
		assert.True(t, holds(t, pid, alive), "the cartridge runs")

		require.NoError(t, h.Process.Kill())
		require.Error(t, h.Wait())
		require.NoError(t, alive.SetReadDeadline(time.Now().Add(2*time.Second)))
		_, err = alive.Read(make([]byte, 1))
		if assert.Equal(t, io.EOF, err, "the cartridge %d still runs two seconds after its host was killed", pid); errors.Is(err, os.ErrDeadlineExceeded) {
			require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
		}
		require.NoError(t, errors.Join(alive.Close(), out.Close()))
	})
}

// holds reports whether the process is there and has kept the pipe open.
func holds(t *testing.T, pid int, alive *os.File) bool {
	t.Helper()
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("process %s: %v", strconv.Itoa(pid), err)
		return false
	}
	require.NoError(t, alive.SetReadDeadline(time.Now().Add(10*time.Millisecond)))
	_, err := alive.Read(make([]byte, 1))
	return errors.Is(err, os.ErrDeadlineExceeded)
}
