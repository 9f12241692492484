package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// event is one line of go test -json (go doc test2json).
type event struct {
	Action  string
	Package string
	Test    string
	Output  string
}

// result is what ran.
type result struct {
	passed []string // names of tests and sub-tests, as go test prints them
	failed int      // tests, packages and builds
}

// follow shows what go test without -v shows: the lines of packages and builds as they come, and of a test only what it wrote when it
// failed.
func follow(events io.Reader, w *bufio.Writer) (r result, err error) {
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
				r.passed = append(r.passed, e.Test)
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
