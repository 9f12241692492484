// Command bifaci is the host side of the protocol on the command line: it drives cartridges, checks manifests, and
// evaluates URNs and frames for scripts. Each sub-command stands in a file of its own.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Exit statuses of every sub-command.
const (
	statusOK     = 0 // it was done
	statusFailed = 1 // it was tried and failed; the reason is on stderr
	statusUsage  = 2 // the words make no sense; nothing was tried

	statusTimeout     = 124 // run: not done within --timeout, as timeout(1) says it
	statusInterrupted = 130 // run: cancelled by interrupts, as a shell says it
)

// streams are the process's standard streams, so that tests can hand in others.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// command is one sub-command. run gets the words after the name and returns an exit status.
type command struct {
	name, usage, summary string
	run                  func(ctx context.Context, args []string, std streams) int
}

// commands are listed in this order.
func commands() []command {
	return []command{
		{"run", "run CARTRIDGE CAP [FILE|-]", "start a cartridge, call a cap, print items as they arrive", runRun},
		{"inspect", "inspect CARTRIDGE", "print manifest, caps, limits and pools of a cartridge", runInspect},
		{"ls", "ls ROOT", "list installed cartridges and whether they can be used", runLs},
		{"conform", "conform CARTRIDGE", "judge a cartridge by the rules of the protocol", runConform},
		{"new", "new NAME", "write a starter project of a cartridge", runNew},
		{"frame", "frame", "decode frames: JSON lines in, one JSON line out each", runFrame},
		{"urn", "urn", "evaluate URNs: JSON lines in, one JSON line out each", runURN},
		{"manifest", "manifest FILE…", "check manifests", runManifest},
	}
}

func main() {
	ends := []os.Signal{syscall.SIGTERM}
	if len(os.Args) < 2 || os.Args[1] != "run" { // which counts interrupts
		ends = append(ends, os.Interrupt)
	}
	ctx, stop := signal.NotifyContext(context.Background(), ends...)
	defer stop()
	status := dispatch(ctx, os.Args[1:], streams{os.Stdin, os.Stdout, os.Stderr})
	stop()
	os.Exit(status)
}

// dispatch picks the sub-command that the first word names.
func dispatch(ctx context.Context, args []string, std streams) int {
	if len(args) == 0 {
		usage(std.err)
		return statusUsage
	}
	if args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		usage(std.out)
		return statusOK
	}
	for _, c := range commands() {
		if c.name == args[0] {
			return c.run(ctx, args[1:], std)
		}
	}
	fmt.Fprintf(std.err, "bifaci: unknown sub-command %q\n", args[0])
	usage(std.err)
	return statusUsage
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: bifaci COMMAND [ARGUMENT]…")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-28s %s\n", c.usage, c.summary)
	}
}
