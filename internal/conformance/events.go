package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// event is one line of go test -json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// test is a test or a sub-test, as go test names it.
type test struct{ pkg, name string }

// function is the test function that a sub-test belongs to.
func (t test) function() test {
	name, _, _ := strings.Cut(t.name, "/")
	return test{t.pkg, name}
}

// result is what ran.
type result struct {
	passed  []test
	skipped map[test]bool   // functions that were skipped, or a part of them
	ran     map[string]bool // packages that passed
	failed  int             // tests, packages and builds
}

// follow shows what go test without -v shows: the lines of packages and builds as they come, and of a test only what it wrote when it
// failed.
func follow(events io.Reader, w *bufio.Writer) (r result, err error) {
	r.skipped, r.ran = map[test]bool{}, map[string]bool{}
	held := map[string][]string{} // output of tests that are still running, by package and name
	d := json.NewDecoder(events)
	for {
		var e event
		if err := d.Decode(&e); err == io.EOF {
			return r, nil
		} else if err != nil {
			return r, fmt.Errorf("events of go test -json: %w", err)
		}
		key := e.Package + " " + e.Test
		switch e.Action {
		case "output":
			if e.Test == "" {
				err = show(w, e.Output)
			} else {
				held[key] = append(held[key], e.Output)
			}
		case "build-output":
			err = show(w, e.Output)
		case "pass":
			if e.Test != "" {
				r.passed = append(r.passed, test{e.Package, e.Test})
			} else {
				r.ran[e.Package] = true
			}
			delete(held, key)
		case "fail":
			r.failed++
			for _, line := range held[key] {
				if err := show(w, line); err != nil {
					return r, err
				}
			}
			delete(held, key)
		case "build-fail":
			r.failed++
		case "skip":
			if e.Test != "" {
				r.skipped[test{e.Package, e.Test}.function()] = true
			}
			delete(held, key)
		}
		if err != nil {
			return r, err
		}
	}
}

// show writes a line at once: a run of minutes is watched while it goes.
func show(w *bufio.Writer, line string) error {
	if _, err := w.WriteString(line); err != nil {
		return err
	}
	return w.Flush()
}
