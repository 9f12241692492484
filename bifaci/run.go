package bifaci

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

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

// Main is Run for package main: SIGTERM and the interrupt end it, a failure goes to standard error, and the process exits with
// one of the statuses. It does not return.
func (c *Cartridge) Main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := c.Run(ctx)
	stop()
	os.Exit(report(err))
}

// report prints a failure and gives the exit status for it.
func report(err error) int {
	if err == nil {
		return StatusOK
	}
	fmt.Fprintln(os.Stderr, err)
	var usage *UsageError
	if errors.As(err, &usage) {
		return StatusUsage
	}
	return StatusFailed
}
