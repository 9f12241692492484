package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

const manifestUsage = "usage: bifaci manifest FILE… (- is standard input)"

// runManifest is the sub-command manifest: it checks files as a host checks the manifest of a HELLO, only strictly, and
// writes one line for each to stdout, "FILE: ok: NAME VERSION, N caps", or for each of its faults one line
// "FILE: CODE: reason". "-" is standard input. Oddities that break no rule are warned of on stderr. What the manifest
// sub-command of a cartridge prints is accepted as it is.
func runManifest(ctx context.Context, args []string, std streams) int {
	if len(args) == 1 && (args[0] == "--help" || args[0] == "-h") {
		fmt.Fprintln(std.out, manifestUsage)
		return statusOK
	}
	if len(args) == 0 {
		fmt.Fprintln(std.err, manifestUsage)
		return statusUsage
	}
	for _, name := range args {
		if name == "" || name != "-" && strings.HasPrefix(name, "-") {
			fmt.Fprintf(std.err, "bifaci manifest: %q is no file; a file of such a name is written ./NAME\n%s\n", name, manifestUsage)
			return statusUsage
		}
	}
	done := make(chan int, 1)
	// Nothing ends a read of a terminal, so on a signal this goroutine is left behind, for the process to end with it.
	go func() { done <- checkManifests(ctx, args, std) }()
	select {
	case status := <-done:
		return status
	case <-ctx.Done():
		return statusFailed
	}
}

func checkManifests(ctx context.Context, names []string, std streams) int {
	status := statusOK
	for _, name := range names {
		if ctx.Err() != nil {
			return statusFailed
		}
		report, warnings, ok := checkManifest(name, std.in)
		if !ok {
			status = statusFailed
		}
		for _, line := range warnings {
			fmt.Fprintf(std.err, "%s: warning: %s\n", name, line)
		}
		for _, line := range report {
			if _, err := fmt.Fprintf(std.out, "%s: %s\n", name, line); err != nil {
				fmt.Fprintf(std.err, "bifaci manifest: %v\n", err)
				return statusFailed
			}
		}
	}
	return status
}

// checkManifest gives the lines about one file, without its name, and whether it is fine.
func checkManifest(name string, in io.Reader) (report, warnings []string, ok bool) {
	text, err := readManifest(name, in)
	if err != nil {
		return []string{"READ: " + oneLine(err.Error())}, nil, false
	}
	m, err := manifest.Parse(text)
	var problems manifest.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			report = append(report, oneLine(p.Error()))
		}
		return report, nil, false
	}
	return []string{oneLine(fmt.Sprintf("ok: %s %s, %d caps", m.Name, m.Version, len(m.CapURNs())))}, m.Warnings(), true
}

// readManifest reads a file, or in for "-". What is longer than a frame is refused, because no HELLO could carry it.
func readManifest(name string, in io.Reader) ([]byte, error) {
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, withoutPath(err)
		}
		defer f.Close()
		in = f
	}
	text, err := io.ReadAll(io.LimitReader(in, frame.MaxBody+1))
	if err != nil {
		return nil, withoutPath(err)
	}
	if len(text) > frame.MaxBody {
		return nil, fmt.Errorf("longer than %d bytes, the most that a frame can carry", frame.MaxBody)
	}
	return text, nil
}

// withoutPath takes the name of the file out of an error, because the line begins with it.
func withoutPath(err error) error {
	var pathErr *os.PathError
	if errors.As(err, &pathErr) {
		return pathErr.Err
	}
	return err
}

// oneLine puts blanks in the place of control characters, so that text from a file cannot break or forge lines.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
