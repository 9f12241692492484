// Command conformance reads the events of go test -json from standard input, shows what go test would show, and then holds the
// names of the tests that ran and passed against the rules of a specification page: every rule is in the name of such a test, or
// stands in the list of those that cannot be tested yet, and no listed rule has a test.
//
//	go test -json ./... | go run ./internal/conformance -rules docs/spec/runtime.md -later test/later-rules.txt
//
// The exit status is 1 when a test failed, or a rule has no test, or the list is stale.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	rules := flag.String("rules", "docs/spec/runtime.md", "the `page` that defines the rules")
	later := flag.String("later", "test/later-rules.txt", "the `list` of rules without a test: one id and its reason a line")
	flag.Parse()
	ok, err := run(os.Stdin, os.Stdout, *rules, *later)
	if err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(2)
	}
	if !ok {
		os.Exit(1)
	}
}

// run shows the events and judges. ok is false when something has to be mended.
func run(events io.Reader, out io.Writer, rulesPath, laterPath string) (ok bool, err error) {
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
	page, err := os.ReadFile(rulesPath)
	if err != nil {
		return false, err
	}
	list, err := os.ReadFile(laterPath)
	if err != nil {
		return false, err
	}
	listed, err := parseLater(string(list))
	if err != nil {
		return false, fmt.Errorf("%s: %w", laterPath, err)
	}
	v := judge(defined(string(page)), result.passed, listed)
	v.print(w)
	return result.failed == 0 && v.ok(), nil
}
