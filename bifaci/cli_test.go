package bifaci

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// says is a handler that writes a text.
func says(text string) Handler {
	return func(_ context.Context, r *Request) error {
		_, err := r.Output().Write([]byte(text))
		return err
	}
}

func TestCLIFirstWord(t *testing.T) {
	caps := []manifest.Cap{
		cliCap("one").WithAliases("first", "two"),
		cliCap("two").Describe("the second").WithAliases("deux"),
		manifest.NewCap(cliCapURN("other"), "Other", "two").WithAliases("third"),
	}
	made := func(t *testing.T) *Cartridge {
		c := cliMade(t, caps)
		for _, slug := range []string{"one", "two", "other"} {
			c.HandleFunc(cliCapURN(slug), says("from "+slug))
		}
		return c
	}
	for name, row := range map[string]struct {
		words []string
		want  string // on stdout, a regular expression
	}{
		"R-2.10 section 9.2 manifest":                      {[]string{"manifest"}, `(?s)^{\n  "name": "tool",\n.*}\n$`},
		"R-2.10 section 9.2 manifest ignores what follows": {[]string{"manifest", "--help", "x"}, `(?s)^{\n  "name": "tool",\n.*}\n$`},
		"R-2.11 section 9.2 --help":                        {[]string{"--help"}, `(?s)^usage: tool `},
		"R-2.11 section 9.2 -h with more words":            {[]string{"-h", "two"}, `(?s)^usage: tool SUBCOMMAND `},
		"R-2.12 section 9.2 a slug":                        {[]string{"one", "x"}, `^from one$`},
		"R-2.12 section 9.2 an alias":                      {[]string{"deux", "x"}, `^from two$`},
		"R-2.12 section 9.3 slugs go before aliases":       {[]string{"two", "x"}, `^from two$`},
		"R-2.12 section 9.3 the first of two equal slugs":  {[]string{"two", "y"}, `^from two$`},
		"R-2.12 section 9.3 an alias of a hidden slug":     {[]string{"third", "x"}, `^from other$`},
		"R-2.11 section 9.2 help of a slug":                {[]string{"one", "--help"}, `^usage: tool one `},
		"R-2.11 section 9.2 help of an alias, short":       {[]string{"deux", "-h"}, `^usage: tool two .*\n\nthe second\n`},
		"section 9.2 --help among other words is a flag":   {[]string{"one", "x", "--help"}, `^from one$`},
	} {
		t.Run(name, func(t *testing.T) {
			got := cliRunOn(t, made(t), strings.NewReader("hi"), row.words...)
			require.NoError(t, got.err)
			assert.Regexp(t, row.want, got.stdout)
			assert.Empty(t, got.stderr)
			assert.Equal(t, StatusOK, got.status)
		})
	}
	for name, words := range map[string][]string{
		"no such word":               {"nope"},
		"other case":                 {"ONE"},
		"--version":                  {"--version"},
		"-v":                         {"-v"},
		"the empty word":             {""},
		"a word that needs escaping": {"a\nb"},
		"with quotes and backslash":  {`C:\"x"`},
		"not first":                  {"--flag", "one"},
		"no word at all":             nil,
	} {
		t.Run("R-2.12 R-2.36 section 9.2 UnknownSubcommand: "+name, func(t *testing.T) {
			got := cliRunOn(t, made(t), noReads{t}, words...)
			var usage *UsageError
			require.ErrorAs(t, got.err, &usage)
			assert.Equal(t, UnknownSubcommand, usage.Kind)
			assert.Equal(t, StatusUsage, got.status)
			assert.Empty(t, got.stdout)
			assert.Equal(t, 1, lineCount(got.stderr), got.stderr)
			assert.Contains(t, strings.ToLower(got.stderr), "unknown subcommand")
			if len(words) > 0 && !strings.Contains(words[0], "\n") {
				assert.Contains(t, got.stderr, words[0])
			}
		})
	}
}

func TestCLIManifest(t *testing.T) {
	t.Run("R-2.10 section 9.4 is HELLO's JSON, unknown keys too, indented by two", func(t *testing.T) {
		text := []byte(`{"name":"tool","version":"1","description":"d","later":{"a":[1.50]},"cap_groups":[{"name":"default",` +
			`"caps":[{"urn":"cap:effect=none","title":"Identity","slug":"identity"}]}]}`)
		c, err := NewFromJSON(text)
		require.NoError(t, err)
		got := cliRunOn(t, c, noReads{t}, "manifest")
		assert.JSONEq(t, string(text), got.stdout)
		assert.Equal(t, string(text), string(c.json), "what HELLO carries")
		assert.Contains(t, got.stdout, "\n  \"later\": {\n    \"a\": [\n      1.50\n")
		assert.True(t, strings.HasSuffix(got.stdout, "}\n"))
		assert.Zero(t, got.status)
	})
	t.Run("R-2.10 what is printed is a valid manifest", func(t *testing.T) {
		got := cliRunOn(t, cliMade(t, []manifest.Cap{cliCap("work", cliMain(manifest.Position(0)))}), noReads{t}, "manifest")
		m, err := manifest.Parse([]byte(got.stdout))
		require.NoError(t, err)
		require.NoError(t, m.Validate())
	})
}

