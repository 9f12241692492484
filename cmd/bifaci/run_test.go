package main

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// untouched is an input that must not be read.
type untouched struct{ t *testing.T }

func (u untouched) Read([]byte) (int, error) {
	u.t.Error("the input was read")
	return 0, io.EOF
}

// self is the path of this binary, which is the cartridge.
func self(t *testing.T) string {
	t.Helper()
	t.Setenv(roleVariable, "1")
	t.Setenv("GORACE", "atexit_sleep_ms=0") // a process with the race detector takes a second to exit otherwise
	path, err := os.Executable()
	require.NoError(t, err)
	return path
}

// ran is bifaci run with this binary as the cartridge.
func ran(t *testing.T, stdin io.Reader, words ...string) (status int, stdout, stderr string) {
	t.Helper()
	return dispatched(t.Context(), stdin, append([]string{"run", self(t)}, words...)...)
}

func TestRunGivesArguments(t *testing.T) {
	in := ` "the input"` + "\n"
	for name, row := range map[string]struct {
		words []string
		want  string
	}{
		"by URN, the default for the rest": {[]string{"show", "--arg", "media:name=Ann"},
			"media:level \"3\"\nmedia:name \"Ann\"\n" + text + in},
		"by another spelling of the URN": {[]string{"show", "--arg", `media:ext=rgb;colour=red`, "--arg=-n=Ann"},
			"media:level \"3\"\nmedia:colour;ext=rgb \"red\"\nmedia:name \"Ann\"\n" + text + in},
		"by flag, with and without dashes": {[]string{"--arg", "--level=11", "show", "--arg", "n=Bob"},
			"media:level \"11\"\nmedia:name \"Bob\"\n" + text + in},
		"values with = and blanks, and none": {[]string{"show", "--arg", "n=a=b c", "--arg", "media:colour;ext=rgb="},
			"media:level \"3\"\nmedia:colour;ext=rgb\nmedia:name \"a=b c\"\n" + text + in},
		"the last one counts": {[]string{"show", "--arg", "n=Ann", "--arg", "media:name=Bob"},
			"media:level \"3\"\nmedia:name \"Bob\"\n" + text + in},
		"of a cap by its alias": {[]string{"list", "--arg", "n=Ann"},
			"media:level \"3\"\nmedia:name \"Ann\"\n" + text + in},
		"of a cap by its URN": {[]string{`cap:show;out="media:enc=utf-8";in="media:enc=utf-8"`, "--arg", "n=Ann"},
			"media:level \"3\"\nmedia:name \"Ann\"\n" + text + in},
		"- is standard input": {[]string{"show", "-", "--arg", "n=Ann"},
			"media:level \"3\"\nmedia:name \"Ann\"\n" + text + in},
		"a streaming sequence": {[]string{"items"}, text + " unbounded item" + in},
		"of a cap that the manifest does not list": {[]string{`cap:in="media:hidden";out="media:enc=utf-8";hidden`, "--arg", "media:x;z=v=w"},
			"media:x;z=v \"w\"\nmedia:hidden" + in},
		"of such a cap, by a URN whose tags have values": {[]string{`cap:in="media:hidden";out="media:enc=utf-8";hidden`, "--arg", "media:enc=utf-8=x", "--arg", "media:z=*=v=w"},
			text + " \"x\"\nmedia:z \"v=w\"\nmedia:hidden" + in},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := ran(t, strings.NewReader("the input"), row.words...)
			assert.Equal(t, statusOK, status)
			assert.Empty(t, errs)
			assert.Equal(t, row.want, out)
		})
	}
	t.Run("the main input too, and then standard input is left alone", func(t *testing.T) {
		status, out, errs := ran(t, untouched{t}, "show", "--arg", "n=Ann", "--arg", text+"=given")
		assert.Equal(t, statusOK, status, errs)
		assert.Equal(t, "media:level \"3\"\nmedia:name \"Ann\"\n"+text+" \"given\"\n", out)
	})
	t.Run("the input of a cap that the manifest does not list", func(t *testing.T) {
		status, out, errs := ran(t, untouched{t}, `cap:in="media:hidden";out="media:enc=utf-8";hidden`, "--arg", "media:hidden=given")
		assert.Equal(t, statusOK, status, errs)
		assert.Equal(t, "media:hidden \"given\"\n", out)
	})
	t.Run("a file", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "in.txt")
		require.NoError(t, os.WriteFile(path, []byte("from a file"), 0o600))
		status, out, errs := ran(t, untouched{t}, "echo", path)
		assert.Equal(t, statusOK, status, errs)
		assert.Equal(t, "from a file", out)
	})
	t.Run("a cap without input", func(t *testing.T) {
		status, out, errs := ran(t, untouched{t}, "alone")
		assert.Equal(t, statusOK, status, errs)
		assert.Equal(t, "all alone", out)
	})
}

