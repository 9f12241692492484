//go:build unix

package feed

import (
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes the program the leader of a process group: an interrupt typed at the terminal then ends the feed in the
// cartridge's own way and not the program under it, and a program that is a script dies with what it has started.
func ownGroup(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills it with its group. It also works right after the leader has been waited for: the number stays taken
// while the group has a member, and is nobody's if it has none.
func killGroup(leader *os.Process) error {
	err := syscall.Kill(-leader.Pid, syscall.SIGKILL)
	if err == syscall.ESRCH {
		return os.ErrProcessDone
	}
	return err
}
