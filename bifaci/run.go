package bifaci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/stdio"
)

// Exit statuses of a cartridge process.
const (
	StatusOK     = 0 // a clean end, or a successful command
	StatusFailed = 1 // a failed run, handshake or handler
	StatusUsage  = 2 // a command line that makes no sense
)

// Run is the cartridge's life as a process: without arguments CBOR mode on standard input and output, with arguments the command
// line (R-2.1). It may be called once. It changes the process: descriptors 0 and 1 are replaced in CBOR mode, so that a stray
// print cannot break a frame.
func (c *Cartridge) Run(ctx context.Context) error {
	if args := os.Args[1:]; len(args) > 0 {
		defer surviveSIGPIPE()()
		return c.RunCLI(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	}
	link, err := stdio.Claim()
	if err != nil {
		return fmt.Errorf("bifaci: taking over standard input and output: %w", err)
	}
	c.process = os.Getenv("GOMAXPROCS") == ""
	err = c.Serve(ctx, link.In, link.Out)
	return errors.Join(err, link.Close())
}

// Main is Run for package main. SIGTERM ends it, and so does the interrupt; on the command line the first interrupt ends a
// live input instead, so that the run drains, and the second one ends it. A command that does not end when it is told to,
// because its handler or the reader of its output stands still, ends with one more signal. A failure goes to standard error, and
// the process exits with one of the statuses. It does not return.
func (c *Cartridge) Main() {
	surviveSIGPIPE() // to the end: the report may go to a closed standard error
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go c.obey(signals, cancel) // ends with the process
	os.Exit(report(os.Stderr, c.Run(ctx)))
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return "signal: " + e.signal.String() }

// obey turns signals into the end of the run.
func (c *Cartridge) obey(signals <-chan os.Signal, cancel context.CancelCauseFunc) {
	told := false
	for s := range signals {
		run := c.cli.Load()
		switch {
		case s == os.Interrupt && run != nil && run.closeFeeds():
		case told && run != nil:
			os.Exit(StatusFailed)
		default:
			told = true
			cancel(signalError{s})
		}
	}
}

// surviveSIGPIPE makes an error of a write to a broken standard output or standard error, for which Go would end the process. The
// signal is taken, not ignored: children would inherit that.
func surviveSIGPIPE() (stop func()) {
	unread := make(chan os.Signal, 1)
	signal.Notify(unread, syscall.SIGPIPE)
	return func() { signal.Stop(unread) }
}

// report prints a failure to w, as one line, and gives the exit status for it.
func report(w io.Writer, err error) int {
	if err == nil {
		return StatusOK
	}
	status, line := StatusFailed, err.Error()
	var usage *UsageError
	var f failure.Classified
	switch {
	case errors.As(err, &usage):
		status, line = StatusUsage, usage.Error()
	case errors.As(err, &f):
		line = f.FailureCode() + ": " + f.FailureMessage()
	}
	_, printErr := fmt.Fprintln(w, oneLine(line))
	_ = printErr // a broken standard error is ignored; the status tells
	return status
}
