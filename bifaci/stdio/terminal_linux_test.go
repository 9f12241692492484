package stdio

import (
	"bytes"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// openTerminal is a pseudo terminal: the side of a screen and keyboard, and the side of a program.
func openTerminal(t *testing.T) (keyboard, terminal *os.File) {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	var unlock, number int32
	ioctl := func(request uintptr, value *int32) {
		errno := control(t, keyboard, func(fd uintptr) syscall.Errno {
			_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(value)))
			return errno
		})
		require.Zero(t, errno)
	}
	ioctl(syscall.TIOCSPTLCK, &unlock)
	ioctl(syscall.TIOCGPTN, &number)
	fd, err := syscall.Open("/dev/pts/"+strconv.Itoa(int(number)), syscall.O_RDWR|syscall.O_NOCTTY|syscall.O_CLOEXEC, 0)
	require.NoError(t, err)
	terminal = os.NewFile(uintptr(fd), "terminal") // not os.Open, which would set O_NONBLOCK itself
	t.Cleanup(func() { _ = terminal.Close() })
	return keyboard, terminal
}

func TestIsTerminal(t *testing.T) {
	keyboard, terminal := openTerminal(t)
	assert.True(t, IsTerminal(terminal))
	assert.True(t, blocking(t, terminal))
	require.NoError(t, terminal.Close())
	assert.False(t, IsTerminal(terminal), "closed")
	require.NoError(t, keyboard.Close())

	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	require.NoError(t, err)
	defer null.Close()
	assert.False(t, IsTerminal(null), "the null device is a character device, not a terminal")
	file, err := os.Create(t.TempDir() + "/file")
	require.NoError(t, err)
	defer file.Close()
	assert.False(t, IsTerminal(file))
	r, w := pipe(t, t.Cleanup)
	assert.False(t, IsTerminal(r))
	assert.False(t, IsTerminal(w))
	assert.False(t, blocking(t, r), "looking does not change the mode")
	ours, theirs := socketPair(t)
	assert.False(t, IsTerminal(theirs))
	assert.IsType(t, &net.UnixConn{}, ours)
}

func TestClaimTerminal(t *testing.T) {
	t.Run("R-2.21 a terminal stays blocking", func(t *testing.T) {
		keyboard, terminal := openTerminal(t)
		_, err := keyboard.Write([]byte("frames\n\x04")) // a line and the end of input
		require.NoError(t, err)
		outR, outW := pipe(t, t.Cleanup)
		report := runFlags(t, terminal, outW, terminal, outR)
		assert.Equal(t, flagReport{OutWaits: true}, report)
		assert.True(t, blocking(t, terminal))
	})

	t.Run("R-2.20 F7 frames and prints on one terminal still both arrive", func(t *testing.T) {
		keyboard, terminal := openTerminal(t)
		cmd := self(t, "restore")
		cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("hello "), terminal, terminal
		require.NoError(t, cmd.Run())
		require.NoError(t, terminal.Close())
		screen, err := io.ReadAll(keyboard)
		assert.ErrorIs(t, err, syscall.EIO, "how a terminal without programs ends")
		assert.True(t, bytes.Equal([]byte("stray hello done"), screen), "%q", screen)
	})
}
