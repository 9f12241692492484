//go:build unix

package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
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

// playNoErrors has closed its standard error before it claims.
func playNoErrors() int {
	if err := os.Stderr.Close(); err != nil {
		return 90
	}
	link, err := Claim()
	if link != nil || !errors.Is(err, syscall.EBADF) {
		return 91
	}
	fmt.Print(err)
	return 0
}

func TestClaimRefused(t *testing.T) {
	t.Run("R-2.20 nowhere to point standard output at", func(t *testing.T) {
		var out bytes.Buffer
		cmd := self(t, "no errors")
		cmd.Stdout = &out
		require.NoError(t, cmd.Run())
		assert.Equal(t, "claim standard descriptors: descriptor 2: bad file descriptor", out.String())
	})
}
