package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const page = "- **R-1.1** one. See R-1.9.\n- **R-1.2** two.\n| **R-2.10** | three |\n"

func events(lines ...string) string { return strings.Join(lines, "\n") + "\n" }

func check(t *testing.T, stream, later string) (ok bool, out string) {
	t.Helper()
	dir := t.TempDir()
	rules, list := filepath.Join(dir, "rules.md"), filepath.Join(dir, "later.txt")
	require.NoError(t, os.WriteFile(rules, []byte(page), 0o600))
	require.NoError(t, os.WriteFile(list, []byte(later), 0o600))
	var b bytes.Buffer
	ok, err := run(strings.NewReader(stream), &b, rules, list)
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
