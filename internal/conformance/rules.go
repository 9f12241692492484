package main

import (
	"bufio"
	"cmp"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	definition = regexp.MustCompile(`\*\*R-(\d+)\.(\d+)\*\*`)
	mention    = regexp.MustCompile(`R-(\d+)\.(\d+)`)
)

// hostSection is the last section, which is about hosts; the others are about cartridges.
const hostSection = 12

// rule is a rule's number.
type rule struct{ section, number int }

func (r rule) String() string { return fmt.Sprintf("R-%d.%d", r.section, r.number) }

func compare(a, b rule) int {
	return cmp.Or(cmp.Compare(a.section, b.section), cmp.Compare(a.number, b.number))
}

// find lists the rules that a pattern finds in a text.
func find(pattern *regexp.Regexp, text string) map[rule]bool {
	rules := map[rule]bool{}
	for _, m := range pattern.FindAllStringSubmatch(text, -1) {
		section, err1 := strconv.Atoi(m[1])
		number, err2 := strconv.Atoi(m[2])
		if err1 == nil && err2 == nil {
			rules[rule{section, number}] = true
		}
	}
	return rules
}

// defined lists the rules that a page defines: their ids stand in bold where they are defined.
func defined(page string) map[rule]bool { return find(definition, page) }

// parseLater reads the list: an id, then why it has no test yet; lines that begin with # say something to readers.
func parseLater(list string) (map[rule]string, error) {
	later := map[rule]string{}
	for line := range strings.Lines(list) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, reason, _ := strings.Cut(line, " ")
		m := mention.FindStringSubmatch(id)
		if m == nil || m[0] != id || strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%q: want an id like R-1.2 and a reason", line)
		}
		for r := range find(mention, id) {
			if _, twice := later[r]; twice {
				return nil, fmt.Errorf("%s stands there twice", r)
			}
			later[r] = strings.TrimSpace(reason)
		}
	}
	return later, nil
}

// verdict is how the tests and the rules fit.
type verdict struct {
	rules, tested int
	untested      []rule // neither tested nor listed
	stale         []rule // listed, but tested
	unknown       []rule // listed, or named by a test, but not defined
	postponed     []rule // listed with a promise instead of a reason
}

func judge(defined map[rule]bool, passed []test, listed map[rule]string) verdict {
	tested := map[rule]bool{}
	for _, t := range passed {
		maps.Copy(tested, find(mention, t.name))
	}
	v := verdict{rules: len(defined)}
	for r := range defined {
		_, isListed := listed[r]
		switch {
		case tested[r]:
			v.tested++
			if isListed {
				v.stale = append(v.stale, r)
			}
		case !isListed:
			v.untested = append(v.untested, r)
		}
	}
	for r := range listed {
		if !defined[r] {
			v.unknown = append(v.unknown, r)
		}
		if r.section < hostSection && strings.Contains(strings.ToLower(listed[r]), "later") {
			v.postponed = append(v.postponed, r)
		}
	}
	for r := range tested {
		if !defined[r] {
			v.unknown = append(v.unknown, r)
		}
	}
	for _, list := range [][]rule{v.untested, v.stale, v.unknown, v.postponed} {
		slices.SortFunc(list, compare)
	}
	return v
}

func (v verdict) ok() bool { return len(v.untested)+len(v.stale)+len(v.unknown)+len(v.postponed) == 0 }

func (v verdict) print(b *bufio.Writer) {
	fmt.Fprintf(b, "%d of %d rules are in the name of a test that passed\n", v.tested, v.rules)
	for _, p := range []struct {
		rules []rule
		what  string
	}{
		{v.untested, "no test that passed names, and the list does not either"},
		{v.stale, "the list names, although a test for it passed"},
		{v.unknown, "are named by the list or by a test, but not defined"},
		{v.postponed, "the list only puts off; a cartridge's rule has a test, or a reason why none can be"},
	} {
		if len(p.rules) > 0 {
			fmt.Fprintf(b, "rules that %s: %s\n", p.what, strings.Trim(fmt.Sprint(p.rules), "[]"))
		}
	}
}
