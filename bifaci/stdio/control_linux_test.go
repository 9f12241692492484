package stdio

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// control asks the system something about the descriptor of file without changing its mode.
func control[T any](t *testing.T, file *os.File, ask func(fd uintptr) T) (answer T) {
	t.Helper()
	raw, err := file.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) { answer = ask(fd) }))
	return answer
}
