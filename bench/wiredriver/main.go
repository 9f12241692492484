//go:build linux

// Wiredriver spawns cartridges, speaks the frame protocol to them over their
// stdin and stdout as a host would, and measures them. See README.md.
//
// It runs on Linux: it reads the cartridge's processor time and memory from
// /proc.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main without the process; it returns the exit status: 1 when a
// measurement failed, 2 when nothing could be measured.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err != nil {
		return 2
	}
	failed, err := o.perform(stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "wiredriver:", err)
		return 2
	}
	if failed {
		return 1
	}
	return 0
}

// perform does what the flags ask for and reports whether a measurement failed.
func (o *options) perform(stdout, stderr io.Writer) (failed bool, err error) {
	if o.tabulate != nil {
		recordings, err := readRecordings(o.tabulate)
		if err != nil {
			return false, err
		}
		return false, writeTables(stdout, recordings)
	}
	lines := stdout
	switch {
	case o.json == "" && o.table:
		lines = io.Discard
	case o.json != "" && o.json != "-":
		f, err := os.Create(o.json)
		if err != nil {
			return false, err
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		lines = f
	}
	rec := recording{Machine: thisMachine(o.repeat)}
	if err := json.NewEncoder(lines).Encode(rec.Machine); err != nil {
		return false, err
	}
	d := newDriver(o, lines)
	for _, j := range o.jobs() {
		if o.table {
			fmt.Fprintln(stderr, "wiredriver:", j.label())
		}
		sums, err := d.run(j)
		if err != nil {
			return failed, err
		}
		for _, s := range sums {
			failed = failed || s.Failed > 0
		}
		rec.Summaries = append(rec.Summaries, sums...)
	}
	if o.table {
		err = writeTables(stdout, []recording{rec})
	}
	return failed, err
}
