package bifaci

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

func TestCLIStdin(t *testing.T) {
	see := func(t *testing.T, stdin io.Reader, args []manifest.Arg, words ...string) ([][]cliSeen, cliResult) {
		var runs [][]cliSeen
		got := cliRunOn(t, cliOne(t, cliWatch(&runs), args...), stdin, append([]string{"work"}, words...)...)
		return runs, got
	}
	whole := []manifest.Arg{cliMain(manifest.Position(0))}
	live := []manifest.Arg{cliMain(manifest.Position(0)).Streaming(true)}

	t.Run("section 10.4 not streaming: read to the end, one value", func(t *testing.T) {
		runs, got := see(t, iotest.OneByteReader(strings.NewReader("all of it")), whole)
		require.NoError(t, got.err)
		assert.Equal(t, [][]cliSeen{{{media: cliText, items: []string{"all of it"}}}}, runs)
	})
	t.Run("section 10.4 a sequence that does not stream is one item", func(t *testing.T) {
		runs, got := see(t, iotest.OneByteReader(strings.NewReader("a\nb\n")), []manifest.Arg{cliMain().Sequence(true)})
		require.NoError(t, got.err)
		assert.Equal(t, [][]cliSeen{{{media: cliText, items: []string{"a\nb\n"}, sequence: true}}}, runs)
	})
	t.Run("section 10.4 zero bytes and no word: an empty value", func(t *testing.T) {
		runs, got := see(t, strings.NewReader(""), whole)
		require.NoError(t, got.err)
		assert.Equal(t, [][]cliSeen{{{media: cliText, items: []string{""}}}}, runs)
	})
	t.Run("section 10.4 zero bytes and a word: not available", func(t *testing.T) {
		runs, got := see(t, strings.NewReader(""), whole, "--verbose")
		assert.Empty(t, runs)
		assert.Equal(t, StatusUsage, got.status)
		assert.Contains(t, got.stderr, "required argument media:main")
	})
	t.Run("section 10.4 the null device counts as piped", func(t *testing.T) {
		null, err := os.Open(os.DevNull)
		require.NoError(t, err)
		defer null.Close()
		runs, got := see(t, null, whole)
		require.NoError(t, got.err)
		assert.Equal(t, [][]cliSeen{{{media: cliText, items: []string{""}}}}, runs)
		runs, got = see(t, null, live, "-x=1")
		require.NoError(t, got.err)
		assert.Equal(t, [][]cliSeen{{{media: cliText, unbounded: true}}}, runs)
	})
	t.Run("section 10.4 no standard input at all", func(t *testing.T) {
		_, got := see(t, nil, whole)
		assert.Equal(t, StatusUsage, got.status)
	})
	t.Run("section 10.4 streaming: one read is one chunk or item, unbounded", func(t *testing.T) {
		for _, sequence := range []bool{false, true} {
			runs, got := see(t, &oneRead{"a", "bc", "def"}, []manifest.Arg{cliMain().Streaming(true).Sequence(sequence)})
			require.NoError(t, got.err)
			assert.Equal(t, [][]cliSeen{{{media: cliText, items: []string{"a", "bc", "def"}, sequence: sequence, unbounded: true}}}, runs)
		}
	})
	t.Run("section 10.4 F15 bytes that come with the end are used", func(t *testing.T) {
		runs, got := see(t, iotest.DataErrReader(strings.NewReader("all")), live)
		require.NoError(t, got.err)
		assert.Equal(t, [][]cliSeen{{{media: cliText, items: []string{"all"}, unbounded: true}}}, runs)
	})
	t.Run("section 10.4 a read is at most max_chunk", func(t *testing.T) {
		var seen []cliSeen
		limits := frame.DefaultLimits()
		limits.MaxChunk = 4
		c := cliMade(t, []manifest.Cap{cliCap("work", live...)}, WithLimits(limits))
		c.HandleFunc(cliCapURN("work"), func(ctx context.Context, r *Request) (err error) {
			seen, err = cliReadAll(ctx, r)
			return err
		})
		require.NoError(t, cliRunOn(t, c, strings.NewReader("0123456789"), "work").err)
		assert.Equal(t, []string{"0123", "4567", "89"}, seen[0].items)
	})
	t.Run("section 10.4 for a streaming main input only it gets stdin", func(t *testing.T) {
		args := []manifest.Arg{cliArg("other", false, manifest.Stdin(cliText)), cliMain().Streaming(true)}
		runs, got := see(t, strings.NewReader("in"), args)
		require.NoError(t, got.err)
		assert.Equal(t, [][]cliSeen{{{media: cliText, items: []string{"in"}, unbounded: true}}}, runs)
	})
	t.Run("section 10.4 a streaming main input that has a word leaves stdin to others", func(t *testing.T) {
		args := []manifest.Arg{cliMain(manifest.Position(0)).Streaming(true), cliArg("other", true, manifest.Stdin(cliText))}
		runs, got := see(t, strings.NewReader("in"), args, "word")
		require.NoError(t, got.err)
		assert.Equal(t, [][]cliSeen{{{media: cliText, items: []string{"word"}}, {media: cliText, items: []string{"in"}}}}, runs)
	})
	t.Run("section 10.2 a read that fails", func(t *testing.T) {
		broken := iotest.ErrReader(errors.New("the disk is gone"))
		_, got := see(t, broken, whole)
		assert.Equal(t, StatusFailed, got.status)
		assert.Equal(t, "reading standard input: the disk is gone\n", got.stderr)
		_, got = see(t, io.MultiReader(strings.NewReader("some"), broken), live)
		assert.Equal(t, StatusFailed, got.status)
		assert.Contains(t, got.stderr, "reading standard input: the disk is gone")
	})
	t.Run("section 10.5 a void cap and one without need of stdin run without it", func(t *testing.T) {
		urn := `cap:in=media:void;out="` + cliText + `";alone`
		c := cliMade(t, []manifest.Cap{manifest.NewCap(urn, "Alone", "alone").WithArgs(cliArg("n", false, manifest.CLIFlag("-n")))})
		c.HandleFunc(urn, says("alone"))
		assert.Equal(t, cliResult{stdout: "alone"}, cliRunOn(t, c, noReads{t}, "alone"))
	})
	t.Run("section 10.5 a cap without arguments takes its in from stdin", func(t *testing.T) {
		runs, got := see(t, strings.NewReader("hi"), nil)
		require.NoError(t, got.err)
		assert.Equal(t, [][]cliSeen{{{media: cliText, items: []string{"hi"}}}}, runs)
		assert.Equal(t, cliResult{stdout: "hi"}, cliRunOn(t, cliMade(t, nil), strings.NewReader("hi"), "identity"))
	})
	t.Run("F3 items are kept as they were", func(t *testing.T) {
		var want []string
		for i := range 500 {
			want = append(want, strings.Repeat(string(rune('a'+i%26)), 1+i*7%300))
		}
		reads := oneRead(append([]string(nil), want...))
		runs, got := see(t, &reads, live)
		require.NoError(t, got.err)
		assert.Equal(t, want, runs[0][0].items)
	})
}

