package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/pipe-cartridge/pipe/cmd/bifaci/internal/conform"
)

// runConform judges a cartridge. The status is 0 when no check failed; what could not be checked is listed and is no failure.
func runConform(ctx context.Context, args []string, std streams) int {
	flags := flag.NewFlagSet("conform", flag.ContinueOnError)
	flags.SetOutput(std.err)
	var only argList
	flags.Var(&only, "check", "the `id` of a check, instead of all; may be repeated")
	asJSON := flags.Bool("json", false, "write the report as JSON")
	asJUnit := flags.Bool("junit", false, "write the report as JUnit's XML")
	verbose := flags.Bool("v", false, "list the checks that passed as well")
	list := flags.Bool("list", false, "list the checks and make none")
	caps := flags.String("caps", "", "a `file` of lines ROLE=URN: which cap plays which role")
	jobs := flags.Int("jobs", conform.DefaultJobs, "how many checks are made at a time")
	patience := flags.Duration("timeout", conform.DefaultPatience, "how long one awaited thing may take")
	flags.Usage = func() {
		fmt.Fprintf(std.err, "usage: bifaci conform [FLAG]… CARTRIDGE\nroles: %s\n", strings.Join(conform.Roles(), ", "))
		flags.PrintDefaults()
	}
	words, err := parseMixed(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusOK
	case err != nil:
		return statusUsage
	case *list:
		for _, c := range conform.Checks() {
			fmt.Fprintf(std.out, "%-26s %-16s %s\n", c.ID, c.Rule, c.Title)
		}
		return statusOK
	case len(words) != 1 || *asJSON && *asJUnit || *jobs < 1 || *patience <= 0:
		flags.Usage()
		return statusUsage
	}
	opts := conform.Options{Only: only, Jobs: *jobs, Patience: *patience}
	if *caps != "" {
		if opts.Caps, err = readCaps(*caps); err != nil {
			fmt.Fprintln(std.err, "bifaci conform:", err)
			return statusUsage
		}
	}
	report, err := conform.Run(ctx, words[0], opts)
	if err != nil {
		fmt.Fprintln(std.err, "bifaci conform:", err)
		return statusFailed
	}
	switch {
	case *asJSON:
		err = report.WriteJSON(std.out)
	case *asJUnit:
		err = report.WriteJUnit(std.out)
	default:
		err = report.WriteText(std.out, *verbose)
	}
	if err != nil {
		fmt.Fprintln(std.err, "bifaci conform:", err)
		return statusFailed
	}
	if report.Count(conform.Failed) > 0 {
		return statusFailed
	}
	return statusOK
}

func readCaps(path string) (map[string]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	named, err := conform.ReadCaps(f)
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return named, errors.Join(err, f.Close())
}
