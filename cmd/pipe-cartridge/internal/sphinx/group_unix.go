//go:build unix

package sphinx

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup puts the child into a process group of its own: a program that is a script dies with what it started, and
// an interrupt typed at the terminal does not reach the child before the cartridge has decided what it means.
func ownGroup(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills the group. It also works right after the leader has been waited for: the number stays taken while
// the group has a member, and is nobody's if it has none.
func killGroup(leader *os.Process) { _ = syscall.Kill(-leader.Pid, syscall.SIGKILL) }