func TestCLIHelp(t *testing.T) {
	caps := []manifest.Cap{
		cliCap("work",
			cliArg("level", true, manifest.CLIFlag("--level")).Default("a\nb").Describe("how\nloud"),
			cliArg("size", false, manifest.CLIFlag("--size")),
			cliArg("name", true, manifest.Position(0), manifest.Stdin(cliText)).Describe("who it is"),
			cliArg("list", true, manifest.FilePath("media:list")).Describe("a file of names"),
		).Describe("does\tthe work"),
		cliCap("titled"),
		manifest.NewCap(`cap:in=media:void;out="`+cliText+`";alone`, "Alone", "alone"),
	}
	help := func(words ...string) []string {
		got := cliRunOn(t, cliMade(t, caps), noReads{t}, words...)
		require.NoError(t, got.err)
		require.Empty(t, got.stderr)
		spaces := regexp.MustCompile(` {2,}`)
		var lines []string
		for line := range strings.Lines(got.stdout) {
			if line = spaces.ReplaceAllString(strings.TrimSpace(line), "|"); line != "" {
				lines = append(lines, line)
			}
		}
		return lines
	}
	t.Run("R-2.11 section 9.5 lists manifest and every cap in order", func(t *testing.T) {
		lines := help("--help")
		assert.Equal(t, "usage: tool SUBCOMMAND [ARGUMENT]…", lines[0])
		assert.Equal(t, []string{"manifest|print the manifest", "identity|Identity", "work|does the work", "titled|Title of titled", "alone|Alone"}, lines[1:6])
		assert.Equal(t, lines, help("-h"))
	})
	t.Run("R-2.11 section 9.5 one line for each source of each argument", func(t *testing.T) {
		assert.Equal(t, []string{
			"usage: tool work [ARGUMENT]…", "does the work",
			"--level|how loud|(default a b)",
			"--size",
			"<arg0>|who it is|(required)",
			"<stdin>|who it is|(required)",
			"<file>|a file of names|(required)",
		}, help("work", "--help"))
	})
	t.Run("section 9.5 a cap without arguments, and one with the implied one", func(t *testing.T) {
		assert.Equal(t, []string{"usage: tool alone [ARGUMENT]…", "Alone"}, help("alone", "-h"))
		assert.Equal(t, []string{"usage: tool titled [ARGUMENT]…", "Title of titled", "<stdin>|(required)"}, help("titled", "-h"))
	})
}

