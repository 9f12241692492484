package stdio

import (
	"errors"
	"os"
	"syscall"
)

func ownGroup() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// killGroup ends the process alone: a process group of this system receives console events, not an end.
func (c *Child) killGroup() error {
	if err := c.process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}
