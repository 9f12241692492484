package process

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestExitStatuses(t *testing.T) {
	needsProcess(t)
	for _, c := range []struct {
		name, input string
		args        []string
		status      int
		said        string // on standard error
	}{
		{name: "no HELLO", status: 1, said: "handshake failed"},
		{name: "the manifest", args: []string{"manifest"}, status: 0},
		{name: "a command that succeeds", args: []string{"tokens"}, input: "2", status: 0},
		{name: "a command that fails", args: []string{"fail"}, input: "BROKEN|resource|no room", status: 1, said: "BROKEN: no room"},
		{name: "a command that panics", args: []string{"panic"}, status: 1, said: "panic: as asked"},
		{name: "an unknown command", args: []string{"nonsense"}, status: 2, said: "nonsense"},
		{name: "a missing argument", args: []string{"fail", "surplus"}, status: 2, said: "missing required argument"},
	} {
		t.Run("R-2.36 "+c.name, func(t *testing.T) {
			var said strings.Builder
			cmd := exec.CommandContext(t.Context(), probePath(t), c.args...)
			cmd.Stdin, cmd.Stderr = strings.NewReader(c.input), &said
			var exit *exec.ExitError
			if _, err := cmd.Output(); !errors.As(err, &exit) {
				require.NoError(t, err)
			}
			assert.Equal(t, c.status, cmd.ProcessState.ExitCode(), said.String())
			assert.Contains(t, said.String(), c.said)
		})
	}
}
