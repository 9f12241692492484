//go:build unix

package stdio

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// playBrokenOutput, like all roles of this file, waits for the end of its input, which is how the test says that it has
// closed a pipe.
func playBrokenOutput() (status int) {
	link, err := Claim()
	if err != nil {
		return fail("claim", err)
	}
	defer fmt.Fprint(os.Stderr, "cleaned up")
	if _, err := io.Copy(io.Discard, link.In); err != nil {
		return fail("read", err)
	}
	for range 2 {
		if _, err := link.Out.Write([]byte("frame")); !errors.Is(err, syscall.EPIPE) {
			return fail("write", err)
		}
	}
	return 1
}

func playBrokenErrors() int {
	link, err := Claim()
	if err != nil {
		return 90
	}
	defer link.Close()
	if _, err := io.Copy(io.Discard, link.In); err != nil {
		return 91
	}
	if _, err := fmt.Fprintln(os.Stderr, "nobody listens"); !errors.Is(err, syscall.EPIPE) {
		return 92
	}
	if _, err := fmt.Println("nor to this"); !errors.Is(err, syscall.EPIPE) {
		return 93
	}
	if err := writeDescriptor1([]byte("nor to this")); !errors.Is(err, syscall.EPIPE) {
		return 94
	}
	log.Print("nor to this")
	if _, err := link.Out.Write([]byte("complete")); err != nil {
		return 95
	}
	if link.Close() != nil {
		return 96
	}
	fmt.Fprintln(os.Stderr, "a last word of main, after the link is gone")
	return 0
}

// playUnclaimed is what happens without Claim, so that the other roles prove something.
func playUnclaimed() int {
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return 91
	}
	fmt.Fprintln(os.Stderr, "nobody listens")
	return 0
}

// playPipeSignal starts a shell that sends itself SIGPIPE.
func playPipeSignal() int {
	link, err := Claim()
	if err != nil {
		return fail("claim", err)
	}
	defer link.Close()
	cmd := exec.Command("/bin/sh", "-c", "kill -PIPE $$; exit 5")
	err = cmd.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return fail("run a shell", err)
	}
	if _, err := link.Out.Write([]byte(exit.String())); err != nil {
		return fail("write", err)
	}
	return 0
}

func TestBrokenPipes(t *testing.T) {
	t.Run("R-2.22 F8 a broken frame output is a write error", func(t *testing.T) {
		child := spawnSelf(t, "broken output")
		require.NoError(t, child.Stdout.Close())
		require.NoError(t, child.Stdin.Close())
		state, err := child.Wait()
		require.NoError(t, err)
		assert.Equal(t, "exit status 1", state.String())
		assert.Equal(t, "cleaned up", readText(t, child.Stderr))
	})

	t.Run("R-2.22 F8 a broken standard error is ignored", func(t *testing.T) {
		child := spawnSelf(t, "broken errors")
		require.NoError(t, child.Stderr.Close())
		require.NoError(t, child.Stdin.Close())
		assert.Equal(t, "complete", readText(t, child.Stdout))
		state, err := child.Wait()
		require.NoError(t, err)
		assert.Equal(t, "exit status 0", state.String())
	})

	t.Run("R-2.22 F8 both are broken", func(t *testing.T) {
		child := spawnSelf(t, "broken output")
		require.NoError(t, child.Stdout.Close())
		require.NoError(t, child.Stderr.Close())
		require.NoError(t, child.Stdin.Close())
		state, err := child.Wait()
		require.NoError(t, err)
		assert.Equal(t, "exit status 1", state.String())
	})

	t.Run("R-2.22 F8 unclaimed, the same kills", func(t *testing.T) {
		child := spawnSelf(t, "unclaimed")
		require.NoError(t, child.Stderr.Close())
		require.NoError(t, child.Stdin.Close())
		state, err := child.Wait()
		require.NoError(t, err)
		assert.Equal(t, "signal: broken pipe", state.String())
	})

	t.Run("R-2.22 children are killed by SIGPIPE as ever", func(t *testing.T) {
		var out, errs bytes.Buffer
		cmd := self(t, "pipe signal")
		cmd.Stdout, cmd.Stderr = &out, &errs
		require.NoError(t, cmd.Run(), "%s", &errs)
		assert.Equal(t, "signal: broken pipe", out.String())
	})
}
