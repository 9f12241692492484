//go:build linux

package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"
)

// options are the flags of one call.
type options struct {
	targets  []*target
	run      []string // workloads, in order; empty: the default, or all of the table
	chunks   sizes
	concs    sizes
	base     params // what all jobs have in common
	session  sessionConfig
	repeat   int
	maxFrame uint64
	credit   uint64

	settle     time.Duration
	waitQuiet  time.Duration
	maxForeign float64
	retries    int

	table    bool
	json     string
	tabulate []string
}

// defaultRun are the workloads that run when none is named.
var defaultRun = []string{"upload", "download", "echo", "latency", "rps", "items", "tokens", "frames"}

// parseOptions reads the command line. Mistakes are written to stderr, with the usage.
func parseOptions(args []string, stderr io.Writer) (*options, error) {
	o := &options{chunks: sizes{256 << 10}, concs: sizes{1, 16, 256, 2000}}
	fs := flag.NewFlagSet("wiredriver", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var bins, caps list
	var run, tabulate, size, readBuf string
	fs.Var(&bins, "bin", "cartridge to drive, as [name=]path[,version=N][,policy=false][,skip=workload]; may be repeated to compare")
	fs.Var(&caps, "caps", "map a workload's cap, as [bin:]name=URN, or @file with one such mapping per line; may be repeated")
	fs.StringVar(&run, "run", "", "workloads to run, in order, comma separated (default "+strings.Join(defaultRun, ",")+"; with -table those of the table)")
	fs.StringVar(&size, "size", "1GiB", "bytes per upload, download, echo and stall run")
	fs.Var(&o.chunks, "chunk", "max_chunk to propose and upload piece sizes, comma separated")
	fs.Var(&o.concs, "conc", "requests in flight for rps and open, comma separated")
	fs.IntVar(&o.base.N, "n", 0, "count of requests, items, tokens, frames or probes; 0 takes a default per workload")
	fs.IntVar(&o.base.Small, "small", 64, "payload bytes for frames and itemsup")
	fs.IntVar(&o.base.Parallel, "parallel", 1, "concurrent streams that share the bytes of upload, download and echo")
	fs.IntVar(&o.repeat, "repeat", 1, "runs per measurement; targets take turns")
	version := fs.Uint64("version", 6, "protocol version to speak")
	policy := fs.Bool("policy", true, "send the network policy after identity verification")
	fs.BoolVar(&o.session.XID, "xid", true, "give requests a routing id, as routed requests have")
	fs.Uint64Var(&o.credit, "credit", 32, "initial_credit to propose")
	fs.Uint64Var(&o.maxFrame, "max-frame", 3_670_016, "max_frame to propose")
	fs.Uint64Var(&o.session.GrantBatch, "grant-batch", 0, "chunks consumed per credit grant; 0 is half the window")
	fs.Uint64Var(&o.session.VerifyEvery, "verify-every", 64, "verify the checksum of every Nth received chunk; 0 never, 1 always")
	fs.IntVar(&o.session.PipeSize, "pipe-size", 0, "F_SETPIPE_SZ for both pipes; 0 keeps the system's default")
	fs.StringVar(&o.session.Stderr, "stderr", "null", "the cartridge's stderr: null, pipe (drained here) or inherit")
	fs.StringVar(&readBuf, "read-buffer", "1MiB", "read buffer of the driver")
	fs.StringVar(&o.base.HBLoad, "hb-load", "spin", "load during heartbeat: none, spin, upload, download or echo")
	fs.IntVar(&o.base.HBBusy, "hb-busy", 4, "spinning requests during heartbeat with -hb-load spin")
	fs.DurationVar(&o.base.Interval, "hb-interval", 10*time.Millisecond, "time between probes")
	fs.DurationVar(&o.session.Timeout, "timeout", 2*time.Minute, "a wait longer than this is reported as a hang")
	fs.DurationVar(&o.waitQuiet, "wait-quiet", 0, "wait up to this long before each run for the machine to be idle")
	fs.Float64Var(&o.maxForeign, "max-foreign", 1, "repeat a run (up to -retries times) when other processes took more than this share of the CPUs")
	fs.IntVar(&o.retries, "retries", 5, "attempts per run with -max-foreign; the quietest counts")
	fs.DurationVar(&o.settle, "settle", 100*time.Millisecond, "pause before each run")
	fs.BoolVar(&o.table, "table", false, "run the workloads of the table and print it in Markdown; the first -bin is the base of its ratios")
	fs.StringVar(&o.json, "json", "", "file for the JSON lines, - for standard output (the default without -table)")
	fs.StringVar(&tabulate, "tabulate", "", "run nothing: print the table of these recorded -json files, comma separated, the middle one of their ratios")
	if err := fs.Parse(args); err != nil {
		return nil, err
	}
	fail := func(err error) (*options, error) {
		fmt.Fprintln(stderr, "wiredriver:", err)
		return nil, err
	}
	if tabulate != "" {
		o.tabulate = strings.Split(tabulate, ",")
		return o, nil
	}
	if len(bins) == 0 || fs.NArg() > 0 {
		fs.Usage()
		return nil, errors.New("want at least one -bin and no arguments")
	}
	var err error
	if o.base.Size, err = parseSize(size); err != nil {
		return fail(fmt.Errorf("-size: %w", err))
	}
	rb, err := parseSize(readBuf)
	if err != nil || rb <= 0 {
		return fail(fmt.Errorf("-read-buffer: want a positive size, got %q", readBuf))
	}
	o.session.ReadBuffer = int(rb)
	o.base.Timeout = o.session.Timeout
	for _, b := range bins {
		t, err := parseTarget(b, *version, *policy)
		if err != nil {
			return fail(err)
		}
		o.targets = append(o.targets, t)
	}
	for _, m := range caps {
		if err := mapCap(o.targets, m); err != nil {
			return fail(err)
		}
	}
	if o.table && len(o.targets) < 2 {
		return fail(errors.New("-table compares: want two -bin, the base first"))
	}
	if run != "" {
		o.run = strings.Split(run, ",")
		for _, name := range o.run {
			if _, ok := workloads[name]; !ok {
				return fail(unknownWorkload(name))
			}
		}
	}
	return o, nil
}
