package bifaci

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"unicode"
	"unicode/utf8"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// Kinds of a [UsageError] (spec/manifest-cli.md 9.6).
const (
	UnknownSubcommand = "UnknownSubcommand"
	MissingArgument   = "MissingArgument"
)

// UsageError says that a command line makes no sense; the process exits with status 2.
type UsageError struct {
	Kind   string // UnknownSubcommand or MissingArgument
	Detail string // one line
}

// Error is the line for standard error.
func (e *UsageError) Error() string { return e.Detail }

// RunCLI is command-line mode with the words after the program name (spec/manifest-cli.md sections 9 to 11): manifest, --help, or
// a cap by its slug or alias, whose handler runs here with the same [Request] as on a link. Data goes raw to stdout, logs to
// stderr. It returns a [*UsageError], the handler's failure as a [*failure.Failure], or another error, and prints none of them. A
// cartridge runs once. A stdin that blocks in Read when the run ends costs its one goroutine unless it is an io.Closer; os.Stdin is not closed.
func (c *Cartridge) RunCLI(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if err := c.begin(); err != nil {
		return err
	}
	defer c.backlog.drain()
	if len(args) == 0 {
		return &UsageError{UnknownSubcommand, "unknown subcommand: there is no word; try --help"}
	}
	switch args[0] {
	case "manifest":
		b, err := manifest.Indent(c.json)
		if err != nil {
			return err
		}
		_, err = stdout.Write(b)
		return err
	case "--help", "-h":
		return writeText(stdout, c.help())
	}
	def, ok := c.manifest.Lookup(args[0])
	if !ok {
		return &UsageError{UnknownSubcommand, fmt.Sprintf("unknown subcommand %s; try --help", quoted(args[0]))}
	}
	words := args[1:]
	if len(words) == 1 && (words[0] == "--help" || words[0] == "-h") {
		return writeText(stdout, c.capHelp(def))
	}
	return c.runCap(ctx, def, words, stdin, stdout, stderr)
}

func writeText(w io.Writer, text string) error {
	_, err := io.WriteString(w, text)
	return err
}

// begin marks the cartridge as started; it can start once.
func (c *Cartridge) begin() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.started {
		return ErrAlreadyRun
	}
	c.started = true
	return nil
}

// runCap runs the handler of one cap, once, or once per file of a scalar path argument.
func (c *Cartridge) runCap(ctx context.Context, def *manifest.Cap, words []string, stdin io.Reader, stdout, stderr io.Writer) error {
	rt, h, err := c.cliRoute(def)
	if err != nil {
		return err
	}
	run := &cliRun{c: c, stdin: newCLIStdin(stdin), out: stdout, err: stderr, maxChunk: cliChunk(c.opts.limits.MaxChunk)}
	c.cli.Store(run)
	defer run.stdin.stop()
	runs, err := run.plan(ctx, def, words)
	if err != nil {
		return err
	}
	for _, values := range runs {
		if err := run.perform(ctx, rt, h, values); err != nil {
			return cliFailure(ctx, err)
		}
	}
	return nil
}

// cliFailure is how a handler's error ends the command. One that only passes on that the command was ended, by a signal for
// instance, is no fault of the handler.
func cliFailure(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil && (errors.Is(err, cause) || errors.Is(err, ctx.Err())) {
		return failure.Newf(failure.Aborted, failure.Environment, "%w", cause)
	}
	return failure.From(err)
}

// maxCLIChunk bounds how much of the input is read at a time where max_chunk does not, bytes.
const maxCLIChunk = 1 << 20

// cliChunk is how much of the input is read at a time at most.
func cliChunk(maxChunk uint64) int { return int(max(min(maxChunk, maxCLIChunk), 1)) }

// cliRoute finds the handler with the cap's URN as the request (spec/manifest-cli.md 9.3).
func (c *Cartridge) cliRoute(def *manifest.Cap) (*route, *handler, error) {
	request, err := urn.ParseCap(def.URN)
	if err != nil {
		return nil, nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	i, ok := urn.Best(c.patterns(), request, nil)
	if !ok {
		f := failure.Newf(failure.NoHandler, failure.Environment, "No handler registered for cap: %s", def.URN)
		f.Err = ErrNoHandler
		return nil, nil, f
	}
	h := &c.handlers[i]
	return &route{cap: request.String(), pattern: h.pattern.String(), handler: i, def: def}, h, nil
}

// cliRun is the environment of a request in CLI mode.
type cliRun struct {
	c        *Cartridge
	stdin    *cliStdin
	out, err io.Writer
	maxChunk int
	audited  atomic.Bool // a broken output contract was reported, R-6.35

	mu   sync.Mutex
	taps []*tap // of the live feeds of the command
}

func (r *cliRun) options() *options            { return &r.c.opts }
func (r *cliRun) cap(rt *route) *manifest.Cap  { return rt.def }
func (r *cliRun) fail(req *Request, err error) { req.stop(err) }
func (r *cliRun) policy() (Policy, bool) {
	if p := r.c.opts.cliPolicy; p != nil {
		return *p, true
	}
	return Policy{Name: "command line", OurServices: true, Telemetry: true, ThirdParty: true}, true
}

// perform runs the handler once.
func (r *cliRun) perform(ctx context.Context, rt *route, h *handler, values []*cliValue) error {
	req := &Request{env: r, route: rt}
	req.ctx, req.stop = context.WithCancelCause(ctx)
	defer req.stop(context.Canceled)
	src := &cliPackage{run: r, values: values, life: req.ctx, turn: make(chan struct{}, 1), live: make(map[int]*InputStream)}
	req.input.src = src
	sink := newCLISink(r.out, r.err)
	req.out = OutputStream{sink: sink, ctx: req.ctx, keepalive: r.c.opts.keepalive}
	if rt.def.Output != nil {
		req.out.contract = cliContract{r, rt}
	}
	defer src.close()
	defer sink.end()
	err := req.join(callHandler(req.ctx, h, req))
	if err != nil {
		return errors.Join(err, sink.flushAll())
	}
	return sink.Close(req.ctx)
}

// callHandler calls a handler; a panic, or runtime.Goexit, becomes its failure with the stack on the output's log.
func callHandler(ctx context.Context, h *handler, req *Request) (err error) {
	var done sync.WaitGroup
	done.Add(1)
	go guard(func() error { return h.call(ctx, req) }, func(result error) { // Goexit must not end the caller's goroutine
		defer done.Done()
		err = result
		if logErr := logPanic(ctx, req.out.sink, result); logErr != nil {
			err = errors.Join(result, logErr)
		}
	})
	done.Wait()
	return err
}

// call makes the handler of one request and runs it.
func (h *handler) call(ctx context.Context, req *Request) error {
	if h.fn != nil {
		return h.fn(ctx, req)
	}
	op := h.factory()
	if op == nil {
		return fmt.Errorf("the factory of %s returned nil", h.pattern)
	}
	var wet WetContext
	wet.Set(WetKeyRequest, req)
	return op.Perform(ctx, new(DryContext), &wet)
}

// quoted is a word in quotes: as it is when it can be printed.
func quoted(word string) string {
	if strings.ContainsFunc(word, func(r rune) bool { return !unicode.IsPrint(r) }) || !utf8.ValidString(word) {
		return strconv.Quote(word)
	}
	return `"` + word + `"`
}

// oneLine makes a text fit one line of standard error, or of a table.
func oneLine(s string) string { return strings.Join(strings.FieldsFunc(s, unicode.IsControl), " ") }
