//go:build unix

package stdio

import (
	"io"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestIdleProcess(t *testing.T) {
	t.Run("F5 SIGTERM ends the wait for input", func(t *testing.T) {
		child := spawnSelf(t, "idle")
		ready := make([]byte, len("ready"))
		_, err := io.ReadFull(child.Stdout, ready)
		require.NoError(t, err)
		require.NoError(t, syscall.Kill(child.PID(), syscall.SIGTERM))
		assert.Equal(t, ", interrupted", readText(t, child.Stdout))
		state, err := child.Wait()
		require.NoError(t, err)
		assert.Equal(t, "exit status 7", state.String(), "%s", readText(t, child.Stderr))
	})
}
