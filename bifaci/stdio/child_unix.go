//go:build unix

package stdio

import (
	"errors"
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}

// killGroup must not be called once the process was collected: the group's id may be somebody else's by then.
func (c *Child) killGroup() error {
	err := syscall.Kill(-c.process.Pid, syscall.SIGKILL)
	if errors.Is(err, syscall.EPERM) { // some systems say so when only a dead leader is left
		err = c.process.Kill()
	}
	if errors.Is(err, syscall.ESRCH) || errors.Is(err, os.ErrProcessDone) {
		return nil
	}
	return err
}
