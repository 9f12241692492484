//go:build unix

package stdio

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestKill(t *testing.T) {
	t.Run("F6 a child that ignores the end of its input and SIGTERM", func(t *testing.T) {
		child := spawnSelf(t, "forever")
		awaitReady(t, child)
		require.NoError(t, child.Stdin.Close())
		require.NoError(t, syscall.Kill(child.PID(), syscall.SIGTERM))
		require.NoError(t, child.Kill())
		state, err := child.Wait()
		require.NoError(t, err)
		assert.Equal(t, "signal: killed", state.String())
		assert.Equal(t, -1, state.ExitCode())
		assert.NoError(t, child.Kill(), "a second time")
		assert.Empty(t, readText(t, child.Stdout))
	})

	t.Run("F6 R-12.22 the end is collected once, nothing stays behind", func(t *testing.T) {
		child := spawnSelf(t, "exit 3")
		<-child.Done() // nobody calls Wait
		_, err := syscall.Wait4(child.PID(), nil, syscall.WNOHANG, nil)
		assert.ErrorIs(t, err, syscall.ECHILD)
	})

	t.Run("F6 its descendants go as well", func(t *testing.T) {
		child := spawnSelf(t, "family")
		awaitReady(t, child)
		awaitReady(t, child)
		require.NoError(t, child.Kill())
		_ = readText(t, child.Stdout) // ends only when nobody holds the pipe any more
		_ = readText(t, child.Stderr)
		state, err := child.Wait()
		require.NoError(t, err)
		assert.Equal(t, "signal: killed", state.String())
	})

	t.Run("F6 the child is a group of its own", func(t *testing.T) {
		child := spawnSelf(t, "forever")
		awaitReady(t, child)
		group, err := syscall.Getpgid(child.PID())
		require.NoError(t, err)
		assert.Equal(t, child.PID(), group)
		assert.NotEqual(t, syscall.Getpgrp(), group)
	})
}
