// Package cli starts real processes on real pipes, as a user of the command line does: the reference cartridge, the probe cartridge,
// and this test binary itself in the role of a cartridge that misbehaves.
package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/internal/tonegen"
	"github.com/pipe-cartridge/pipe/test/peer"
)

// roleVariable, when set, makes this binary the cartridge of roles_test.go.
const roleVariable = "PIPE_TEST_CLI_ROLE"

// deadline is far above what any process here takes.
const deadline = 2 * time.Minute

// programs are the paths of what TestMain has built.
var programs struct{ cartridge, probe, bifaci string }

func TestMain(m *testing.M) {
	if os.Getenv(roleVariable) != "" {
		newRoleCartridge().Main()
	}
	dir, err := os.MkdirTemp("", "cli-")
	if err == nil {
		err = buildAll(dir)
	}
	status := 1
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	} else if status = m.Run(); status == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = 1
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(status)
}

func buildAll(dir string) (err error) {
	const module = "github.com/pipe-cartridge/pipe/"
	for path, pkg := range map[*string]string{
		&programs.cartridge: "cmd/pipe-cartridge", &programs.bifaci: "cmd/bifaci", &programs.probe: "test/probecartridge",
	} {
		if *path, err = peer.Build(dir, module+pkg); err != nil {
			return err
		}
	}
	return nil
}

// command is a program that is killed when it outlives the deadline.
func command(t *testing.T, program string, words ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	t.Cleanup(cancel)
	return exec.CommandContext(ctx, program, words...)
}

// role is this binary as the cartridge of roles_test.go.
func role(t *testing.T, words ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := command(t, self, words...)
	cmd.Env = append(os.Environ(), roleVariable+"=1", "GORACE=atexit_sleep_ms=0") // with the race detector a process takes a second to exit
	return cmd
}

// result is what a process left.
type result struct {
	stdout, stderr string
	status         int
}

// finish runs a command to its end.
func finish(t *testing.T, cmd *exec.Cmd, stdin io.Reader) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	status := statusOf(t, cmd.Run())
	return result{out.String(), errs.String(), status}
}

// statusOf is the exit status that Run or Wait told; a signal's death is -1.
func statusOf(t *testing.T, err error) int {
	t.Helper()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	require.NoError(t, err)
	return 0
}

// wantLine makes sure that standard error is one line, and has a text.
func wantLine(t *testing.T, stderr, text string) {
	t.Helper()
	assert.Equal(t, 1, bytes.Count([]byte(stderr), []byte("\n")), "%q is one line", stderr)
	assert.Contains(t, stderr, text)
}

// message is a text in Morse code with pauses around it.
func message(t *testing.T, text string, rate int, before, after time.Duration) tonegen.Signal {
	t.Helper()
	s, err := tonegen.Morse(text, tonegen.MorseOptions{Rate: rate, WPM: 30})
	require.NoError(t, err)
	s, err = tonegen.Join(tonegen.Silence(rate, before), s, tonegen.Silence(rate, after))
	require.NoError(t, err)
	return s
}

// wav is a signal as a WAV file of 16-bit samples.
func wav(t *testing.T, s tonegen.Signal) []byte {
	t.Helper()
	file, err := tonegen.WAV(s, tonegen.WAVOptions{Format: tonegen.S16})
	require.NoError(t, err)
	return file
}