// cliLive runs a command whose main input is live, in the background. Its pipe is not closed: what reads it must end with the command,
// or the synctest bubble does not.
type cliLive struct {
	c      *Cartridge
	feed   *io.PipeWriter
	cancel context.CancelCauseFunc
	done   chan error
}

func startLive(t *testing.T, h Handler) *cliLive {
	l := &cliLive{c: cliOne(t, h, cliMain().Streaming(true)), done: make(chan error, 1)}
	stdin, feed := io.Pipe()
	l.feed = feed
	ctx, cancel := context.WithCancelCause(t.Context())
	l.cancel = cancel
	go func() { l.done <- l.c.RunCLI(ctx, []string{"work"}, stdin, io.Discard, io.Discard) }() // awaited by each test
	return l
}

// itemsTo is a handler that hands its items on to a channel, which it closes at the end.
func itemsTo(items chan<- string) Handler {
	return func(ctx context.Context, r *Request) error {
		defer close(items)
		text, err := r.Input(ctx, cliText)
		if err != nil {
			return err
		}
		for it, err := range text.Items(ctx) {
			if err != nil {
				return err
			}
			items <- string(it.Bytes)
		}
		return nil
	}
}

func TestCLILiveInput(t *testing.T) {
	run := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			for range 20 { // where a select has a choice
				synctest.Test(t, f)
			}
		})
	}
	run("R-2.18 the first interrupt ends the input, behind what was read", func(t *testing.T) {
		items := make(chan string)
		l := startLive(t, itemsTo(items))
		_, err := l.feed.Write([]byte("one"))
		require.NoError(t, err)
		assert.Equal(t, "one", <-items)
		_, err = l.feed.Write([]byte("two"))
		require.NoError(t, err)
		_, err = l.feed.Write([]byte("three"))
		require.NoError(t, err)
		synctest.Wait() // the handler holds "two", the reader "three"
		assert.True(t, l.c.cli.Load().closeFeeds())
		assert.False(t, l.c.cli.Load().closeFeeds(), "the second interrupt finds nothing to close")
		var got []string
		for it := range items {
			got = append(got, it)
		}
		assert.Equal(t, []string{"two", "three"}, got)
		require.NoError(t, <-l.done)
	})
	run("R-2.18 an interrupt before the handler takes its stream counts", func(t *testing.T) {
		started, goOn := make(chan struct{}), make(chan struct{})
		var n int
		l := startLive(t, func(ctx context.Context, r *Request) error {
			close(started)
			<-goOn
			seen, err := cliReadAll(ctx, r)
			n = len(seen[0].items)
			return err
		})
		<-started
		synctest.Wait()
		assert.True(t, l.c.cli.Load().closeFeeds())
		close(goOn)
		require.NoError(t, <-l.done)
		assert.Zero(t, n)
	})
	run("R-2.18 an interrupt while the handler waits releases it, and the reader", func(t *testing.T) {
		items := make(chan string)
		l := startLive(t, itemsTo(items))
		_, err := l.feed.Write([]byte("x"))
		require.NoError(t, err)
		<-items
		synctest.Wait() // handler and reader wait for more
		assert.True(t, l.c.cli.Load().closeFeeds())
		<-items
		require.NoError(t, <-l.done)
	})
	run("R-2.18 after the end of the input there is nothing to close", func(t *testing.T) {
		items, end := make(chan string), make(chan struct{})
		l := startLive(t, func(ctx context.Context, r *Request) error {
			err := itemsTo(items)(ctx, r)
			<-end
			return err
		})
		require.NoError(t, l.feed.Close())
		<-items
		assert.False(t, l.c.cli.Load().closeFeeds())
		close(end)
		require.NoError(t, <-l.done)
	})
	run("R-2.18 the second cancels the handler's context", func(t *testing.T) {
		l := startLive(t, func(ctx context.Context, _ *Request) error {
			<-ctx.Done()
			return context.Cause(ctx)
		})
		synctest.Wait()
		l.cancel(signalError{os.Interrupt})
		var f *failure.Failure
		require.ErrorAs(t, <-l.done, &f)
		assert.Equal(t, "ABORTED: signal: interrupt", f.Error())
	})
	run("F5 a handler that waits for input sees the cancel", func(t *testing.T) {
		items := make(chan string)
		l := startLive(t, itemsTo(items))
		_, err := l.feed.Write([]byte("x"))
		require.NoError(t, err)
		<-items
		synctest.Wait() // handler and reader wait for more
		stop := errors.New("stop")
		l.cancel(stop)
		<-items
		assert.ErrorIs(t, <-l.done, stop)
	})
	run("F1 a handler that leaves early releases the reader", func(t *testing.T) {
		l := startLive(t, func(ctx context.Context, r *Request) error {
			text, err := r.Input(ctx, cliText)
			if err != nil {
				return err
			}
			_, err = text.Next(ctx)
			return err
		})
		_, err := l.feed.Write([]byte("x"))
		require.NoError(t, err)
		require.NoError(t, <-l.done)
	})
	run("F1 a stream that the handler closes gives no more", func(t *testing.T) {
		l := startLive(t, func(ctx context.Context, r *Request) error {
			text, err := r.Input(ctx, cliText)
			if err != nil {
				return err
			}
			if err := text.Close(); err != nil {
				return err
			}
			_, err = text.Next(ctx)
			return err
		})
		assert.ErrorIs(t, <-l.done, ErrClosed)
		assert.False(t, l.c.cli.Load().closeFeeds())
	})
	run("F5 waiting for the whole of stdin sees the cancel", func(t *testing.T) {
		c := cliOne(t, says("no"), cliMain())
		stdin, feed := io.Pipe()
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() { done <- c.RunCLI(ctx, []string{"work"}, stdin, io.Discard, io.Discard) }()
		_, err := feed.Write([]byte("half of it"))
		require.NoError(t, err)
		assert.False(t, c.cli.Load().closeFeeds(), "an interrupt cancels: half an input is no input")
		stop := errors.New("stop")
		cancel(stop)
		assert.ErrorIs(t, <-done, stop)
		_, err = feed.Write([]byte("nobody reads this"))
		assert.ErrorIs(t, err, io.ErrClosedPipe, "the reader was released")
	})
}

