//go:build !unix

package sphinx

import (
	"os"
	"os/exec"
)

// There are no process groups here; only the child itself is killed.
func ownGroup(*exec.Cmd)    {}
func killGroup(*os.Process) {}
