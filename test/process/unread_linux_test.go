package process

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// unread is a host that reads only when it is told to: a cartridge behind two bare pipes.
type unread struct {
	t       testing.TB
	cmd     *exec.Cmd
	in, out *os.File // the cartridge's
	frames  chan peer.Frame
	ended   chan struct{} // closed when the reader has returned; nil before read
}

// startUnread starts a program and brings its link to life; from there on nothing is read.
func startUnread(t testing.TB, path string, env ...string) *unread {
	t.Helper()
	stdin, in, err := os.Pipe()
	require.NoError(t, err)
	out, stdout, err := os.Pipe()
	require.NoError(t, err)
	u := &unread{t: t, cmd: exec.Command(path), in: in, out: out, frames: make(chan peer.Frame, 1)}
	u.cmd.Stdin, u.cmd.Stdout, u.cmd.Stderr = stdin, stdout, os.Stderr
	u.cmd.Env = append(os.Environ(), env...)
	require.NoError(t, u.cmd.Start())
	require.NoError(t, stdin.Close())
	require.NoError(t, stdout.Close())
	t.Cleanup(u.end)
	u.write(peer.HelloFrame(peer.DefaultLimits()).Encode())
	hello, _, err := peer.ReadFrame(out)
	require.NoError(t, err)
	require.Equal(t, peer.TypeHello, hello.Type())
	u.write(peer.PolicyFrame("online", true).Encode())
	return u
}

func (u *unread) end() {
	err := u.cmd.Process.Kill()
	_ = err // it may have ended
	err = u.cmd.Wait()
	_ = err // it was killed
	require.NoError(u.t, u.in.Close())
	if u.ended != nil {
		<-u.ended // the process held the other end
	}
	require.NoError(u.t, u.out.Close())
}

func (u *unread) write(wire []byte) {
	u.t.Helper()
	_, err := u.in.Write(wire)
	require.NoError(u.t, err)
}

// pour writes whole runs of frames until n bytes are written, or the cartridge has read nothing for as long as idle; then it
// gives what of the last run is still owed.
func (u *unread) pour(run func() []byte, n int, idle time.Duration) (written int, owed []byte) {
	u.t.Helper()
	for written < n {
		wire := run()
		for len(wire) > 0 {
			require.NoError(u.t, u.in.SetWriteDeadline(time.Now().Add(idle)))
			k, err := u.in.Write(wire)
			written += k
			wire = wire[k:]
			if errors.Is(err, os.ErrDeadlineExceeded) && k == 0 {
				require.NoError(u.t, u.in.SetWriteDeadline(time.Time{}))
				return written, wire
			}
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				require.NoError(u.t, err)
			}
		}
	}
	require.NoError(u.t, u.in.SetWriteDeadline(time.Time{}))
	return written, nil
}

// read begins to read; frames that match go to u.frames, the others nowhere.
func (u *unread) read(match func(peer.Frame) bool) {
	u.ended = make(chan struct{})
	go func() { // ends with the process's output; end waits for it
		defer close(u.ended)
		for {
			f, _, err := peer.ReadFrame(u.out)
			if err != nil {
				if !errors.Is(err, io.EOF) {
					u.t.Errorf("reading the cartridge: %v", err)
				}
				return
			}
			if match(f) {
				select {
				case u.frames <- f:
				default:
				}
			}
		}
	}()
}

// memory is a field of the process's status, in bytes.
func (u *unread) memory(field string) uint64 {
	u.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", u.cmd.Process.Pid))
	require.NoError(u.t, err)
	_, rest, _ := strings.Cut(string(status), "\n"+field+":")
	line, _, _ := strings.Cut(rest, "\n")
	kib, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")), 10, 64)
	require.NoError(u.t, err)
	return kib << 10
}
