package process

import (
	"context"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// plainTimeout is far above what any of these tests takes.
const plainTimeout = 8 * time.Minute

// inPlainBinary runs a test that moves gigabytes, or measures time, in a test binary without the race detector, which would look at
// every byte of it; there is nothing for it to find in a test, and the programs under test are built without it in any case. It
// reports false when this is that binary: then the test does its work.
func inPlainBinary(t *testing.T) bool {
	t.Helper()
	if !raceEnabled {
		return false
	}
	path := programs.TestBinary(t)
	name := strings.Split(t.Name(), "/")
	for i := range name {
		name[i] = "^" + regexp.QuoteMeta(name[i]) + "$"
	}
	ctx, cancel := context.WithTimeout(t.Context(), plainTimeout)
	defer cancel()
	out, err := exec.CommandContext(ctx, path, "-test.v", "-test.run", strings.Join(name, "/")).CombinedOutput()
	t.Logf("%s", out)
	require.NoError(t, err)
	require.Contains(t, string(out), "--- PASS: "+t.Name(), "the test has run there")
	return true
}
