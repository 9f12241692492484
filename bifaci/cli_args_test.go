package bifaci

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

func TestCLIFlagGrammar(t *testing.T) {
	const absent = "\x00"
	for name, row := range map[string]struct {
		words string // separated by blanks
		flag  string
		want  string
	}{
		"the next word":                          {"--n 5", "--n", "5"},
		"whatever it looks like":                 {"--n --m 5", "--n", "--m"},
		"even itself":                            {"--n --n", "--n", "--n"},
		"after =":                                {"--n=5", "--n", "5"},
		"after = with more of them":              {"--n=a=b", "--n", "a=b"},
		"after = nothing":                        {"--n= x", "--n", ""},
		"no next word":                           {"x --n", "--n", absent},
		"not there":                              {"a b c", "--n", absent},
		"not there, no words":                    {"", "--n", absent},
		"the first hit counts, a word":           {"--n 1 --n=2", "--n", "1"},
		"the first hit counts, with =":           {"--n=1 --n 2", "--n", "1"},
		"the first hit without a next word":      {"--n=1 --n", "--n", "1"},
		"nothing is added":                       {"--num 5 -n 6", "--n", absent},
		"nothing is split":                       {"-x5", "-x", absent},
		"dashes are not made up":                 {"n 5 -n 6", "--n", absent},
		"as written, case too":                   {"--N 5", "--n", absent},
		"a flag without dashes":                  {"size 5", "size", "5"},
		"a flag with = of its own":               {"--a=b=5", "--a=b", "5"},
		"also where it is another flag's value":  {"--m --n 5", "--n", "5"},
		"a negative number is a value like any ": {"--n -5", "--n", "-5"},
	} {
		t.Run("section 10.1 "+name, func(t *testing.T) {
			got, ok := flagValue(strings.Fields(row.words), row.flag)
			if row.want == absent {
				assert.False(t, ok, "got %q", got)
				return
			}
			assert.True(t, ok)
			assert.Equal(t, row.want, got)
		})
	}
}

func TestCLIPositionalGrammar(t *testing.T) {
	for name, row := range map[string]struct {
		words []string
		want  []string
	}{
		"all of them":                              {[]string{"a", "b"}, []string{"a", "b"}},
		"none":                                     {nil, nil},
		"a flag takes the next word":               {[]string{"--n", "a", "b"}, []string{"b"}},
		"an undeclared one too":                    {[]string{"--verbose", "file.pdf"}, nil},
		"a flag takes a flag":                      {[]string{"--n", "--m", "b"}, []string{"b"}},
		"a flag with = takes none":                 {[]string{"--n=5", "a"}, []string{"a"}},
		"= anywhere in it":                         {[]string{"--=", "a", "-x=", "b"}, []string{"a", "b"}},
		"- is a flag":                              {[]string{"-", "a", "b"}, []string{"b"}},
		"-- is a flag":                             {[]string{"--", "a", "b"}, []string{"b"}},
		"a negative number is a flag":              {[]string{"-5", "a", "b"}, []string{"b"}},
		"a flag at the end":                        {[]string{"a", "-x"}, []string{"a"}},
		"the empty word counts":                    {[]string{"", "a"}, []string{"", "a"}},
		"= in a positional word means nothing":     {[]string{"a=b", "c"}, []string{"a=b", "c"}},
		"a dash inside a word means nothing":       {[]string{"a-b", "c"}, []string{"a-b", "c"}},
		"words between flags keep their order":     {[]string{"a", "-x", "1", "b", "-y=2", "c"}, []string{"a", "b", "c"}},
		"blanks and newlines are part of the word": {[]string{" -x", "\n"}, []string{" -x", "\n"}},
	} {
		t.Run("section 10.1 "+name, func(t *testing.T) { assert.Equal(t, row.want, positionals(row.words)) })
	}
}

