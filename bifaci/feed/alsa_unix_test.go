//go:build unix

package feed

import (
	"os"
	"os/exec"
	"testing"
)

// requireALSA skips a test where arecord is missing, unless the environment says that it must be there.
func requireALSA(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath(arecord); err == nil {
		return
	}
	const message = "no program arecord; install the Debian package alsa-utils"
	if os.Getenv("PIPE_REQUIRE_ALSA") == "1" {
		t.Fatal(message)
	}
	t.Skip(message)
}
