package process

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// terminal is a pseudo terminal: its keyboard, and the program's side.
func terminal(t *testing.T) (keyboard, program *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, keyboard.Close()) })
	raw, err := keyboard.SyscallConn()
	require.NoError(t, err)
	var unlock, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		require.NoError(t, raw.Control(func(fd uintptr) {
			_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(value)))
			assert.Zero(t, errno)
		}))
	}
	program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, program.Close()) })
	return keyboard, program
}

// ran is a program's end: its status, its output and its standard error.
func ran(t *testing.T, stdin io.Reader, args ...string) (status int, stdout, stderr string) {
	t.Helper()
	var out, said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), probePath(t), args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &said
	var exit *exec.ExitError
	if err := cmd.Run(); !errors.As(err, &exit) {
		require.NoError(t, err)
	}
	return cmd.ProcessState.ExitCode(), out.String(), said.String()
}

func TestOnlyTheArgumentsDecideTheMode(t *testing.T) {
	needsProcess(t)
	hello := append(peer.HelloFrame(peer.DefaultLimits()).Encode(), peer.PolicyFrame("online", true).Encode()...)
	frames := func(t *testing.T, stdout string) (types []peer.Type) {
		t.Helper()
		for r := bytes.NewReader([]byte(stdout)); r.Len() > 0; {
			f, _, err := peer.ReadFrame(r)
			require.NoError(t, err)
			types = append(types, f.Type())
		}
		return types
	}
	t.Run("R-2.1 no argument: frames, on a pipe", func(t *testing.T) {
		status, stdout, stderr := ran(t, bytes.NewReader(hello))
		assert.Zero(t, status, stderr)
		assert.Equal(t, []peer.Type{peer.TypeHello}, frames(t, stdout))
	})
	t.Run("R-2.1 no argument: frames, on a terminal too", func(t *testing.T) {
		keyboard, program := terminal(t)
		_, err := keyboard.WriteString("help\n") // of which the first four bytes are a length of 1.7 GB
		require.NoError(t, err)
		status, stdout, stderr := ran(t, program)
		assert.Equal(t, 1, status)
		assert.Contains(t, stderr, "handshake failed")
		assert.Contains(t, stderr, "68656c70", "it was read as the length of a frame")
		assert.Empty(t, stdout, "nobody is helped")
	})
	t.Run("R-2.1 no argument: frames, on the null device too", func(t *testing.T) {
		status, stdout, stderr := ran(t, nil)
		assert.Equal(t, 1, status)
		assert.Contains(t, stderr, "handshake failed")
		assert.Empty(t, stdout)
	})
	t.Run("R-2.1 R-2.36 one argument, even an empty one: the command line, whatever stdin holds", func(t *testing.T) {
		status, stdout, stderr := ran(t, bytes.NewReader(hello), "")
		assert.Equal(t, 2, status)
		assert.Contains(t, stderr, "unknown subcommand")
		assert.Empty(t, stdout)
		status, stdout, _ = ran(t, bytes.NewReader(hello), "echo")
		assert.Zero(t, status)
		assert.Equal(t, string(hello), stdout, "frames are bytes like others")
	})
}
