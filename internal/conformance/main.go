// Command conformance reads the events of go test -json from standard input, shows what go test would show, and then holds the
// names of the tests that ran and passed against the rules of a specification page: every rule is in the name of such a test, or
// stands in the list of those that have none, and no listed rule has a test. What it finds is the page docs/conformance.md, which
// has to be up to date.
//
//	go test -json ./... | go run ./internal/conformance
//	go test -json ./bifaci | go run ./internal/conformance -update
//
// The second form judges nothing and renews the page for the packages that ran. The exit status is 1 when a test failed, or a rule
// has no test, or list or page are stale.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// files are where everything is.
type files struct {
	rules  string // the page that defines the rules
	later  string // the rules without a test: one id and its reason a line
	report string // the page about the tests
	fresh  string // where that is left when the other is stale
}

func main() {
	f := files{rules: "docs/spec/runtime.md", later: "test/later-rules.txt", report: "docs/conformance.md", fresh: "bin/conformance.md"}
	update := flag.Bool("update", false, "renew docs/conformance.md for the packages that ran, and judge nothing")
	flag.Parse()
	// Some tests are for one system, and the page is of this one.
	ok, err := run(os.Stdin, os.Stdout, f, *update, runtime.GOOS == "linux")
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run shows the events and judges. ok is false when something has to be mended.
func run(events io.Reader, out io.Writer, f files, update, strict bool) (ok bool, err error) {
	w := bufio.NewWriter(out)
	defer func() {
		if flushErr := w.Flush(); err == nil {
			err = flushErr
		}
	}()
	result, err := follow(events, w)
	if err != nil {
		return false, err
	}
	page, err := os.ReadFile(f.rules)
	if err != nil {
		return false, err
	}
	list, err := os.ReadFile(f.later)
	if err != nil {
		return false, err
	}
	listed, err := parseLater(string(list))
	if err != nil {
		return false, fmt.Errorf("%s: %w", f.later, err)
	}
	old, err := os.ReadFile(f.report)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	fresh, before := reportOf(defined(string(page)), result.passed), parseReport(string(old))
	if update {
		rep := merged(before, fresh, result.ran)
		rep.keepSkipped(before, result.skipped)
		return result.failed == 0, os.WriteFile(f.report, []byte(rep.render(string(page), listed)), 0o644)
	}
	v := judge(defined(string(page)), result.passed, listed)
	v.print(w)
	if result.failed > 0 || !strict {
		return result.failed == 0 && v.ok(), nil
	}
	fresh.keepSkipped(before, result.skipped)
	want := fresh.render(string(page), listed)
	if want == string(old) {
		return v.ok(), nil
	}
	fmt.Fprintf(w, "%s is stale: cp %s %s (rows: %s)\n", f.report, f.fresh, f.report, strings.Join(differences(string(old), want), " "))
	if err := os.MkdirAll(filepath.Dir(f.fresh), 0o755); err != nil {
		return false, err
	}
	return false, os.WriteFile(f.fresh, []byte(want), 0o644)
}
