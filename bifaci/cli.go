package bifaci

import (
	"context"
	"io"
)

// UsageError says that a command line makes no sense (spec/manifest-cli.md 9.6).
type UsageError struct {
	Kind   string // UnknownSubcommand or MissingArgument
	Detail string
}

// Error is one line for standard error.
func (e *UsageError) Error() string { return e.Detail }

// RunCLI is command-line mode with the words after the program name (spec/manifest-cli.md sections 9 to 11).
func (c *Cartridge) RunCLI(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	return &UsageError{"UnknownSubcommand", "unknown subcommand " + args[0]}
}
