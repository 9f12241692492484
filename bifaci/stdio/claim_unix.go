//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package stdio

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

const (
	stdinFD  = 0
	stdoutFD = 1
	stderrFD = 2
)

// Claim makes descriptors 0 and 1 private to the returned link. Afterwards whatever else writes to descriptor
// 1, a print, a C library or a child that inherits it, writes to the standard error, and whoever reads descriptor 0
// finds it empty. A broken standard error or frame pipe gives write errors instead of death by SIGPIPE.
//
// It is meant to be called once, by main, before anything is read from standard input. On failure everything is as
// before. No other goroutine may start a child or use the standard descriptors meanwhile.
func Claim() (*Link, error) {
	var undo cleanup
	link, err := claim(&undo)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("claim standard descriptors: %w", err), undo.run())
	}
	return link, nil
}

func claim(undo *cleanup) (*Link, error) {
	for fd := stdinFD; fd <= stderrFD; fd++ { // a duplicate would take the place of one that is closed
		if _, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFD, 0); errno != 0 {
			return nil, fmt.Errorf("descriptor %d: %w", fd, errno)
		}
	}
	// Everything that can be refused for want of descriptors comes first.
	savedIn, err := duplicate(stdinFD)
	if err != nil {
		return nil, fmt.Errorf("duplicate descriptor 0: %w", err)
	}
	closeIn := func() error { return syscall.Close(savedIn) }
	undo.add(closeIn)
	savedOut, err := duplicate(stdoutFD)
	if err != nil {
		return nil, fmt.Errorf("duplicate descriptor 1: %w", err)
	}
	closeOut := func() error { return syscall.Close(savedOut) }
	undo.add(closeOut)
	release := cleanup{closeIn, closeOut}

	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	defer null.Close()

	// The redirect is undone before the duplicates it needs are closed: cleanup runs backwards.
	var restore cleanup
	restore.add(keepSIGPIPEHarmless())
	undo.add(func() error { return restore.run() })
	if err := replace(int(null.Fd()), stdinFD); err != nil {
		return nil, fmt.Errorf("point descriptor 0 at %s: %w", os.DevNull, err)
	}
	restore.add(func() error { return replace(savedIn, stdinFD) })
	if err := replace(stderrFD, stdoutFD); err != nil {
		return nil, fmt.Errorf("point descriptor 1 at descriptor 2: %w", err)
	}
	restore.add(func() error { return replace(savedOut, stdoutFD) })

	// Only now does no standard descriptor but 2 share an open file with the duplicates.
	inFile, resetIn, err := privateFile(savedIn, syscall.O_RDONLY, "frame input", reopen)
	if err != nil {
		return nil, err
	}
	undo.add(inFile.Close)
	undo.add(resetIn)
	release.add(resetIn)
	outFile, resetOut, err := privateFile(savedOut, syscall.O_WRONLY, "frame output", reopen)
	if err != nil {
		return nil, err
	}
	undo.add(outFile.Close)
	undo.add(resetOut)
	release.add(resetOut)

	in, err := newIn(inFile)
	if err != nil {
		return nil, err
	}
	out, err := newOut(outFile)
	if err != nil {
		return nil, err
	}
	return &Link{In: in, Out: out, restore: restore.run, release: release.run}, nil
}

// privateFile returns a file of its own for what saved has open, waiting in the poller if that can be had without
// touching anybody else's descriptor, and a function that undoes what was done to the open file. saved stays
// the caller's.
func privateFile(saved, mode int, name string, reopen func(fd, mode int) (int, error)) (*os.File, func() error, error) {
	nothing := func() error { return nil }
	var stat syscall.Stat_t
	if err := syscall.Fstat(saved, &stat); err != nil {
		return nil, nil, fmt.Errorf("look at the %s: %w", name, err)
	}
	if canWait(&stat) {
		if fresh, err := reopen(saved, mode|syscall.O_NONBLOCK|syscall.O_CLOEXEC); err == nil {
			return os.NewFile(uintptr(fresh), name), nothing, nil // not shared with anybody
		}
	}
	fd, err := duplicate(saved)
	if err != nil {
		return nil, nil, fmt.Errorf("duplicate the %s: %w", name, err)
	}
	reset := nothing
	if canWait(&stat) && setNonblockUnshared(fd, stderrFD) {
		reset = func() error { return syscall.SetNonblock(saved, false) }
	}
	return os.NewFile(uintptr(fd), name), reset, nil
}

// setNonblockUnshared sets O_NONBLOCK on the open file of fd and reports whether it did. It leaves alone what is set
// already, and what other has open too: the flag belongs to the open file, not to the descriptor, so the kernel is asked
// whether one is the other by setting it on the first and looking at the second.
func setNonblockUnshared(fd, other int) bool {
	if isNonblock(fd) {
		return false
	}
	apart := isNonblock(other)
	if syscall.SetNonblock(fd, true) != nil {
		return false
	}
	if !apart && isNonblock(other) {
		_ = syscall.SetNonblock(fd, false)
		return false
	}
	return true
}

// duplicate is dup(2) with close-on-exec, with no child in between.
func duplicate(fd int) (int, error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	d, err := syscall.Dup(fd)
	if err != nil {
		return -1, err
	}
	syscall.CloseOnExec(d)
	return d, nil
}

// isNonblock reports whether reads and writes of fd fail instead of waiting.
func isNonblock(fd int) bool {
	flags, _, errno := syscall.Syscall(syscall.SYS_FCNTL, uintptr(fd), syscall.F_GETFL, 0)
	return errno == 0 && flags&syscall.O_NONBLOCK != 0
}