// FuzzCLIWords holds the word parser to what section 10.1 says, told in another way.
func FuzzCLIWords(f *testing.F) {
	for _, seed := range []string{"--n 5", "--n=5 x", "-x5", "a --n", "--n --n", "- a -- b", "--n= c"} {
		f.Add(seed, "--n")
	}
	f.Add("size 5 size=6", "size")
	f.Fuzz(func(t *testing.T, line, flag string) {
		words := strings.Split(line, " ")
		hit := slices.IndexFunc(words, func(w string) bool { return w == flag || strings.HasPrefix(w, flag+"=") })
		got, ok := flagValue(words, flag)
		switch {
		case hit < 0 || words[hit] == flag && hit == len(words)-1:
			require.False(t, ok)
			require.Empty(t, got)
		case words[hit] == flag:
			require.True(t, ok)
			require.Equal(t, words[hit+1], got)
		default:
			require.True(t, ok)
			require.Equal(t, words[hit], flag+"="+got)
		}
		free := positionals(words)
		at := 0
		for i := 0; i < len(words); i++ { // every word is positional, a flag, or taken by the flag in front of it
			switch w := words[i]; {
			case at < len(free) && w == free[at] && !strings.HasPrefix(w, "-"):
				at++
			case strings.HasPrefix(w, "-") && !strings.Contains(w, "="):
				i++
			default:
				require.True(t, strings.HasPrefix(w, "-"), "%q of %q is neither positional nor a flag", w, words)
			}
		}
		require.Equal(t, len(free), at, "%q in %q", free, words)
	})
}

// cliGiven runs a command and gives the value of each argument stream by its label.
func cliGiven(t *testing.T, args []manifest.Arg, stdin string, words ...string) (map[string]string, cliResult) {
	t.Helper()
	var runs [][]cliSeen
	got := cliRunOn(t, cliOne(t, cliWatch(&runs), args...), strings.NewReader(stdin), append([]string{"work"}, words...)...)
	values := map[string]string{}
	for _, run := range runs {
		for _, s := range run {
			values[s.media] = strings.Join(s.items, "|")
		}
	}
	return values, got
}

