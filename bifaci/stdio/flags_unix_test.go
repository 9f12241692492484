//go:build unix

package stdio

import (
	"encoding/json"
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// flagReport is what a claimed process sees of its descriptors.
type flagReport struct {
	Nonblock      [3]bool // the standard descriptors
	Interruptible bool
	OutWaits      bool // the frame output waits in the poller
}

// playFlags echoes its input behind a report.
func playFlags() int {
	link, err := Claim()
	if err != nil {
		return fail("claim", err)
	}
	defer link.Close()
	report := flagReport{Interruptible: link.In.Interruptible(), OutWaits: link.Out.end.inPoll}
	for fd := range report.Nonblock {
		report.Nonblock[fd] = isNonblock(fd)
	}
	text, err := json.Marshal(report)
	if err != nil {
		return fail("report", err)
	}
	if _, err := link.Out.WriteBuffers([][]byte{text, []byte("\n")}); err != nil {
		return fail("write", err)
	}
	if _, err := io.Copy(link.Out, link.In); err != nil {
		return fail("echo", err)
	}
	return 0
}

// playInheritedFlags reports the flags that a child starts with.
func playInheritedFlags() int {
	for fd := range 3 {
		if isNonblock(fd) {
			return 10 + fd
		}
	}
	return 0
}

// runFlags runs the role with the given descriptors and reads its report and its echo of the word "frames" from out.
func runFlags(t *testing.T, stdin, stdout, stderr *os.File, out io.Reader) flagReport {
	t.Helper()
	cmd := self(t, "flags")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	require.NoError(t, cmd.Start())
	decoder := json.NewDecoder(out)
	var report flagReport
	decodeErr := decoder.Decode(&report)
	if decodeErr == nil {
		rest := make([]byte, len("\nframes"))
		_, decodeErr = io.ReadFull(io.MultiReader(decoder.Buffered(), out), rest)
		assert.Equal(t, "\nframes", string(rest))
	}
	require.NoError(t, cmd.Wait())
	require.NoError(t, decodeErr)
	return report
}

// framesPipe is a standard input that holds the word "frames" and ends.
func framesPipe(t *testing.T) *os.File {
	t.Helper()
	r, w := pipe(t, t.Cleanup)
	_, err := w.WriteString("frames")
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return r
}

// blocking reports how the open file of f is set now, in whichever process it was set.
func blocking(t *testing.T, f *os.File) bool {
	t.Helper()
	raw, err := f.SyscallConn()
	require.NoError(t, err)
	nonblock := true
	require.NoError(t, raw.Control(func(fd uintptr) { nonblock = isNonblock(int(fd)) }))
	return !nonblock
}

func TestNonblock(t *testing.T) {
	t.Run("R-2.21 pipes wait in the poller, descriptors 1 and 2 are untouched", func(t *testing.T) {
		in := framesPipe(t)
		outR, outW := pipe(t, t.Cleanup)
		errR, errW := pipe(t, t.Cleanup)
		report := runFlags(t, in, outW, errW, outR)
		assert.Equal(t, flagReport{Interruptible: true, OutWaits: true}, report)
		assert.True(t, blocking(t, errW))
		assert.True(t, blocking(t, in), "what others have open is as it was")
		assert.True(t, blocking(t, outW), "what others have open is as it was")
		require.NoError(t, errW.Close())
		errs, err := io.ReadAll(errR)
		require.NoError(t, err)
		assert.Empty(t, string(errs))
	})

	t.Run("R-2.21 output and errors on one pipe", func(t *testing.T) {
		outR, outW := pipe(t, t.Cleanup)
		report := runFlags(t, framesPipe(t), outW, outW, outR)
		assert.Equal(t, [3]bool{}, report.Nonblock)
		assert.Equal(t, runtime.GOOS == "linux", report.OutWaits, "only where it can be opened a second time")
		assert.True(t, blocking(t, outW))
	})

	t.Run("R-2.21 sockets wait in the poller and are put back", func(t *testing.T) {
		ours, theirs := socketPair(t)
		_, err := ours.Write([]byte("frames"))
		require.NoError(t, err)
		require.NoError(t, ours.(*net.UnixConn).CloseWrite())
		errR, errW := pipe(t, t.Cleanup)
		report := runFlags(t, theirs, theirs, errW, ours)
		assert.Equal(t, flagReport{Interruptible: true, OutWaits: true}, report)
		assert.True(t, blocking(t, theirs), "put back at the end")
		require.NoError(t, errR.Close())
	})

	t.Run("R-2.21 a socket that is standard error too stays blocking", func(t *testing.T) {
		ours, theirs := socketPair(t)
		_, err := ours.Write([]byte("frames"))
		require.NoError(t, err)
		require.NoError(t, ours.(*net.UnixConn).CloseWrite())
		report := runFlags(t, theirs, theirs, theirs, ours)
		assert.Equal(t, flagReport{}, report)
		assert.True(t, blocking(t, theirs))
	})

	t.Run("R-2.21 a named pipe", func(t *testing.T) {
		path := t.TempDir() + "/fifo"
		require.NoError(t, syscall.Mkfifo(path, 0o600))
		fd, err := syscall.Open(path, syscall.O_RDWR|syscall.O_CLOEXEC, 0) // waits for nobody
		require.NoError(t, err)
		_, err = syscall.Write(fd, []byte("frames"))
		require.NoError(t, err)
		in, err := os.OpenFile(path, os.O_RDONLY, 0)
		require.NoError(t, err)
		defer in.Close()
		require.NoError(t, syscall.Close(fd))
		outR, outW := pipe(t, t.Cleanup)
		errR, errW := pipe(t, t.Cleanup)
		report := runFlags(t, in, outW, errW, outR)
		assert.Equal(t, runtime.GOOS == "linux", report.Interruptible, "kqueue may miss the end of a named pipe")
		assert.True(t, blocking(t, in))
		require.NoError(t, errR.Close())
	})

	t.Run("R-2.21 files are read and written blocking", func(t *testing.T) {
		in, err := os.Create(t.TempDir() + "/in")
		require.NoError(t, err)
		defer in.Close()
		_, err = in.WriteString("frames")
		require.NoError(t, err)
		_, err = in.Seek(0, io.SeekStart)
		require.NoError(t, err)
		_, errW := pipe(t, t.Cleanup)
		outR, outW := pipe(t, t.Cleanup)
		report := runFlags(t, in, outW, errW, outR)
		assert.Equal(t, flagReport{OutWaits: true}, report)
		assert.True(t, blocking(t, in))
	})

	t.Run("R-2.21 a spawned child starts with blocking pipes", func(t *testing.T) {
		state, err := spawnSelf(t, "inherited flags").Wait()
		require.NoError(t, err)
		assert.Equal(t, "exit status 0", state.String())
	})
}

// socketPair is a connection in this process's poller and the blocking other end of it.
func socketPair(t *testing.T) (ours net.Conn, theirs *os.File) {
	t.Helper()
	syscall.ForkLock.RLock()
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(pair[0])
		syscall.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	require.NoError(t, err)
	file := os.NewFile(uintptr(pair[0]), "ours")
	ours, err = net.FileConn(file)
	require.NoError(t, err)
	require.NoError(t, file.Close())
	theirs = os.NewFile(uintptr(pair[1]), "theirs")
	t.Cleanup(func() {
		_ = ours.Close()
		_ = theirs.Close()
	})
	return ours, theirs
}

// TestPrivateFile plays the systems on which nothing can be opened a second time.
func TestPrivateFile(t *testing.T) {
	refuse := func(int, int) (int, error) { return -1, syscall.ENOTSUP }

	// inherited is a descriptor as a process inherits it: of a blocking pipe.
	inherited := func(t *testing.T) int {
		t.Helper()
		r, w := pipe(t, t.Cleanup)
		require.NoError(t, w.Close())
		fd, err := duplicate(int(r.Fd())) // Fd makes the pipe blocking
		require.NoError(t, err)
		t.Cleanup(func() { _ = syscall.Close(fd) })
		require.False(t, isNonblock(fd))
		return fd
	}

	t.Run("R-2.21 the inherited pipe is set and put back", func(t *testing.T) {
		saved := inherited(t)
		file, reset, err := privateFile(saved, syscall.O_RDONLY, "frame input", refuse)
		require.NoError(t, err)
		defer file.Close()
		in, err := newIn(file)
		require.NoError(t, err)
		assert.True(t, in.Interruptible())
		assert.True(t, isNonblock(saved), "one open file, one flag")
		require.NoError(t, reset())
		assert.False(t, isNonblock(saved))
	})

	t.Run("R-2.21 one that waits already is left as it is", func(t *testing.T) {
		saved := inherited(t)
		require.NoError(t, syscall.SetNonblock(saved, true))
		file, reset, err := privateFile(saved, syscall.O_RDONLY, "frame input", refuse)
		require.NoError(t, err)
		defer file.Close()
		in, err := newIn(file)
		require.NoError(t, err)
		assert.True(t, in.Interruptible())
		require.NoError(t, reset())
		assert.True(t, isNonblock(saved), "not ours to change")
	})

	t.Run("R-2.21 two names of one open file are told from two open files", func(t *testing.T) {
		fd := inherited(t)
		same, err := duplicate(fd)
		require.NoError(t, err)
		defer syscall.Close(same)
		assert.False(t, setNonblockUnshared(fd, same))
		assert.False(t, isNonblock(fd))

		other := inherited(t)
		assert.True(t, setNonblockUnshared(fd, other))
		assert.True(t, isNonblock(fd))
		assert.False(t, isNonblock(other))
		require.NoError(t, syscall.SetNonblock(fd, false))

		require.NoError(t, syscall.SetNonblock(other, true))
		assert.True(t, setNonblockUnshared(fd, other), "a file that is set and one that is not are two")
		assert.True(t, isNonblock(fd))
	})

	t.Run("R-2.21 what is not a pipe is not even tried", func(t *testing.T) {
		null, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer null.Close()
		saved := int(null.Fd())
		file, reset, err := privateFile(saved, syscall.O_RDONLY, "frame input", func(int, int) (int, error) {
			t.Error("opened a second time")
			return -1, syscall.ENOTSUP
		})
		require.NoError(t, err)
		defer file.Close()
		assert.False(t, isNonblock(saved))
		require.NoError(t, reset())
	})
}
