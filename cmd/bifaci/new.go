package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/pipe-cartridge/pipe/cmd/bifaci/internal/starter"
)

// runNew writes a starter project into a new folder.
func runNew(_ context.Context, args []string, std streams) int {
	flags := flag.NewFlagSet("new", flag.ContinueOnError)
	flags.SetOutput(std.err)
	module := flags.String("module", "", "the `path` of the project's own module (default example.com/NAME)")
	replace := flags.String("replace", "", "a `folder` with a checkout of "+starter.Pipe+", in place of a published version")
	flags.Usage = func() {
		fmt.Fprintln(std.err, "usage: bifaci new [--replace DIR] [--module PATH] NAME")
		flags.PrintDefaults()
	}
	words, err := parseMixed(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusOK
	case err != nil:
		return statusUsage
	case len(words) != 1:
		flags.Usage()
		return statusUsage
	}
	p := starter.Project{Name: words[0], Module: *module, Checkout: *replace}
	if p.Module == "" {
		p.Module = "example.com/" + p.Name
	}
	if err := checkNew(&p); err != nil {
		fmt.Fprintln(std.err, "bifaci new:", err)
		return statusUsage
	}
	if err := p.Write(p.Name); err != nil {
		fmt.Fprintln(std.err, "bifaci new:", err)
		return statusFailed
	}
	if _, err := fmt.Fprintf(std.out, "%s is made: cd %s && make build test\n", p.Name, p.Name); err != nil {
		fmt.Fprintln(std.err, "bifaci new:", err)
		return statusFailed
	}
	return statusOK
}

// checkNew checks the words, and finds the version to require when no checkout is named.
func checkNew(p *starter.Project) error {
	if err := starter.CheckName(p.Name); err != nil {
		return err
	}
	if strings.ContainsFunc(p.Module, func(r rune) bool { return r <= ' ' || r == '"' || r == '`' || r > '~' }) {
		return fmt.Errorf("the module path %q will not do", p.Module)
	}
	if p.Checkout != "" {
		return nil
	}
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Path != starter.Pipe || !released(info.Main.Version) {
		return errors.New("this tool was built from a checkout and not from a published version; name the checkout with --replace DIR")
	}
	p.Version = info.Main.Version
	return nil
}

// released reports whether others can get this version of the module.
func released(version string) bool {
	return strings.HasPrefix(version, "v") && !strings.Contains(version, "+dirty") && !strings.HasPrefix(version, "v0.0.0-")
}