func TestCLIValues(t *testing.T) {
	who := func(required bool) manifest.Arg { return cliArg("who", required, manifest.CLIFlag("--who")) }
	for name, row := range map[string]struct {
		args  []manifest.Arg
		stdin string
		words []string
		want  map[string]string
	}{
		"R-2.13 the command line goes before stdin": {
			[]manifest.Arg{cliMain(manifest.Position(0))}, "piped", []string{"given"}, map[string]string{cliText: "given"}},
		"R-2.13 also by a flag": {
			[]manifest.Arg{cliMain(manifest.CLIFlag("--text"))}, "piped", []string{"--text", "given"}, map[string]string{cliText: "given"}},
		"R-2.13 then stdin, before the default": {
			[]manifest.Arg{cliMain(manifest.Position(0)).Default("standard")}, "piped", nil, map[string]string{cliText: "piped"}},
		"R-2.13 then the default": {
			[]manifest.Arg{cliMain(manifest.Position(0)).Default("standard"), who(true)}, "", []string{"--who", "me"},
			map[string]string{cliText: "standard", "media:who": "me"}},
		"an optional argument without a value has no stream": {
			[]manifest.Arg{cliMain(), who(false)}, "piped", nil, map[string]string{cliText: "piped"}},
		"an empty word is a value": {
			[]manifest.Arg{cliMain(manifest.Position(0)).Default("standard")}, "piped", []string{""}, map[string]string{cliText: ""}},
		"an empty value behind = too": {
			[]manifest.Arg{cliMain(), who(true).Default("x")}, "piped", []string{"--who="}, map[string]string{cliText: "piped", "media:who": ""}},
		"a word is taken as its bytes": {
			[]manifest.Arg{cliMain(), who(true)}, "piped", []string{"--who", "'a b'\xff\n"}, map[string]string{cliText: "piped", "media:who": "'a b'\xff\n"}},
		"undeclared flags and surplus words are ignored": {
			[]manifest.Arg{cliMain(manifest.Position(0))}, "piped", []string{"--loud", "very", "one", "two", "-q=1", "three"}, map[string]string{cliText: "one"}},
		"positions count from 0": {
			[]manifest.Arg{cliMain(manifest.Position(1)), cliArg("who", true, manifest.Position(0))}, "piped", []string{"a", "b"},
			map[string]string{cliText: "b", "media:who": "a"}},
		"several arguments get the same stdin": {
			[]manifest.Arg{cliMain(), cliArg("again", true, manifest.Stdin(cliText)), cliArg("third", true, manifest.CLIFlag("-3"), manifest.Stdin(cliText))},
			"piped", []string{"-3", "own"}, nil},
		"R-2.14 a default number is its text": {
			[]manifest.Arg{cliMain(), who(true).Default(json.RawMessage("1.50"))}, "p", nil, map[string]string{cliText: "p", "media:who": "1.50"}},
		"R-2.14 a default text has no quotes": {
			[]manifest.Arg{cliMain(), who(true).Default("a \"b\" ü")}, "p", nil, map[string]string{cliText: "p", "media:who": `a "b" ü`}},
		"R-2.14 a default boolean is its text": {
			[]manifest.Arg{cliMain(), who(true).Default(false)}, "p", nil, map[string]string{cliText: "p", "media:who": "false"}},
		"R-2.14 array and object as compact JSON": {
			[]manifest.Arg{cliMain(), who(true).Default(json.RawMessage("[1, {\"a\": null}]"))}, "p", nil, map[string]string{cliText: "p", "media:who": `[1,{"a":null}]`}},
		"R-2.14 null is no default": {
			[]manifest.Arg{cliMain(), who(false).Default(nil)}, "p", nil, map[string]string{cliText: "p"}},
	} {
		t.Run("section 10.2 "+name, func(t *testing.T) {
			values, got := cliGiven(t, row.args, row.stdin, row.words...)
			require.NoError(t, got.err)
			if row.want != nil {
				assert.Equal(t, row.want, values)
			}
		})
	}
	t.Run("section 10.4 several arguments, one stdin, in declaration order", func(t *testing.T) {
		var runs [][]cliSeen
		args := []manifest.Arg{cliMain(), cliArg("again", true, manifest.Stdin(cliText)), cliArg("own", true, manifest.CLIFlag("-o"), manifest.Stdin(cliText))}
		got := cliRunOn(t, cliOne(t, cliWatch(&runs), args...), strings.NewReader("piped"), "work", "-o", "word")
		require.NoError(t, got.err)
		assert.Equal(t, [][]cliSeen{{
			{media: cliText, items: []string{"piped"}}, {media: cliText, items: []string{"piped"}}, {media: cliText, items: []string{"word"}},
		}}, runs)
	})
	t.Run("R-2.13 section 10.2 a complete command line never reads stdin", func(t *testing.T) {
		var runs [][]cliSeen
		args := []manifest.Arg{cliMain(manifest.Position(0)), who(true).Default("x")}
		require.NoError(t, cliRunOn(t, cliOne(t, cliWatch(&runs), args...), noReads{t}, "work", "word").err)
		assert.Len(t, runs, 1)
	})
	t.Run("R-2.13 section 10.2 the missing are all named", func(t *testing.T) {
		_, got := cliGiven(t, []manifest.Arg{cliMain(), who(true), cliArg("b", true, manifest.Position(0))}, "piped", "--who")
		var usage *UsageError
		require.ErrorAs(t, got.err, &usage)
		assert.Equal(t, MissingArgument, usage.Kind)
		assert.Equal(t, "missing required argument media:who (--who), required argument media:b", usage.Detail)
	})
	t.Run("section 10.6 a value is labelled with the stream URN wherever it comes from", func(t *testing.T) {
		arg := manifest.NewArg("media:enc=utf-8;file-path;x", true, manifest.Stdin("media:enc=utf-8"), manifest.Position(0))
		file := filepath.Join(t.TempDir(), "f")
		require.NoError(t, os.WriteFile(file, []byte("content"), 0o600))
		for _, words := range [][]string{nil, {file}} {
			values, got := cliGiven(t, []manifest.Arg{arg}, "content", words...)
			require.NoError(t, got.err)
			assert.Equal(t, map[string]string{"media:enc=utf-8": "content"}, values)
		}
	})
}

