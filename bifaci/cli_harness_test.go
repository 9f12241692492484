package bifaci

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// cliText is the medium of texts in command-line tests.
const cliText = "media:enc=utf-8"

// cliCapURN is the URN of the test cap with this slug, from text to text.
func cliCapURN(slug string) string { return `cap:in="` + cliText + `";out="` + cliText + `";` + slug }

// cliCap is a cap from text to text with its arguments.
func cliCap(slug string, args ...manifest.Arg) manifest.Cap {
	return manifest.NewCap(cliCapURN(slug), "Title of "+slug, slug).WithArgs(args...)
}

// cliArg is an argument of that name; cliMain the main input of [cliCap].
func cliArg(name string, required bool, sources ...manifest.Source) manifest.Arg {
	return manifest.NewArg("media:"+name, required, sources...)
}

func cliMain(sources ...manifest.Source) manifest.Arg {
	return cliArg("main", true, append([]manifest.Source{manifest.Stdin(cliText)}, sources...)...)
}

// cliMade is a cartridge with these caps, which have no handlers yet.
func cliMade(t testing.TB, caps []manifest.Cap, opts ...Option) *Cartridge {
	t.Helper()
	caps = append([]manifest.Cap{manifest.IdentityCap()}, caps...)
	c, err := New(manifest.New("tool", "1.2.3", "a tool", manifest.DefaultGroup(caps...)), opts...)
	require.NoError(t, err)
	return c
}

// cliOne is a cartridge with one cap, slug work, and its handler.
func cliOne(t testing.TB, h Handler, args ...manifest.Arg) *Cartridge {
	t.Helper()
	c := cliMade(t, []manifest.Cap{cliCap("work", args...)})
	c.HandleFunc(cliCapURN("work"), h)
	return c
}

// cliResult is what a command did.
type cliResult struct {
	stdout, stderr string
	status         int
	err            error
}

// cliRunOn runs a command line as Main does, but on the test's own streams.
func cliRunOn(t testing.TB, c *Cartridge, stdin io.Reader, words ...string) cliResult {
	t.Helper()
	var out, errs cliBufferSafe
	err := c.RunCLI(t.Context(), words, stdin, &out, &errs)
	status := report(&errs, err)
	return cliResult{out.String(), errs.String(), status, err}
}

// cliBufferSafe is a buffer for several goroutines.
type cliBufferSafe struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *cliBufferSafe) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *cliBufferSafe) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// cliSeen is what a handler saw of its input.
type cliSeen struct {
	media     string
	items     []string
	sequence  bool
	unbounded bool
}

// cliReadAll reads everything a handler is given.
func cliReadAll(ctx context.Context, r *Request) (seen []cliSeen, err error) {
	input, err := r.TakeInput()
	if err != nil {
		return nil, err
	}
	for s, err := range input.All(ctx) {
		if err != nil {
			return nil, err
		}
		one := cliSeen{media: s.MediaURN(), sequence: s.IsSequence(), unbounded: s.IsUnbounded()}
		for it, err := range s.Items(ctx) {
			if err != nil {
				return nil, err
			}
			one.items = append(one.items, string(it.Bytes))
		}
		seen = append(seen, one)
	}
	return seen, nil
}

// cliWatch is a handler that keeps what each of its runs saw.
func cliWatch(runs *[][]cliSeen) Handler {
	return func(ctx context.Context, r *Request) error {
		seen, err := cliReadAll(ctx, r)
		*runs = append(*runs, seen)
		return err
	}
}

// noReads is a standard input that must not be read.
type noReads struct{ t testing.TB }

func (r noReads) Read([]byte) (int, error) {
	r.t.Error("standard input was read")
	return 0, errors.New("not to be read")
}

// oneRead gives its texts one read each.
type oneRead []string

func (r *oneRead) Read(p []byte) (int, error) {
	if len(*r) == 0 {
		return 0, io.EOF
	}
	n := copy(p, (*r)[0])
	*r = (*r)[1:]
	return n, nil
}

func lineCount(s string) int { return strings.Count(s, "\n") }
