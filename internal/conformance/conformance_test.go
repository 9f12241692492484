package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = "## 1. First\n- **R-1.1** one. See R-1.9.\n- **R-1.2** two.\n## 2. Second\n| **R-2.10** | three |\n"

func events(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

// place is a folder with the page and the list.
func place(t *testing.T, later string) files {
	t.Helper()
	dir := t.TempDir()
	f := files{filepath.Join(dir, "rules.md"), filepath.Join(dir, "later.txt"), filepath.Join(dir, "report.md"), filepath.Join(dir, "bin", "fresh.md")}
	require.NoError(t, os.WriteFile(f.rules, []byte(page), 0o600))
	require.NoError(t, os.WriteFile(f.later, []byte(later), 0o600))
	return f
}

// check judges without the report.
func check(t *testing.T, stream, later string) (ok bool, out string) {
	t.Helper()
	var b bytes.Buffer
	ok, err := run(strings.NewReader(stream), &b, place(t, later), false, false)
	require.NoError(t, err)
	return ok, b.String()
}

func TestEveryRuleIsTestedOrListed(t *testing.T) {
	ok, out := check(t, events(
		`{"Action":"pass","Package":"p","Test":"TestA/R-1.1_one_and_R-1.2"}`,
		`{"Action":"pass","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}`,
		`{"Action":"pass","Package":"p"}`), "# a comment\nR-2.10 needs a microphone\n")
	assert.True(t, ok, out)
	assert.Contains(t, out, "ok  \tp\t0.1s\n")
	assert.Contains(t, out, "2 of 3 rules")
}

func TestARuleWithoutATestFails(t *testing.T) {
	ok, out := check(t, events(`{"Action":"pass","Package":"p","Test":"TestA/R-1.1"}`), "R-2.10 later\n")
	assert.False(t, ok)
	assert.Contains(t, out, "R-1.2")
}

func TestARuleWhoseTestFailedOrWasSkippedHasNone(t *testing.T) {
	for _, action := range []string{"fail", "skip"} {
		ok, out := check(t, events(`{"Action":"`+action+`","Package":"p","Test":"TestA/R-1.1"}`), "R-1.2 x\nR-2.10 x\n")
		assert.False(t, ok, action)
		assert.Contains(t, out, "R-1.1", action)
	}
}

func TestAListedRuleWithATestFails(t *testing.T) {
	ok, out := check(t, events(`{"Action":"pass","Package":"p","Test":"TestA/R-1.1_R-1.2_R-2.10"}`), "R-2.10 later\n")
	assert.False(t, ok)
	assert.Contains(t, out, "although a test for it passed: R-2.10")
}

func TestANumberIsTakenWhole(t *testing.T) {
	ok, out := check(t, events(`{"Action":"pass","Package":"p","Test":"TestA/R-1.1_R-1.2_R-2.1"}`), "R-2.10 later\n")
	assert.False(t, ok, "R-2.1 is no rule of the page")
	assert.Contains(t, out, "not defined: R-2.1")
}

func TestAFailureIsShownWithItsOutput(t *testing.T) {
	ok, out := check(t, events(
		`{"Action":"output","Package":"p","Test":"TestA","Output":"want 1, got 2\n"}`,
		`{"Action":"output","Package":"p","Test":"TestB","Output":"quiet\n"}`,
		`{"Action":"pass","Package":"p","Test":"TestB/R-1.1_R-1.2_R-2.10"}`,
		`{"Action":"pass","Package":"p","Test":"TestB"}`,
		`{"Action":"fail","Package":"p","Test":"TestA"}`,
		`{"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}`,
		`{"Action":"fail","Package":"p"}`), "")
	assert.False(t, ok)
	assert.Contains(t, out, "want 1, got 2")
	assert.NotContains(t, out, "quiet")
}

func TestABuildFailureFails(t *testing.T) {
	ok, out := check(t, events(
		`{"Action":"build-output","Output":"x.go:1: no\n"}`,
		`{"Action":"build-fail"}`,
		`{"Action":"pass","Package":"p","Test":"TestB/R-1.1_R-1.2_R-2.10"}`), "")
	assert.False(t, ok)
	assert.Contains(t, out, "x.go:1: no")
}

func TestTheListIsReadStrictly(t *testing.T) {
	for _, bad := range []string{"R-1.1\n", "R-1 reason\n", "reason R-1.1\n", "R-1.1 a\nR-1.1 b\n"} {
		_, err := parseLater(bad)
		assert.Error(t, err, bad)
	}
}

func TestAPromiseIsNoReason(t *testing.T) {
	stream := events(`{"Action":"pass","Package":"p","Test":"TestA/R-1.1_R-1.2"}`)
	ok, out := check(t, stream, "R-2.10 Later, when there is time\n")
	assert.False(t, ok)
	assert.Contains(t, out, "puts off")
	ok, out = check(t, stream, "R-2.10 needs a machine that nobody has\n")
	assert.True(t, ok, out)
}

const two = `{"Action":"pass","Package":"github.com/pipe-cartridge/pipe/x/y","Test":"TestB/R-1.2_and_R-1.1"}
{"Action":"pass","Package":"github.com/pipe-cartridge/pipe/x/y","Test":"TestA/R-1.1_one"}
{"Action":"pass","Package":"github.com/pipe-cartridge/pipe/x/y","Test":"TestA/R-1.1_two"}
{"Action":"pass","Package":"github.com/pipe-cartridge/pipe/x/y"}
{"Action":"pass","Package":"github.com/pipe-cartridge/pipe/a","Test":"TestR-1.1"}
{"Action":"pass","Package":"github.com/pipe-cartridge/pipe/a"}
`

// written is the report that a run leaves when there was none.
func written(t *testing.T, f files, stream string) string {
	t.Helper()
	var out bytes.Buffer
	ok, err := run(strings.NewReader(stream), &out, f, false, true)
	require.NoError(t, err)
	assert.False(t, ok)
	assert.Contains(t, out.String(), "stale")
	b, err := os.ReadFile(f.fresh)
	require.NoError(t, err)
	return string(b)
}

func judged(t *testing.T, f files, stream string) bool {
	t.Helper()
	ok, err := run(strings.NewReader(stream), io.Discard, f, false, true)
	require.NoError(t, err)
	return ok
}

func TestTheReport(t *testing.T) {
	f := place(t, "R-2.10 no machine\n")
	report := written(t, f, two)
	assert.Contains(t, report, "\n## 1. First\n\n| rule | tests |\n| --- | --- |\n| R-1.1 | `a` TestR-1.1; `x/y` TestA, TestB |\n| R-1.2 | `x/y` TestB |\n")
	assert.Contains(t, report, "\n## 2. Second\n\n| rule | tests |\n| --- | --- |\n| R-2.10 | none: no machine |\n")

	require.NoError(t, os.WriteFile(f.report, []byte(report), 0o600))
	assert.True(t, judged(t, f, two))
	backwards := strings.Split(strings.TrimSpace(two), "\n")
	slices.Reverse(backwards)
	assert.True(t, judged(t, f, strings.Join(backwards, "\n")), "the order of the run does not show")

	for name, stream := range map[string]string{
		"a test more":                 two + `{"Action":"pass","Package":"github.com/pipe-cartridge/pipe/a","Test":"TestNew/R-1.2"}`,
		"a test less":                 strings.ReplaceAll(strings.ReplaceAll(two, "R-1.1_one", "one"), "R-1.1_two", "two"),
		"a test renamed":              strings.ReplaceAll(two, "TestA/", "TestC/"),
		"a test in another package":   strings.Replace(two, "pipe/a\",\"Test", "pipe/b\",\"Test", 1),
		"a rule more in a known name": strings.Replace(two, "R-1.1_two", "R-1.2_two", 1),
	} {
		assert.False(t, judged(t, f, stream), name)
	}
	assert.True(t, judged(t, f, two+`{"Action":"pass","Package":"github.com/pipe-cartridge/pipe/x/y","Test":"TestA/R-1.1_three"}`),
		"one more row of a table")

	require.NoError(t, os.WriteFile(f.report, []byte(strings.Replace(report, "no machine", "another reason", 1)), 0o600))
	assert.False(t, judged(t, f, two), "the list is the reasons' home")
}

func TestWhatThisMachineSkipsStays(t *testing.T) {
	f := place(t, "R-2.10 no machine\n")
	require.NoError(t, os.WriteFile(f.report, []byte(written(t, f, two)), 0o600))
	skipped := strings.ReplaceAll(two, `"Action":"pass","Package":"github.com/pipe-cartridge/pipe/a","Test":"TestR-1.1"`,
		`"Action":"skip","Package":"github.com/pipe-cartridge/pipe/a","Test":"TestR-1.1"`)
	assert.True(t, judged(t, f, skipped))
}

func TestUpdate(t *testing.T) {
	f := place(t, "R-2.10 no machine\n")
	require.NoError(t, os.WriteFile(f.report, []byte(written(t, f, two)), 0o600))
	renew := func(stream string) {
		ok, err := run(strings.NewReader(stream), io.Discard, f, true, true)
		require.NoError(t, err)
		assert.True(t, ok)
	}
	const a = `{"Action":"pass","Package":"github.com/pipe-cartridge/pipe/a"}`
	renew(`{"Action":"pass","Package":"github.com/pipe-cartridge/pipe/a","Test":"TestNew/R-1.2"}` + a)
	b, err := os.ReadFile(f.report)
	require.NoError(t, err)
	assert.Contains(t, string(b), "| R-1.1 | `x/y` TestA, TestB |\n| R-1.2 | `a` TestNew; `x/y` TestB |\n", "a is as it ran, x/y as it was")
	renew(`{"Action":"pass","Package":"github.com/pipe-cartridge/pipe/a","Test":"TestR-1.1"}` + a)
	assert.True(t, judged(t, f, two))
}
