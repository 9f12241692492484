//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// target is one cartridge to drive.
type target struct {
	name    string
	path    string
	version uint64
	policy  bool
	caps    map[string]string // workload's cap to URN
	skip    []string          // workloads this target does not run
}

func defaultCaps() map[string]string {
	return map[string]string{
		"sink":   `cap:in="media:";out="media:enc=utf-8";sink`,
		"source": `cap:in="media:enc=utf-8";out="media:";source`,
		"echo":   `cap:in="media:";out="media:";echo`,
		"items":  `cap:in="media:enc=utf-8";out="media:";items`,
		"tokens": `cap:in="media:enc=utf-8";out="media:enc=utf-8";tokens`,
		"spin":   `cap:in="media:enc=utf-8";out="media:enc=utf-8";spin`,
	}
}

// parseTarget reads the value of a -bin flag.
func parseTarget(s string, version uint64, policy bool) (*target, error) {
	t := &target{version: version, policy: policy, caps: defaultCaps()}
	parts := strings.Split(s, ",")
	name, path, named := strings.Cut(parts[0], "=")
	if !named {
		name, path = filepath.Base(parts[0]), parts[0]
	}
	t.name, t.path = name, path
	for _, o := range parts[1:] {
		k, v, _ := strings.Cut(o, "=")
		var err error
		switch k {
		case "version":
			t.version, err = strconv.ParseUint(v, 10, 8)
		case "policy":
			t.policy, err = strconv.ParseBool(v)
		case "skip":
			if _, known := workloads[v]; !known {
				err = unknownWorkload(v)
			}
			t.skip = append(t.skip, v)
		default:
			err = fmt.Errorf("unknown option %q", k)
		}
		if err != nil {
			return nil, fmt.Errorf("-bin %s: %w", s, err)
		}
	}
	return t, nil
}

func (t *target) skips(workload string) bool { return slices.Contains(t.skip, workload) }

// mapCap applies the value of a -caps flag to the targets it names.
func mapCap(targets []*target, m string) error {
	if file, ok := strings.CutPrefix(m, "@"); ok {
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("-caps: %w", err)
		}
		for line := range strings.SplitSeq(string(b), "\n") {
			if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			if err := mapCap(targets, line); err != nil {
				return err
			}
		}
		return nil
	}
	key, urn, ok := strings.Cut(m, "=")
	if !ok {
		return fmt.Errorf("-caps %q: want name=URN", m)
	}
	bin, name, scoped := strings.Cut(key, ":")
	if !scoped {
		bin, name = "", key
	}
	for _, t := range targets {
		if bin == "" || bin == t.name {
			t.caps[name] = urn
		}
	}
	return nil
}

// parseSize reads a count with an optional suffix, such as 256KiB or 1G.
func parseSize(s string) (int64, error) {
	unit := int64(1)
	for suffix, m := range map[string]int64{"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "k": 1e3, "M": 1e6, "G": 1e9} {
		if rest, ok := strings.CutSuffix(s, suffix); ok {
			s, unit = rest, m
			break
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
	return n * unit, err
}

// sizes is a flag that holds a comma separated list of positive sizes.
type sizes []int

func (l *sizes) String() string { return strings.Trim(fmt.Sprint([]int(*l)), "[]") }

func (l *sizes) Set(v string) error {
	*l = nil
	for f := range strings.SplitSeq(v, ",") {
		n, err := parseSize(f)
		if err != nil || n <= 0 {
			return fmt.Errorf("bad number %q", f)
		}
		*l = append(*l, int(n))
	}
	return nil
}

// list is a flag that may be repeated.
type list []string

func (l *list) String() string     { return strings.Join(*l, " ") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }
