package stdio

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// childVariable makes the test binary play one of childRoles instead of testing.
const childVariable = "BIFACI_STDIO_CHILD"

// deadline is far above what anything here takes.
const deadline = time.Minute

func TestMain(m *testing.M) {
	if role := os.Getenv(childVariable); role != "" {
		os.Exit(childRoles()[role]())
	}
	goleak.VerifyTestMain(m)
}

// childEnv is the environment in which the test binary plays a role. A binary with the race detector would sleep for a
// second at its end.
func childEnv(role string) []string {
	return append(os.Environ(), childVariable+"="+role, "GORACE=atexit_sleep_ms=0")
}

// self is the test binary about to play a role, for the tests that arrange its descriptors themselves.
func self(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	needProcesses(t)
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, executable(t))
	cmd.Env = childEnv(role)
	return cmd
}

func executable(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

func needProcesses(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
}

// eventually waits for what no channel tells, such as another goroutine's arrival in the poller.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(deadline); !holds(); runtime.Gosched() {
		if time.Now().After(end) {
			t.Fatalf("never happened: %s", what)
		}
	}
}

// waitsIn reports whether some goroutine waits in Go's poller below the named function.
func waitsIn(function string) bool {
	stacks := make([]byte, 1<<20)
	stacks = stacks[:runtime.Stack(stacks, true)]
	for _, stack := range strings.Split(string(stacks), "\n\n") {
		if strings.Contains(stack, "[IO wait") && strings.Contains(stack, function+"(") {
			return true
		}
	}
	return false
}

// pipe is an os.Pipe that the test closes.
func pipe(t require.TestingT, cleanup func(func())) (r, w *os.File) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	cleanup(func() {
		_ = r.Close()
		_ = w.Close()
	})
	return r, w
}
