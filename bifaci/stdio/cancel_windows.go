package stdio

import (
	"syscall"
	"time"
)

// canCancelReads: CancelIoEx ends a pending synchronous read of the handle.
const canCancelReads = true

const (
	cancelTries = 100
	cancelPause = time.Millisecond
)

// cancelRead ends a pending read. A reader that has looked at the state but not reached the system call yet would be
// missed, so it is asked again until the reader is out; for a tenth of a second, as a console may refuse to cancel.
func cancelRead(in *In) {
	for range cancelTries {
		if !in.reading.Load() {
			return
		}
		_ = in.end.raw.Control(func(handle uintptr) {
			_ = syscall.CancelIoEx(syscall.Handle(handle), nil) // ERROR_NOT_FOUND: nothing pending yet
		})
		time.Sleep(cancelPause)
	}
}
