package bifaci

import (
	"os"
	"strconv"
	"syscall"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// terminal is the program's side of a pseudo terminal on which nobody types.
func terminal(t *testing.T) *os.File {
	t.Helper()
	keyboard, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = keyboard.Close() })
	raw, err := keyboard.SyscallConn()
	require.NoError(t, err)
	var unlock, number int32
	for request, value := range map[uintptr]*int32{syscall.TIOCSPTLCK: &unlock, syscall.TIOCGPTN: &number} {
		require.NoError(t, raw.Control(func(fd uintptr) {
			_, _, errno := syscall.Syscall(syscall.SYS_IOCTL, fd, request, uintptr(unsafe.Pointer(value)))
			assert.Zero(t, errno)
		}))
	}
	f, err := os.OpenFile("/dev/pts/"+strconv.Itoa(int(number)), os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	t.Cleanup(func() { _ = f.Close() })
	return f
}

func TestCLITerminal(t *testing.T) {
	t.Run("R-2.13 section 10.4 a terminal is no standard input", func(t *testing.T) {
		for _, streaming := range []bool{false, true} {
			var runs [][]cliSeen
			arg := cliMain(manifest.Position(0)).Streaming(streaming)
			got := cliRunOn(t, cliOne(t, cliWatch(&runs), arg), terminal(t), "work")
			assert.Equal(t, StatusUsage, got.status)
			assert.Regexp(t, `(?i)required argument`, got.stderr)
			got = cliRunOn(t, cliOne(t, cliWatch(&runs), arg.Default("standard")), terminal(t), "work")
			require.NoError(t, got.err)
			assert.Equal(t, [][]cliSeen{{{media: cliText, items: []string{"standard"}}}}, runs)
		}
	})
}
