package main

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// module is what the report leaves out of package paths.
const module = "github.com/pipe-cartridge/pipe/"

// report says of each rule which test functions hold it in their name, or in that of a sub-test.
type report map[rule]map[test]bool

// reportOf collects what passed. Functions, not sub-tests: a table's rows come and go without a change here.
func reportOf(defined map[rule]bool, passed []test) report {
	rep := report{}
	for _, t := range passed {
		for r := range find(mention, t.name) {
			if defined[r] {
				rep.add(r, t.function())
			}
		}
	}
	return rep
}

func (rep report) add(r rule, t test) {
	if rep[r] == nil {
		rep[r] = map[test]bool{}
	}
	rep[r][test{strings.TrimPrefix(t.pkg, module), t.name}] = true
}

var (
	row     = regexp.MustCompile(`^\| (R-\d+\.\d+) \| (.*) \|$`)
	heading = regexp.MustCompile(`(?m)^## (\d+)\. (.*)$`)
)

// parseReport reads a page back. What is no row of tests is left out.
func parseReport(page string) report {
	rep := report{}
	for line := range strings.Lines(page) {
		m := row.FindStringSubmatch(strings.TrimSpace(line))
		if m == nil {
			continue
		}
		for r := range find(mention, m[1]) {
			for part := range strings.SplitSeq(m[2], "; ") {
				pkg, names, ok := strings.Cut(strings.TrimPrefix(part, "`"), "` ")
				if !ok || !strings.HasPrefix(part, "`") {
					continue
				}
				for name := range strings.SplitSeq(names, ", ") {
					rep.add(r, test{pkg, name})
				}
			}
		}
	}
	return rep
}

// merged is the old report with the packages that ran anew.
func merged(old, fresh report, ran map[string]bool) report {
	rep := report{}
	for r, tests := range old {
		for t := range tests {
			if !ran[module+t.pkg] {
				rep.add(r, t)
			}
		}
	}
	for r, tests := range fresh {
		for t := range tests {
			rep.add(r, t)
		}
	}
	return rep
}

// keepSkipped takes over from the old report what this machine has skipped.
func (rep report) keepSkipped(old report, skipped map[test]bool) {
	for r, tests := range old {
		for t := range tests {
			if skipped[test{module + t.pkg, t.name}] {
				rep.add(r, t)
			}
		}
	}
}

// render is the page. The same tests and reasons always give the same bytes.
func (rep report) render(specification string, reasons map[rule]string) string {
	titles := map[int]string{}
	for _, m := range heading.FindAllStringSubmatch(specification, -1) {
		if n, err := strconv.Atoi(m[1]); err == nil {
			titles[n] = m[2]
		}
	}
	var b strings.Builder
	b.WriteString(`# Conformance

Each rule of [the specification](spec/runtime.md) with the tests that hold its id in their name, or in that of a sub-test, and that
passed. ` + "`go test ./bifaci -run 'TestCLIFeeds/R-9.12'`" + ` runs what is said about a rule there. Where no test can be, the
reason stands.

Generated: ` + "`make test`" + ` fails when this page is stale and leaves a fresh one in bin/. After a change of single packages,
` + "`go test -json ./bifaci/... | go run ./internal/conformance -update`" + ` renews what is said about them.
`)
	section := 0
	for _, r := range slices.SortedFunc(maps.Keys(defined(specification)), compare) {
		if r.section != section {
			section = r.section
			fmt.Fprintf(&b, "\n## %d. %s\n\n| rule | tests |\n| --- | --- |\n", section, titles[section])
		}
		fmt.Fprintf(&b, "| %s | %s |\n", r, rep.cell(r, reasons))
	}
	return b.String()
}

func (rep report) cell(r rule, reasons map[rule]string) string {
	if len(rep[r]) == 0 {
		if reason, ok := reasons[r]; ok {
			return "none: " + reason
		}
		return "**none**"
	}
	byPackage := map[string][]string{}
	for t := range rep[r] {
		byPackage[t.pkg] = append(byPackage[t.pkg], t.name)
	}
	var parts []string
	for _, pkg := range slices.Sorted(maps.Keys(byPackage)) {
		slices.Sort(byPackage[pkg])
		parts = append(parts, "`"+pkg+"` "+strings.Join(byPackage[pkg], ", "))
	}
	return strings.Join(parts, "; ")
}

// differences are the rows in which two pages differ, as the fresh one has them.
func differences(old, fresh string) (rules []string) {
	rows := func(page string) map[string]string {
		all := map[string]string{}
		for line := range strings.Lines(page) {
			if m := row.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
				all[m[1]] = m[2]
			}
		}
		return all
	}
	before, after := rows(old), rows(fresh)
	for _, id := range slices.Sorted(maps.Keys(after)) {
		if before[id] != after[id] {
			rules = append(rules, id)
		}
	}
	return rules
}