func TestCLIPathReferences(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"a.txt": "A", "b.txt": "BB", "empty": "", "c.dat": "CCC"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	path := func(sources ...manifest.Source) manifest.Arg {
		return manifest.NewArg("media:enc=utf-8;file-path", true, append([]manifest.Source{manifest.Stdin(cliText)}, sources...)...)
	}
	other := cliArg("other", true, manifest.CLIFlag("-o"))
	for name, row := range map[string]struct {
		args  []manifest.Arg
		stdin string
		words []string
		want  [][]cliSeen
	}{
		"a scalar's one path": {[]manifest.Arg{path(manifest.Position(0))}, "", []string{at("a.txt")},
			[][]cliSeen{{{media: cliText, items: []string{"A"}}}}},
		"an empty file is an empty value": {[]manifest.Arg{path(manifest.Position(0))}, "", []string{at("empty")},
			[][]cliSeen{{{media: cliText, items: []string{""}}}}},
		"a value from stdin is the content": {[]manifest.Arg{path(manifest.Position(0))}, at("a.txt"), nil,
			[][]cliSeen{{{media: cliText, items: []string{at("a.txt")}}}}},
		"the default is a path too": {[]manifest.Arg{path(manifest.Position(0)).Default(at("b.txt")), other}, "", []string{"-o", "x"},
			[][]cliSeen{{{media: cliText, items: []string{"BB"}}, {media: "media:other", items: []string{"x"}}}}},
		"R-2.15 one run per file, the rest repeated": {[]manifest.Arg{path(manifest.Position(0)), other}, "", []string{at("*.txt"), "-o", "x"},
			[][]cliSeen{
				{{media: cliText, items: []string{"A"}}, {media: "media:other", items: []string{"x"}}},
				{{media: cliText, items: []string{"BB"}}, {media: "media:other", items: []string{"x"}}},
			}},
		"a sequence has one item per file": {[]manifest.Arg{path(manifest.Position(0)).Sequence(true)}, "",
			[]string{" " + at("c.dat") + "\t\n\n" + at("*.txt") + "\r\n" + at("empty")},
			[][]cliSeen{{{media: cliText, items: []string{"CCC", "A", "BB", ""}, sequence: true}}}},
		"a sequence of no path": {[]manifest.Arg{path(manifest.Position(0)).Sequence(true)}, "", []string{" \n "},
			[][]cliSeen{{{media: cliText, sequence: true}}}},
		"without content the path itself is the value": {
			[]manifest.Arg{cliMain(), manifest.NewArg("media:enc=utf-8;file-path;out", true, manifest.CLIFlag("-o"))}, "piped", []string{"-o", "no/such*"},
			[][]cliSeen{{{media: cliText, items: []string{"piped"}}, {media: "media:enc=utf-8;file-path;out", items: []string{"no/such*"}}}}},
		"a lone file_path takes the next position": {
			[]manifest.Arg{cliMain(), manifest.NewArg("media:list", true, manifest.FilePath("media:names")), cliArg("n", true, manifest.Position(0))},
			"piped", []string{"zero", at("a.txt")},
			[][]cliSeen{{{media: cliText, items: []string{"piped"}}, {media: "media:names", items: []string{"A"}}, {media: "media:n", items: []string{"zero"}}}}},
		"a file_path beside a flag": {
			[]manifest.Arg{cliMain(), manifest.NewArg("media:list", true, manifest.FilePath("media:names"), manifest.CLIFlag("-l"))},
			"piped", []string{"-l=" + at("a.txt")},
			[][]cliSeen{{{media: cliText, items: []string{"piped"}}, {media: "media:names", items: []string{"A"}}}}},
		"a live stdin cannot be repeated, so it is read whole": {
			[]manifest.Arg{cliMain().Streaming(true), manifest.NewArg("media:list", true, manifest.FilePath("media:names"))},
			"piped", []string{at("*.txt")},
			[][]cliSeen{
				{{media: cliText, items: []string{"piped"}}, {media: "media:names", items: []string{"A"}}},
				{{media: cliText, items: []string{"piped"}}, {media: "media:names", items: []string{"BB"}}},
			}},
	} {
		t.Run("section 10.3 "+name, func(t *testing.T) {
			var runs [][]cliSeen
			got := cliRunOn(t, cliOne(t, cliWatch(&runs), row.args...), strings.NewReader(row.stdin), append([]string{"work"}, row.words...)...)
			require.NoError(t, got.err)
			assert.Equal(t, row.want, runs)
		})
	}
	t.Run("R-2.15 section 10.3 outputs follow each other, the first failure ends it", func(t *testing.T) {
		runs := 0
		c := cliOne(t, func(ctx context.Context, r *Request) error {
			if runs++; runs == 2 {
				return failure.New("TIRED", failure.User, "enough")
			}
			return echoCLI(ctx, r)
		}, path(manifest.Position(0)))
		got := cliRunOn(t, c, noReads{t}, "work", at("?.*"))
		assert.Equal(t, 2, runs)
		assert.Equal(t, "A", got.stdout)
		assert.Equal(t, "TIRED: enough\n", got.stderr)
	})
	t.Run("R-2.15 section 10.3 several files for two arguments are refused before anything runs", func(t *testing.T) {
		var runs [][]cliSeen
		args := []manifest.Arg{path(manifest.Position(0)), manifest.NewArg("media:list", true, manifest.FilePath("media:names"))}
		got := cliRunOn(t, cliOne(t, cliWatch(&runs), args...), noReads{t}, "work", at("*.txt"), at("*.txt"))
		assert.Regexp(t, `^FILE_PATH: .*media:enc=utf-8;file-path.*media:list`, got.stderr)
		assert.Equal(t, StatusFailed, got.status)
		assert.Empty(t, runs)
		one := cliRunOn(t, cliOne(t, cliWatch(&runs), args...), noReads{t}, "work", at("*.txt"), at("*.dat"))
		require.NoError(t, one.err)
		assert.Len(t, runs, 2)
	})
	t.Run("section 10.3 all names are resolved before the first file is opened", func(t *testing.T) {
		var runs [][]cliSeen
		got := cliRunOn(t, cliOne(t, cliWatch(&runs), path(manifest.Position(0)).Sequence(true)), noReads{t}, "work", at("a.txt")+"\n"+at("nowhere"))
		assert.Equal(t, "FILE_PATH: "+at("nowhere")+": not found\n", got.stderr)
		assert.Empty(t, runs)
	})
	t.Run("section 10.3 R-9.3 a live reference without a backend", func(t *testing.T) {
		arg := manifest.NewArg("media:image;live;webcam", true, manifest.Stdin(cliText), manifest.CLIFlag("--eye")).Sequence(true)
		got := cliRunOn(t, cliOne(t, says("no"), arg), noReads{t}, "work", "--eye", "{}")
		assert.Regexp(t, `^FEED_UNAVAILABLE: .*media:image;live;webcam`, got.stderr)
		assert.Equal(t, StatusFailed, got.status)
		assert.Empty(t, got.stdout)
	})
}
