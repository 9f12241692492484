//go:build !unix

package feed

import (
	"os"
	"os/exec"
)

// There are no process groups here; only the program itself is killed.
func ownGroup(*exec.Cmd) {}

func killGroup(leader *os.Process) error { return leader.Kill() }
