package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/stdio"
)

// runRun starts a cartridge, calls one of its caps, feeds the main input as it comes and prints items as they arrive.
func runRun(ctx context.Context, args []string, std streams) int {
	flags := flag.NewFlagSet("run", flag.ContinueOnError)
	flags.SetOutput(std.err)
	var given argList
	flags.Var(&given, "arg", "an argument as `URN=VALUE`, or as FLAG=VALUE with one of the cap's own flags; may be repeated")
	stats := flags.Bool("stats", false, "print frames, bytes, credit waits and latency at the end")
	flags.Usage = func() {
		fmt.Fprintln(std.err, "usage: bifaci run [--stats] CARTRIDGE CAP [FILE|-] [--arg URN=VALUE]…")
		flags.PrintDefaults()
	}
	words, err := parseMixed(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusOK
	case err != nil:
		return statusUsage
	case len(words) < 2 || len(words) > 3:
		flags.Usage()
		return statusUsage
	}
	r := &runner{std: std, stats: *stats, given: given, file: "-"}
	if len(words) == 3 {
		r.file, r.named = words[2], true
	}
	if err := r.run(ctx, words[0], words[1]); err != nil {
		fmt.Fprintln(std.err, "bifaci run:", describe(err))
		var usage *usageError
		if errors.As(err, &usage) {
			return statusUsage
		}
		return statusFailed
	}
	return statusOK
}

// parseMixed parses flags that may stand between and behind the words.
func parseMixed(flags *flag.FlagSet, args []string) (words []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if flags.NArg() == 0 {
			return words, nil
		}
		words = append(words, flags.Arg(0))
		args = flags.Args()[1:]
	}
}

// argList collects --arg.
type argList []string

func (l *argList) String() string     { return strings.Join(*l, " ") }
func (l *argList) Set(s string) error { *l = append(*l, s); return nil }

// usageError is a command line that makes no sense for this cartridge.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// describe is CODE: message for a failure of the wire, and the text of any other error.
func describe(err error) string {
	var f failure.Classified
	if errors.As(err, &f) {
		return f.FailureCode() + ": " + f.FailureMessage()
	}
	return err.Error()
}

// runner is one run of one cap.
type runner struct {
	std   streams
	stats bool
	given []string
	file  string // "-" is standard input
	named bool   // file was given as a word

	begun, first, last time.Time // of the call, its first and last item
	items              int
	itemBytes          int64
}

func (r *runner) run(ctx context.Context, path, capName string) (err error) {
	p, err := host.Start(ctx, path, host.WithStderr(func(line string) { fmt.Fprintln(r.std.err, line) }))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Shutdown(context.WithoutCancel(ctx))) }()
	plan, err := r.plan(p.Hello().Manifest, capName)
	if err != nil {
		return err
	}
	source, err := r.open(plan)
	if err != nil {
		return err
	}
	r.begun = time.Now()
	call, err := p.Call(ctx, plan.urn)
	if err != nil {
		return err
	}
	fed := make(chan error, 1)
	go func() { // ends with the input, or with the call; see below
		err := plan.feed(ctx, call, source)
		if isFault(err) { // the cartridge must not wait for more
			call.Abandon(err, failure.HostAbort(failure.Environment, "the input could not be sent"))
		}
		fed <- err
	}()
	err = r.print(ctx, call.Response())
	if err != nil {
		call.Cancel(failure.HostAbort(failure.Environment, "bifaci run ended"))
	}
	if feedErr := r.feedResult(fed, source); err == nil {
		err = feedErr
	}
	r.last = time.Now()
	if died := p.Died(); err != nil && died != nil {
		err = died
	}
	if r.stats {
		r.report(p.Stats())
	}
	return err
}

// feedResult waits for the feeder. An answer that ended well before the input did leaves it blocked in a read that nothing
// may interrupt; then the process ends with it.
func (r *runner) feedResult(fed <-chan error, source io.Reader) error {
	if c, ok := source.(io.Closer); ok {
		if err := c.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
			return err
		}
	}
	select {
	case err := <-fed:
		if !isFault(err) {
			return nil
		}
		return err
	case <-time.After(time.Second):
		return nil
	}
}

// isFault reports whether the feeder failed by itself, rather than because the request or the run had ended, which the answer tells.
func isFault(err error) bool {
	var told failure.Classified
	return err != nil && !errors.Is(err, bifaci.ErrRequestEnded) && !errors.Is(err, os.ErrClosed) && !errors.Is(err, io.ErrClosedPipe) &&
		!errors.As(err, &told)
}

// open opens the main input, when the cap has one.
func (r *runner) open(plan *callPlan) (io.Reader, error) {
	switch {
	case plan.input == nil:
		if r.named {
			return nil, &usageError{fmt.Sprintf("%s takes no input, so there is nothing to do with %s", plan.urn, r.file)}
		}
		return nil, nil
	case r.file != "-":
		return os.Open(r.file)
	case !r.named && plan.inputGiven:
		return nil, nil
	}
	if f, ok := r.std.in.(*os.File); ok && !r.named && stdio.IsTerminal(f) {
		return nil, &usageError{"name a FILE, or - to type the input"}
	}
	return r.std.in, nil
}

// print writes items to standard output as they arrive, and logs to standard error.
func (r *runner) print(ctx context.Context, resp *bifaci.PeerResponse) error {
	show := newProgress(r.std.err)
	defer show.clear()
	for it, err := range resp.Items(ctx) {
		if err != nil {
			return err
		}
		if it.Log != nil {
			show.log(it.Log)
			continue
		}
		if r.items == 0 {
			r.first = time.Now()
		}
		r.items++
		r.itemBytes += int64(len(it.Data.Bytes))
		show.clear()
		if _, err := r.std.out.Write(it.Data.Bytes); err != nil {
			return fmt.Errorf("writing the answer: %w", err)
		}
		it.Data.Release()
	}
	return nil
}

// report prints what the run took.
func (r *runner) report(s host.Stats) {
	w := r.std.err
	fmt.Fprintf(w, "frames    %d to the cartridge, %d from it\n", s.FramesOut, s.FramesIn)
	fmt.Fprintf(w, "bytes     %d to the cartridge, %d from it\n", s.BytesOut, s.BytesIn)
	fmt.Fprintf(w, "credit    %d waits, %v in all\n", s.CreditWaits, s.CreditWaited.Round(time.Microsecond))
	if r.items > 0 {
		fmt.Fprintf(w, "latency   first item after %v, end after %v\n", r.first.Sub(r.begun).Round(time.Microsecond), r.last.Sub(r.begun).Round(time.Microsecond))
	} else {
		fmt.Fprintf(w, "latency   no item, end after %v\n", r.last.Sub(r.begun).Round(time.Microsecond))
	}
	fmt.Fprintf(w, "items     %d, %d bytes\n", r.items, r.itemBytes)
}
