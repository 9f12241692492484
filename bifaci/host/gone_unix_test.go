//go:build unix

package host_test

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

// wantGone makes sure that a process has ended and was waited for: of a zombie the id is still taken.
func wantGone(t *testing.T, pid int) {
	t.Helper()
	require.ErrorIs(t, syscall.Kill(pid, 0), syscall.ESRCH, "process %d was not collected", pid)
}