func TestCLIStatus(t *testing.T) {
	file := filepath.Join(t.TempDir(), "a.txt")
	require.NoError(t, os.WriteFile(file, []byte("in a file"), 0o600))
	fileArg := manifest.NewArg("media:enc=utf-8;file-path", true, manifest.Stdin(cliText), manifest.Position(0))
	for name, row := range map[string]struct {
		handler Handler
		args    []manifest.Arg
		words   []string
		status  int
		out     string
		line    string // a regular expression for the one line on stderr; empty for none
	}{
		"success":                  {handler: says("done"), words: []string{"work", "x"}, out: "done"},
		"success with nothing":     {handler: says(""), words: []string{"work", "x"}},
		"required argument absent": {handler: says("no"), args: []manifest.Arg{cliMain(), cliArg("who", true, manifest.CLIFlag("--who"))}, words: []string{"work"}, status: 2, line: `(?i)^.*required argument.*media:who.*--who`},
		"all of them together":     {handler: says("no"), args: []manifest.Arg{cliMain(), cliArg("b", true, manifest.Position(0)), cliArg("c", true, manifest.CLIFlag("-c"))}, words: []string{"work"}, status: 2, line: `(?i)required argument media:b, required argument media:c \(-c\)`},
		"no handler":               {words: []string{"work", "x"}, status: 1, line: `^NO_HANDLER: .*work`},
		"file not found":           {handler: says("no"), args: []manifest.Arg{fileArg}, words: []string{"work", "nowhere.txt"}, status: 1, line: `^FILE_PATH: nowhere\.txt: not found\n$`},
		"glob without a match":     {handler: says("no"), args: []manifest.Arg{fileArg}, words: []string{"work", "nowhere*"}, status: 1, line: `^FILE_PATH: nowhere\*: no match\n$`},
		"R-2.17 a failure":         {handler: func(context.Context, *Request) error { return failure.New("BUSY", failure.Resource, "come\nback") }, words: []string{"work", "x"}, status: 1, line: `^BUSY: come back\n$`},
		"R-2.17 an untyped error":  {handler: func(context.Context, *Request) error { return errors.New("it broke") }, words: []string{"work", "x"}, status: 1, line: `^HANDLER_ERROR: it broke\n$`},
		"R-2.17 what was written": {handler: func(_ context.Context, r *Request) error {
			return errors.Join(says("half")(nil, r), errors.New("late"))
		}, words: []string{"work", "x"}, status: 1, out: "half", line: `^HANDLER_ERROR: late\n$`},
		"R-2.17 a wrapped failure":  {handler: func(context.Context, *Request) error { return errors.Join(failure.New("X", failure.Input, "y")) }, words: []string{"work", "x"}, status: 1, line: `^X: y\n$`},
		"with a file as main input": {handler: echoCLI, args: []manifest.Arg{fileArg}, words: []string{"work", file}, out: "in a file"},
	} {
		t.Run("R-2.36 section 9.6 "+name, func(t *testing.T) {
			c := cliMade(t, []manifest.Cap{cliCap("work", row.args...)})
			if row.handler != nil {
				c.HandleFunc(cliCapURN("work"), row.handler)
			}
			got := cliRunOn(t, c, strings.NewReader("hi"), row.words...)
			assert.Equal(t, row.status, got.status)
			assert.Equal(t, row.out, got.stdout)
			if row.line == "" {
				assert.Empty(t, got.stderr)
				return
			}
			assert.Regexp(t, row.line, got.stderr)
			assert.Equal(t, 1, lineCount(got.stderr), got.stderr)
		})
	}
	t.Run("R-1.44 section 9.6 no handler is told apart", func(t *testing.T) {
		err := cliMade(t, []manifest.Cap{cliCap("work")}).RunCLI(t.Context(), []string{"work"}, strings.NewReader("x"), nil, nil)
		assert.ErrorIs(t, err, ErrNoHandler)
	})
	t.Run("section 10.3 FILE_PATH blames the argument", func(t *testing.T) {
		got := cliRunOn(t, cliOne(t, says("no"), fileArg), noReads{t}, "work", "nowhere.txt")
		var f *failure.Failure
		require.ErrorAs(t, got.err, &f)
		assert.Equal(t, failure.Input, f.Class)
		assert.Equal(t, "media:enc=utf-8;file-path", f.ArgURN)
	})
	t.Run("R-6.90 a panic and Goexit", func(t *testing.T) {
		for want, h := range map[string]Handler{
			"HANDLER_ERROR: panic: boom\n": func(context.Context, *Request) error { panic("boom") },
			"HANDLER_ERROR: panic:":        func(context.Context, *Request) error { runtime.Goexit(); return nil },
		} {
			got := cliRunOn(t, cliOne(t, h), strings.NewReader("x"), "work")
			assert.Equal(t, StatusFailed, got.status)
			assert.Contains(t, got.stderr, "[error] panic:")
			lines := strings.Split(strings.TrimSuffix(got.stderr, "\n"), "\n")
			assert.True(t, strings.HasPrefix(lines[len(lines)-1]+"\n", want), got.stderr)
		}
	})
}