func TestRunRefusesWhatMakesNoSense(t *testing.T) {
	for name, row := range map[string]struct {
		words []string
		line  string
	}{
		"no cap":                      {nil, "usage: bifaci run"},
		"too many words":              {[]string{"show", "-", "more"}, "usage: bifaci run"},
		"an unknown flag":             {[]string{"show", "--loud"}, "flag provided but not defined"},
		"an unknown cap":              {[]string{"shwo"}, `role has no cap "shwo"; it has identity, show, echo`},
		"a cap URN that is none":      {[]string{"cap:in=text"}, "bifaci run: "},
		"a required argument missing": {[]string{"show"}, "required argument media:name is missing"},
		"an argument that is none":    {[]string{"show", "--arg", "weight=3"}, "--arg weight=3 names no argument of show; it has level, colour, n, media:enc=utf-8"},
		"an argument without a value": {[]string{"show", "--arg", "n"}, "--arg n names no argument"},
		"an unlisted cap's flag":      {[]string{`cap:in="media:hidden";out="media:enc=utf-8";hidden`, "--arg", "n=1"}, "want URN=VALUE"},
		"a file for no input":         {[]string{"alone", "file.txt"}, "takes no input"},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := ran(t, untouched{t}, row.words...)
			assert.Equal(t, statusUsage, status)
			assert.Empty(t, out)
			assert.Contains(t, errs, row.line)
		})
	}
	t.Run("help is no failure", func(t *testing.T) {
		status, _, errs := ran(t, untouched{t}, "--help")
		assert.Equal(t, statusOK, status)
		assert.Contains(t, errs, "usage: bifaci run")
	})
}

func TestRunTellsFailures(t *testing.T) {
	for name, row := range map[string]struct {
		words []string
		line  string // a regular expression
	}{
		"a handler's failure":   {[]string{"fail"}, `^bifaci run: NO_SPACE: the disk is full\n$`},
		"a cap nobody serves":   {[]string{`cap:in="media:enc=utf-8";out="media:enc=utf-8";fly`}, `^bifaci run: NO_HANDLER: .*fly`},
		"a cartridge that dies": {[]string{"die"}, `^bifaci run: CARTRIDGE_DIED: .*exit status 7`},
		"a file that is not":    {[]string{"echo", "nowhere.txt"}, `^bifaci run: .*nowhere\.txt`},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := ran(t, strings.NewReader("x"), row.words...)
			assert.Equal(t, statusFailed, status)
			assert.Empty(t, out)
			assert.Regexp(t, row.line, errs)
		})
	}
	t.Run("a program that is not there", func(t *testing.T) {
		status, _, errs := dispatched(t.Context(), untouched{t}, "run", filepath.Join(t.TempDir(), "nothing"), "echo")
		assert.Equal(t, statusFailed, status)
		assert.Contains(t, errs, "bifaci run: SPAWN_FAILED: ")
	})
	t.Run("a program that ends before it says HELLO", func(t *testing.T) {
		path := self(t)
		t.Setenv(roleVariable, "crash")
		status, _, errs := dispatched(t.Context(), untouched{t}, "run", path, "echo")
		assert.Equal(t, statusFailed, status)
		assert.Contains(t, errs, "bifaci run: SPAWN_FAILED: ")
		assert.Contains(t, errs, "no licence")
	})
	t.Run("an input that breaks", func(t *testing.T) {
		status, _, errs := ran(t, io.MultiReader(strings.NewReader("some"), failing{}), "echo")
		assert.Equal(t, statusFailed, status)
		assert.Contains(t, errs, "the disk is gone")
	})
	t.Run("an output that breaks", func(t *testing.T) {
		var errs buffer
		status := dispatch(t.Context(), []string{"run", self(t), "echo"}, streams{strings.NewReader("x"), failing{}, &errs})
		assert.Equal(t, statusFailed, status)
		assert.Contains(t, errs.String(), "writing the answer: the disk is gone")
	})
}

