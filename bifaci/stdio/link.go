package stdio

import (
	"errors"
	"os"
	"sync"
)

// Link is the frame input and output of this process, kept private by [Claim].
type Link struct {
	In  *In
	Out *Out

	mu    sync.Mutex
	ended bool // one of Close and Restore was called

	restore func() error // puts the standard descriptors back
	release func() error // undoes what was changed on the open files, closes the duplicates that Restore needs
}

// Close closes both ends for good: the peer sees the end of the output. A Read or Write that waits is woken where
// [In.Interruptible] says so. The standard descriptors stay as Claim made them, so that prints of a program that is
// about to end still find the standard error, and a broken one still kills nobody. A second call does nothing.
func (l *Link) Close() error {
	if !l.claimEnd() {
		return nil
	}
	return l.closeAll()
}

// Restore puts descriptors 0 and 1 back as they were before [Claim], gives SIGPIPE its old meaning, and closes the
// link's own ends. After Close or an earlier Restore it fails with [os.ErrClosed], as the originals are gone.
func (l *Link) Restore() error {
	if !l.claimEnd() {
		return os.ErrClosed
	}
	return errors.Join(l.restore(), l.closeAll())
}

// claimEnd lets one caller end the link.
func (l *Link) claimEnd() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := !l.ended
	l.ended = true
	return first
}

func (l *Link) closeAll() error {
	return errors.Join(l.release(), l.In.Close(), l.Out.Close())
}
