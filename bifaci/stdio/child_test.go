package stdio

import (
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// spawnSelf starts the test binary in a role, and leaves nothing of it behind.
func spawnSelf(t *testing.T, role string) *Child {
	t.Helper()
	needProcesses(t)
	child, err := Spawn(executable(t), SpawnOptions{Env: childEnv(role)})
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = child.Kill()
		<-child.Done()
		_ = child.Close()
	})
	return child
}

func readText(t *testing.T, in *In) string {
	t.Helper()
	text, err := io.ReadAll(in)
	require.NoError(t, err)
	return string(text)
}

func awaitReady(t *testing.T, child *Child) {
	t.Helper()
	line := make([]byte, len("ready\n"))
	_, err := io.ReadFull(child.Stdout, line)
	require.NoError(t, err)
	require.Equal(t, "ready\n", string(line))
}

func TestSpawn(t *testing.T) {
	t.Run("F6 three pipes, no arguments, an end", func(t *testing.T) {
		child := spawnSelf(t, "echo")
		assert.Positive(t, child.PID())
		_, err := child.Stdin.Write([]byte("over and back"))
		require.NoError(t, err)
		require.NoError(t, child.Stdin.Close())
		assert.Equal(t, "over and back", readText(t, child.Stdout))
		assert.Equal(t, "done", readText(t, child.Stderr))
		state, err := child.Wait()
		require.NoError(t, err)
		assert.True(t, state.Success())
		assert.Equal(t, "exit status 0", state.String())
	})

	t.Run("F6 every waiter learns the status", func(t *testing.T) {
		child := spawnSelf(t, "exit 3")
		var waiters sync.WaitGroup
		states := make([]*os.ProcessState, 8)
		errs := make([]error, len(states))
		for i := range states {
			waiters.Go(func() { states[i], errs[i] = child.Wait() })
		}
		waiters.Wait()
		for i, state := range states {
			require.NoError(t, errs[i])
			assert.Equal(t, "exit status 3", state.String())
			assert.Equal(t, 3, state.ExitCode())
		}
		assert.NoError(t, child.Kill(), "nobody is left to be hit")
	})

	t.Run("F6 a program that is not there", func(t *testing.T) {
		before := openFiles(t)
		path := filepath.Join(t.TempDir(), "missing")
		child, err := Spawn(path, SpawnOptions{})
		assert.Nil(t, child)
		assert.ErrorIs(t, err, fs.ErrNotExist)
		assert.ErrorContains(t, err, "spawn "+path)
		assert.Equal(t, before, openFiles(t), "no pipe is left open")
	})

	t.Run("F6 directory and environment", func(t *testing.T) {
		needProcesses(t)
		child, err := Spawn(executable(t), SpawnOptions{
			Dir: filepath.Join(t.TempDir(), "missing"),
			Env: childEnv("exit 3"),
		})
		assert.Nil(t, child)
		assert.Error(t, err, "the directory is used")
	})
}
