package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
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
	policy := flags.String("policy", "online", "the network policy: online, no-telemetry, our-services or offline")
	timeout := flags.Duration("timeout", 0, "cancel what is not done after this time, the start of the cartridge included; 0 is never")
	live := flags.String("feed", "", "a live feed for the cartridge to capture, in place of the input: a family by `name`, or a live reference")
	selector := flags.String("feed-selector", "", "device, parameters and stop conditions of --feed, as `JSON`")
	stats := flags.Bool("stats", false, "print frames, bytes, credit waits and latency at the end")
	flags.Usage = func() {
		fmt.Fprintln(std.err, "usage: bifaci run [FLAG]… CARTRIDGE CAP [FILE|-]")
		flags.PrintDefaults()
		fmt.Fprintln(std.err, "The first interrupt closes live input, the second cancels. Exit status: 0 a good end, 1 a failure, 2 usage, 124 timeout, 130 cancelled.")
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
	r := &runner{std: std, stats: *stats, given: given, file: "-", timeout: *timeout}
	if len(words) == 3 {
		r.file, r.named = words[2], true
	}
	if err := r.configure(*policy, *live, *selector); err != nil {
		fmt.Fprintln(std.err, "bifaci run:", err)
		return statusUsage
	}
	interrupts := make(chan os.Signal, 2)
	signal.Notify(interrupts, os.Interrupt)
	defer signal.Stop(interrupts)
	return r.status(r.guarded(ctx, interrupts, words[0], words[1]))
}

// configure reads the flags that can be wrong.
func (r *runner) configure(policy, live, selector string) (err error) {
	switch policy {
	case "online":
		r.policy = host.Online()
	case "no-telemetry":
		r.policy = host.NoTelemetry()
	case "our-services":
		r.policy = host.OurServices()
	case "offline":
		r.policy = host.Offline()
	default:
		return fmt.Errorf("--policy %s: want online, no-telemetry, our-services or offline", policy)
	}
	switch {
	case r.timeout < 0:
		return fmt.Errorf("--timeout %v: want a time from 0 on", r.timeout)
	case live != "" && r.named:
		return fmt.Errorf("--feed %s takes the place of the input, so there is nothing to do with %s", live, r.file)
	case live != "":
		r.feed, err = newLiveFeed(live, selector)
		return err
	case selector != "":
		return errors.New("--feed-selector needs --feed")
	}
	return nil
}

// guarded is run with a time limit and under interrupts.
func (r *runner) guarded(ctx context.Context, interrupts <-chan os.Signal, path, capName string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if r.timeout > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, r.timeout, fmt.Errorf("%w %v", errTimeout, r.timeout))
		defer stop()
	}
	r.stopper = &stopper{err: r.std.err, cancel: cancel}
	done, obeyed := make(chan struct{}), make(chan struct{})
	go func() { // waited for below
		defer close(obeyed)
		r.stopper.obey(interrupts, done)
	}()
	err := r.run(ctx, path, capName)
	close(done)
	<-obeyed
	return err
}

// errTimeout is why a run ends whose time is over.
var errTimeout = errors.New("not done within")

// status tells how the run has ended, as an exit status and, when not well, on standard error.
func (r *runner) status(err error) int {
	if err == nil {
		return statusOK
	}
	fmt.Fprintln(r.std.err, "bifaci run:", describe(err))
	var usage *usageError
	switch {
	case errors.As(err, &usage):
		return statusUsage
	case errors.Is(err, errTimeout):
		return statusTimeout
	case r.stopper.byHand(err):
		return statusInterrupted
	}
	return statusFailed
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

	policy  bifaci.Policy
	timeout time.Duration // 0 is none
	feed    *liveFeed     // in place of the input; nil without
	stopper *stopper

	begun, first, last time.Time // of the call, its first and last item
	items              int
	itemBytes          int64
}

func (r *runner) run(ctx context.Context, path, capName string) (err error) {
	p, err := host.Start(ctx, path, host.WithPolicy(r.policy), host.WithStderr(func(line string) { fmt.Fprintln(r.std.err, line) }))
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
	call, err := p.Call(ctx, plan.urn, host.WithCancelReason(failure.HostAbort(failure.Environment, "bifaci run ended")))
	if err != nil {
		return err
	}
	body := source
	var input *tap
	if source != nil && plan.input.streaming { // half an input is no input, but a stream may end at any time
		input = newTap(source)
		defer input.end()
		body = input
	}
	r.stopper.running(call, input)
	fed := make(chan error, 1)
	go func() { // ends with the input, or with the call; see below
		err := plan.feed(ctx, call, body)
		if isFault(err) { // the cartridge must not wait for more
			call.Abandon(err, failure.HostAbort(failure.Environment, "the input could not be sent"))
		}
		fed <- err
	}()
	err = r.print(ctx, call.Response())
	if err != nil {
		call.Cancel(failure.HostAbort(failure.Environment, "bifaci run ended"))
	}
	if input != nil {
		input.end() // nobody wants more
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
