package stdio

import (
	"errors"
	"fmt"
	"os"
	"syscall"
)

// Claim makes the standard input and output handles private to the returned link. Afterwards whatever else
// writes to the standard output, through os.Stdout, the process's handle or a child that inherits either, writes to the
// standard error, and whoever reads the standard input finds it empty.
//
// It is meant to be called once, by main, before anything is read from standard input. On failure everything is as
// before. No other goroutine may start a child or use the standard handles meanwhile.
func Claim() (*Link, error) {
	var undo cleanup
	link, err := claim(&undo)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("claim standard handles: %w", err), undo.run())
	}
	return link, nil
}

func claim(undo *cleanup) (*Link, error) {
	inFile, err := duplicate(syscall.Stdin, "frame input")
	if err != nil {
		return nil, err
	}
	undo.add(inFile.Close)
	outFile, err := duplicate(syscall.Stdout, "frame output")
	if err != nil {
		return nil, err
	}
	undo.add(outFile.Close)
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	undo.add(null.Close)
	in, err := newIn(inFile)
	if err != nil {
		return nil, err
	}
	out, err := newOut(outFile)
	if err != nil {
		return nil, err
	}

	// A child inherits the variables of package os, C code asks for the process's handles: both have to change. The
	// originals stay open, for Restore.
	var restore cleanup
	undo.add(func() error { return restore.run() })
	wasStdin, wasStdout := os.Stdin, os.Stdout
	wasIn, wasOut := syscall.Stdin, syscall.Stdout
	restore.add(func() error {
		os.Stdin, os.Stdout = wasStdin, wasStdout
		syscall.Stdin, syscall.Stdout = wasIn, wasOut
		return null.Close()
	})
	nullHandle := syscall.Handle(null.Fd())
	if err := setStdHandle(syscall.STD_INPUT_HANDLE, nullHandle); err != nil {
		return nil, err
	}
	restore.add(func() error { return setStdHandle(syscall.STD_INPUT_HANDLE, wasIn) })
	if err := setStdHandle(syscall.STD_OUTPUT_HANDLE, syscall.Stderr); err != nil {
		return nil, err
	}
	restore.add(func() error { return setStdHandle(syscall.STD_OUTPUT_HANDLE, wasOut) })
	os.Stdin, os.Stdout = null, os.Stderr
	syscall.Stdin, syscall.Stdout = nullHandle, syscall.Stderr

	return &Link{In: in, Out: out, restore: restore.run, release: func() error { return nil }}, nil
}

// duplicate is a second handle of the same object that no child inherits.
func duplicate(handle syscall.Handle, name string) (*os.File, error) {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return nil, fmt.Errorf("duplicate the %s: %w", name, err)
	}
	var private syscall.Handle
	err = syscall.DuplicateHandle(self, handle, self, &private, 0, false, syscall.DUPLICATE_SAME_ACCESS)
	if err != nil {
		return nil, fmt.Errorf("duplicate the %s: %w", name, err)
	}
	return os.NewFile(uintptr(private), name), nil
}

// setStdHandle changes what GetStdHandle returns to everybody in this process. which is one of the STD_ constants, which
// the system takes as an unsigned number.
func setStdHandle(which int, handle syscall.Handle) error {
	proc := syscall.NewLazyDLL("kernel32.dll").NewProc("SetStdHandle")
	if ok, _, err := proc.Call(uintptr(uint32(which)), uintptr(handle)); ok == 0 {
		return fmt.Errorf("SetStdHandle(%d): %w", which, err)
	}
	return nil
}