func TestCLIFiles(t *testing.T) {
	path := t.TempDir() + "/big"
	content := bytes.Repeat([]byte("0123456789"), 1000)
	require.NoError(t, os.WriteFile(path, content, 0o600))
	arg := func(sequence bool) manifest.Arg {
		return manifest.NewArg("media:enc=utf-8;file-path", true, manifest.Stdin(cliText), manifest.Position(0)).Sequence(sequence)
	}
	limits := frame.DefaultLimits()
	limits.MaxChunk = 4096
	made := func(h Handler, a manifest.Arg, opts ...Option) *Cartridge {
		c := cliMade(t, []manifest.Cap{cliCap("work", a)}, append(opts, WithLimits(limits))...)
		c.HandleFunc(cliCapURN("work"), h)
		return c
	}
	t.Run("R-6.66 a scalar's file comes in pieces, when they are wanted", func(t *testing.T) {
		var sizes []int
		h := func(ctx context.Context, r *Request) error {
			text, err := r.Input(ctx, cliText)
			if err != nil {
				return err
			}
			for it, err := range text.Items(ctx) {
				if err != nil {
					return err
				}
				if sizes = append(sizes, len(it.Bytes)); len(sizes) == 1 {
					if err := os.WriteFile(path, append(content, "more"...), 0o600); err != nil {
						return err
					}
				}
			}
			return nil
		}
		require.NoError(t, cliRunOn(t, made(h, arg(false)), noReads{t}, "work", path).err)
		assert.Equal(t, []int{4096, 4096, 10_004 - 8192}, sizes, "the file grew while it was read")
		require.NoError(t, os.WriteFile(path, content, 0o600))
	})
	t.Run("R-6.66 R-6.29 an item of a sequence is bounded", func(t *testing.T) {
		var runs [][]cliSeen
		got := cliRunOn(t, made(cliWatch(&runs), arg(true), WithMaxItemSize(9_999)), noReads{t}, "work", path)
		assert.Regexp(t, `^ITEM_TOO_LARGE: .*big: .*9999 bytes`, got.stderr)
		got = cliRunOn(t, made(cliWatch(&runs), arg(true), WithMaxItemSize(10_000)), noReads{t}, "work", path)
		require.NoError(t, got.err)
		assert.Equal(t, []string{string(content)}, runs[1][0].items)
	})
	t.Run("R-6.65 a file that vanished is an error when it is opened", func(t *testing.T) {
		h := func(ctx context.Context, r *Request) error {
			if err := os.Remove(path); err != nil {
				return err
			}
			_, err := cliReadAll(ctx, r)
			return err
		}
		got := cliRunOn(t, made(h, arg(false)), noReads{t}, "work", path)
		assert.Regexp(t, `^FILE_PATH: .*big: unreadable: .*\n$`, got.stderr)
		require.NoError(t, os.WriteFile(path, content, 0o600))
	})
	t.Run("F5 reading a file sees the cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		stop := errors.New("stop")
		pieces := 0
		h := func(ctx context.Context, r *Request) error {
			text, err := r.Input(ctx, cliText)
			if err != nil {
				return err
			}
			for _, err := range text.Items(ctx) {
				if err != nil {
					return err
				}
				pieces++
				cancel(stop)
			}
			return nil
		}
		err := made(h, arg(false)).RunCLI(ctx, []string{"work", path}, noReads{t}, io.Discard, io.Discard)
		assert.ErrorIs(t, err, stop)
		assert.Equal(t, 1, pieces)
	})
	t.Run("section 10.3 a handler that forwards pieces cannot tell a file from a pipe", func(t *testing.T) {
		h := func(ctx context.Context, r *Request) error {
			text, err := r.Input(ctx, cliText)
			if err != nil {
				return err
			}
			for p, err := range text.Pieces(ctx) {
				if err != nil {
					return err
				}
				if err := r.Output().Forward(ctx, p); err != nil {
					return err
				}
			}
			return nil
		}
		assert.Equal(t, cliResult{stdout: string(content)}, cliRunOn(t, made(h, arg(false)), noReads{t}, "work", path))
		assert.Equal(t, cliResult{stdout: string(content)}, cliRunOn(t, made(h, arg(false)), bytes.NewReader(content), "work"))
	})
}
