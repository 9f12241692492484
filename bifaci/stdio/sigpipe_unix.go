//go:build unix

package stdio

import (
	"os"
	"os/signal"
	"syscall"
)

// keepSIGPIPEHarmless turns a write to a broken descriptor 1 or 2 into an error; Go would end the process
// otherwise. The returned function ends that.
//
// The signal is taken into a channel that nobody reads instead of being ignored: an ignored signal stays ignored in
// every child, where "producer | head" then no longer ends, while one that is handled is the default again after exec.
func keepSIGPIPEHarmless() (restore func() error) {
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	return func() error {
		signal.Stop(unread)
		return nil
	}
}
