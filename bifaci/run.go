package bifaci

import (
	"context"
	"errors"
	"fmt"
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
		return c.RunCLI(ctx, args, os.Stdin, os.Stdout, os.Stderr)
	}
	link, err := stdio.Claim()
	if err != nil {
		return fmt.Errorf("bifaci: taking over standard input and output: %w", err)
	}
	err = c.Serve(ctx, link.In, link.Out)
	return errors.Join(err, link.Close())
}

// Main is Run for package main. SIGTERM ends it, and so does the interrupt; on the command line the first interrupt ends a
// live input instead, so that the run drains, and the second one ends it. A failure goes to standard error, and the
// process exits with one of the statuses. It does not return.
func (c *Cartridge) Main() {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go c.obey(signals, cancel) // ends with the process
	os.Exit(report(c.Run(ctx)))
}

// signalError is the cause of a context that a signal ended.
type signalError struct{ signal os.Signal }

func (e signalError) Error() string { return "signal: " + e.signal.String() }

// obey turns signals into the end of the run.
func (c *Cartridge) obey(signals <-chan os.Signal, cancel context.CancelCauseFunc) {
	for s := range signals {
		run := c.cli.Load()
		if s == os.Interrupt && run != nil && run.closeFeeds() {
			continue
		}
		cancel(signalError{s})
	}
}

// report prints a failure and gives the exit status for it.
func report(err error) int {
	if err == nil {
		return StatusOK
	}
	var usage *UsageError
	if errors.As(err, &usage) {
		fmt.Fprintln(os.Stderr, usage)
		return StatusUsage
	}
	var f failure.Classified
	if errors.As(err, &f) {
		fmt.Fprintf(os.Stderr, "%s: %s\n", f.FailureCode(), oneLine(f.FailureMessage()))
	} else {
		fmt.Fprintln(os.Stderr, oneLine(err.Error()))
	}
	return StatusFailed
}
