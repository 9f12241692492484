package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// in runs a program in a folder, with what a user has and no network.
func in(ctx context.Context, t *testing.T, folder, stdin, program string, words ...string) string {
	t.Helper()
	c := exec.CommandContext(ctx, program, words...)
	c.Dir, c.Stdin = folder, strings.NewReader(stdin)
	c.Env = append(os.Environ(), "GOPROXY=off", "GOFLAGS=-mod=readonly -buildvcs=false", "GOWORK=off")
	got, err := c.CombinedOutput()
	require.NoErrorf(t, err, "%s %v:\n%s", program, words, got)
	return string(got)
}

// A project is complete as written: it is formatted, vetted, tested and built without another word, and what it builds is a cartridge.
func TestNewMakesAWholeProject(t *testing.T) {
	checkout, err := filepath.Abs("../..")
	require.NoError(t, err)
	t.Chdir(t.TempDir())
	status, out, errs := dispatched(t.Context(), untouched{t}, "new", "line-counter", "--replace", checkout)
	require.Equal(t, statusOK, status, errs)
	assert.Equal(t, "line-counter is made: cd line-counter && make build test\n", out)
	assert.Empty(t, errs)
	assert.Empty(t, in(t.Context(), t, "line-counter", "", "gofmt", "-l", "."))
	in(t.Context(), t, "line-counter", "", "go", "vet", "./...")
	tests := in(t.Context(), t, "line-counter", "", "go", "test", "-v", "./...")
	for _, name := range []string{"TestLinesAreNumberedAsTheyCome", "TestCancelEndsARequest", "TestAnswer/two_lines"} {
		assert.Contains(t, tests, "--- PASS: "+name)
	}
	in(t.Context(), t, "line-counter", "", "make", "build")
	program := filepath.Join("line-counter", "line-counter")
	assert.Equal(t, "1 one\n2 two\n", in(t.Context(), t, "line-counter", "one\ntwo", "./line-counter", "line-counter"))
	status, out, errs = dispatched(t.Context(), strings.NewReader("one\ntwo\n"), "run", "./"+program, "line-counter")
	assert.Equal(t, statusOK, status, errs)
	assert.Equal(t, "1 one\n2 two\n", out)
	in(t.Context(), t, "line-counter", "", "make", "clean")
	assert.NoFileExists(t, program)

	t.Run("and touches nothing that is there", func(t *testing.T) {
		status, out, errs := dispatched(t.Context(), untouched{t}, "new", "--replace", checkout, "line-counter")
		assert.Equal(t, statusFailed, status)
		assert.Empty(t, out)
		assert.Contains(t, errs, "bifaci new: ")
		assert.Contains(t, errs, "line-counter")
		assert.FileExists(t, filepath.Join("line-counter", "main.go"))
	})
}

func TestNewRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	require.NoError(t, os.Mkdir("other", 0o700))
	require.NoError(t, os.WriteFile("other/go.mod", []byte("module example.com/other\n\ngo 1.26\n"), 0o600))
	require.NoError(t, os.WriteFile("other/go.sum", nil, 0o600))
	for name, row := range map[string]struct {
		words  []string
		status int
		line   string
	}{
		"no name":                    {nil, statusUsage, "usage: bifaci new"},
		"two names":                  {[]string{"a", "b"}, statusUsage, "usage: bifaci new"},
		"an unknown flag":            {[]string{"a", "--loud"}, statusUsage, "usage: bifaci new"},
		"a name with a folder":       {[]string{"../a"}, statusUsage, `the name "../a" will not do`},
		"a name in capitals":         {[]string{"Lines"}, statusUsage, `the name "Lines" will not do`},
		"a long name":                {[]string{strings.Repeat("a", 65)}, statusUsage, `will not do`},
		"a name that is taken":       {[]string{"manifest"}, statusUsage, `the name "manifest" is taken`},
		"a module path that is none": {[]string{"a", "--module", "b\nc"}, statusUsage, `the module path`},
		"no version and no checkout": {[]string{"a"}, statusUsage, "--replace DIR"},
		"a checkout that is none":    {[]string{"a", "--replace", "nowhere"}, statusFailed, "nowhere is no checkout"},
		"another module's checkout":  {[]string{"a", "--replace", "other"}, statusFailed, `its module is "example.com/other"`},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := dispatched(t.Context(), untouched{t}, append([]string{"new"}, row.words...)...)
			assert.Equal(t, row.status, status)
			assert.Empty(t, out)
			assert.Contains(t, errs, row.line)
			assert.NoDirExists(t, "a")
		})
	}
	t.Run("help is no failure", func(t *testing.T) {
		status, _, errs := dispatched(t.Context(), untouched{t}, "new", "--help")
		assert.Equal(t, statusOK, status)
		assert.Contains(t, errs, "usage: bifaci new")
	})
}