// failing is a disk that is gone.
type failing struct{}

func (failing) Read([]byte) (int, error)  { return 0, errors.New("the disk is gone") }
func (failing) Write([]byte) (int, error) { return 0, errors.New("the disk is gone") }

// items tells every write.
type items chan string

func (w items) Write(p []byte) (int, error) { w <- string(p); return len(p), nil }

func TestRunIsLive(t *testing.T) {
	start := func(ctx context.Context, t *testing.T, slug string) (feed *io.PipeWriter, out items, done chan int) {
		stdin, feed := io.Pipe()
		out, done = make(items), make(chan int, 1)
		words := []string{"run", self(t), slug}
		go func() { done <- dispatch(ctx, words, streams{stdin, out, io.Discard}) }() // awaited by each test
		return feed, out, done
	}
	t.Run("a piece comes back before the next goes in", func(t *testing.T) {
		feed, out, done := start(t.Context(), t, "echo")
		for _, piece := range []string{"one", "two", "three"} {
			_, err := feed.Write([]byte(piece))
			require.NoError(t, err)
			assert.Equal(t, piece, <-out)
		}
		require.NoError(t, feed.Close())
		assert.Equal(t, statusOK, <-done)
	})
	t.Run("an answer may end before the input does", func(t *testing.T) {
		feed, out, done := start(t.Context(), t, "first")
		_, err := feed.Write([]byte("enough"))
		require.NoError(t, err)
		assert.Equal(t, "enough", <-out)
		assert.Equal(t, statusOK, <-done)
		_, err = feed.Write([]byte("more"))
		assert.ErrorIs(t, err, io.ErrClosedPipe)
	})
	t.Run("a signal ends it", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		feed, out, done := start(ctx, t, "echo")
		_, err := feed.Write([]byte("one"))
		require.NoError(t, err)
		assert.Equal(t, "one", <-out)
		cancel()
		assert.Equal(t, statusFailed, <-done)
	})
}

func TestRunReports(t *testing.T) {
	t.Run("logs, progress and standard error", func(t *testing.T) {
		status, out, errs := ran(t, strings.NewReader("x"), "talk")
		assert.Equal(t, statusOK, status)
		assert.Empty(t, out)
		for _, line := range []string{"[warn] mind the gap\n", "[progress]  50% half way\n", "said on standard error\n"} {
			assert.Contains(t, errs, line)
		}
	})
	t.Run("--stats", func(t *testing.T) {
		status, out, errs := ran(t, strings.NewReader("12345"), "echo", "--stats")
		assert.Equal(t, statusOK, status)
		assert.Equal(t, "12345", out)
		assert.Regexp(t, `^frames    \d+ to the cartridge, \d+ from it
bytes     \d+ to the cartridge, \d+ from it
credit    \d+ waits, \S+ in all
latency   first item after \S+s, end after \S+s
items     1, 5 bytes
$`, errs)
	})
	t.Run("--stats of an empty answer", func(t *testing.T) {
		_, _, errs := ran(t, strings.NewReader("x"), "--stats", "talk")
		assert.Contains(t, errs, "latency   no item, end after ")
		assert.Contains(t, errs, "items     0, 0 bytes\n")
	})
	t.Run("--stats of a failure too", func(t *testing.T) {
		status, _, errs := ran(t, strings.NewReader("x"), "fail", "--stats")
		assert.Equal(t, statusFailed, status)
		assert.Contains(t, errs, "\nitems     0, 0 bytes\nbifaci run: NO_SPACE: the disk is full\n")
	})
}