// echoCLI gives its input back as it comes.
func echoCLI(ctx context.Context, r *Request) error {
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	for s, err := range input.All(ctx) {
		if err != nil {
			return err
		}
		for it, err := range s.Items(ctx) {
			if err != nil {
				return err
			}
			if _, err := r.Output().WriteContext(ctx, it.Bytes); err != nil {
				return err
			}
			if err := r.Output().Flush(ctx); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestCLIRequest(t *testing.T) {
	t.Run("R-2.2 a cartridge runs once", func(t *testing.T) {
		c := cliOne(t, says("x"))
		require.NoError(t, cliRunOn(t, c, strings.NewReader("x"), "work").err)
		assert.ErrorIs(t, cliRunOn(t, c, strings.NewReader("x"), "work").err, ErrAlreadyRun)
		assert.ErrorIs(t, c.Run(t.Context()), ErrAlreadyRun)
	})
	t.Run("R-2.16 section 11 the request has what it has on a link, but no peers", func(t *testing.T) {
		var id frame.ID
		var capURN, pattern string
		var peerErr error
		c := cliMade(t, []manifest.Cap{cliCap("work").WithAliases("w")})
		c.HandleFunc(`cap:in="`+cliText+`";out="`+cliText+`";work`, func(ctx context.Context, r *Request) error {
			id, capURN, pattern = r.ID(), r.CapURN(), r.Pattern()
			_, peerErr = r.Peer().Call(ctx, "cap:effect=none")
			return errors.Join(r.Output().Log("warn", failure.Internal, "mind the gap"), r.Output().Progress(0.25, "a quarter"),
				r.Network().Allow(ReachThirdParty), r.Network().Allow(ReachTelemetry), says("out")(ctx, r))
		})
		got := cliRunOn(t, c, strings.NewReader("x"), "w")
		require.NoError(t, got.err)
		assert.Equal(t, "out", got.stdout)
		assert.Equal(t, "[warn] mind the gap\n[progress] a quarter\n", got.stderr)
		assert.ErrorIs(t, peerErr, ErrPeerUnsupported, "R-7.60")
		assert.Zero(t, id)
		assert.Equal(t, pattern, capURN)
		assert.Contains(t, pattern, "work")
	})
	t.Run("R-2.16 an Op as well", func(t *testing.T) {
		c := cliMade(t, []manifest.Cap{cliCap("work")})
		require.NoError(t, c.Register(cliCapURN("work"), func() Op { return IdentityOp{} }))
		assert.Equal(t, "as it is", cliRunOn(t, c, strings.NewReader("as it is"), "work").stdout)
	})
	t.Run("R-2.16 section 9.3 the handler is the one that dispatch finds", func(t *testing.T) {
		c := cliMade(t, []manifest.Cap{cliCap("work")})
		c.HandleFunc(`cap:in="media:";out="`+cliText+`";work`, says("the general one"))
		got := cliRunOn(t, c, strings.NewReader("x"), "work")
		assert.Equal(t, "the general one", got.stdout, got.stderr)
	})
	t.Run("R-2.16 R-6.35 the output's contract", func(t *testing.T) {
		made := func(log *slog.Logger, strict bool) (*Cartridge, *[]error) {
			def := cliCap("work").WithOutput(manifest.NewOutput(cliText, "a bounded run of bytes"))
			c := cliMade(t, []manifest.Cap{def}, WithContractChecks(strict), WithLogger(log))
			var errs []error
			c.HandleFunc(cliCapURN("work"), func(ctx context.Context, r *Request) error {
				errs = append(errs, r.Output().StartUnbounded(), r.Output().EmitItem(ctx, "item", nil))
				return nil
			})
			return c, &errs
		}
		c, errs := made(slog.New(slog.DiscardHandler), true)
		assert.Empty(t, cliRunOn(t, c, strings.NewReader("x"), "work").stdout)
		assert.ErrorIs(t, (*errs)[0], ErrNotStreaming)
		assert.ErrorIs(t, (*errs)[1], ErrStreamMode)
		var log bytes.Buffer
		c, errs = made(slog.New(slog.NewTextHandler(&log, nil)), false)
		cliRunOn(t, c, strings.NewReader("x"), "work")
		assert.NoError(t, (*errs)[0])
		assert.ErrorIs(t, (*errs)[1], ErrStreamMode, "the stream is a scalar by now")
		assert.Equal(t, 1, strings.Count(log.String(), "breaks its declared contract"), log.String())
	})
	t.Run("R-2.16 R-8.53 an author's policy rules", func(t *testing.T) {
		c := cliMade(t, []manifest.Cap{cliCap("work")}, WithCLIPolicy(Policy{Name: "strict", OurServices: true}))
		c.HandleFunc(cliCapURN("work"), func(_ context.Context, r *Request) error {
			return errors.Join(r.Network().Allow(ReachOurServices), r.Network().Allow(ReachThirdParty))
		})
		got := cliRunOn(t, c, strings.NewReader("x"), "work")
		assert.Regexp(t, `^NETWORK_POLICY: .*strict`, got.stderr)
		assert.Equal(t, StatusFailed, got.status)
	})
	t.Run("section 9.4 R-2.10 JSON numbers are kept as written", func(t *testing.T) {
		c := cliMade(t, []manifest.Cap{cliCap("work", cliMain(), cliArg("n", false, manifest.CLIFlag("-n")).Default(json.RawMessage("1.50")))})
		assert.Contains(t, cliRunOn(t, c, noReads{t}, "manifest").stdout, "1.50")
	})
	t.Run("R-2.18 a context that ends is told as what it is", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		c := cliOne(t, func(ctx context.Context, _ *Request) error {
			cancel(signalError{os.Interrupt})
			<-ctx.Done()
			return ctx.Err()
		})
		err := c.RunCLI(ctx, []string{"work"}, strings.NewReader("x"), nil, nil)
		var f *failure.Failure
		require.ErrorAs(t, err, &f)
		assert.Equal(t, "ABORTED: signal: interrupt", f.Error())
	})
}
