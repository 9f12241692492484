package conform

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// Defaults of the options.
const (
	DefaultPatience = 15 * time.Second // what a host allows for a HELLO
	DefaultJobs     = 4
)

// Options changes how a cartridge is judged. The zero value is the default.
type Options struct {
	Caps     map[string]string // role → cap URN, beside what is found by itself
	Only     []string          // ids of checks; all of them when empty
	Jobs     int               // checks at a time; DefaultJobs when 0
	Patience time.Duration     // for one thing that must come; DefaultPatience when 0
	Opening  time.Duration     // the same before the link is live; the longer of Patience and DefaultPatience when 0
	Env      []string          // of the processes; this process's when nil
}

// Report is the judgement of one cartridge.
type Report struct {
	Cartridge string            `json:"cartridge"` // path
	Name      string            `json:"name,omitempty"`
	Version   string            `json:"version,omitempty"`
	Roles     map[string]string `json:"roles"`
	Results   []Result          `json:"results"` // in the order of Checks
	Took      time.Duration     `json:"took_ns"`
}

// Count is how many results have a verdict.
func (r *Report) Count(v Verdict) (n int) {
	for _, one := range r.Results {
		if one.Verdict == v {
			n++
		}
	}
	return n
}

// bench is what all checks of one run share.
type bench struct {
	ctx      context.Context
	path     string
	env      []string
	patience time.Duration
	opening  time.Duration
	manifest *manifest.Manifest // nil when the gate failed
	roles    map[string]string  // role → cap URN
	day      func() *day        // the recorded session that several checks look at, made once
}

// checks is every check, in the order of reports.
func checks() []check {
	return slices.Concat(handshakeChecks(), identityChecks(), policyChecks(), dayChecks(), framingChecks(), windowChecks(),
		faultChecks(), cancelChecks(), feedChecks(), heartbeatChecks(), lineChecks(),
		endingChecks(), answerChecks())
}

// Check describes one check.
type Check struct {
	ID, Rule, Title string
	Needs           []string // roles
}

// Checks lists every check.
func Checks() (all []Check) {
	for _, c := range checks() {
		all = append(all, Check{c.id, c.rule, c.title, c.needs})
	}
	return all
}

// Roles lists the names of the roles.
func Roles() []string { return slices.Sorted(maps.Keys(roleURN)) }

// Run judges the cartridge at path, which is started once or a few times for each check. The error says why nothing could be judged
// at all: an unknown check, a path without a program, or the end of ctx.
func Run(ctx context.Context, path string, opts Options) (*Report, error) {
	begun := time.Now()
	chosen, err := choose(opts.Only)
	if err != nil {
		return nil, err
	}
	if _, err := os.Stat(path); err != nil {
		return nil, err
	}
	b := &bench{ctx: ctx, path: path, env: opts.Env, patience: opts.Patience}
	if b.patience <= 0 {
		b.patience = DefaultPatience
	}
	if b.opening = opts.Opening; b.opening <= 0 {
		b.opening = max(b.patience, DefaultPatience)
	}
	b.day = sync.OnceValue(b.record)
	report := &Report{Cartridge: path, Roles: map[string]string{}}
	gate := b.judge(gate(b))
	if b.manifest != nil {
		b.roles = findRoles(b.manifest, opts.Caps)
		report.Name, report.Version, report.Roles = b.manifest.Name, b.manifest.Version, b.roles
	}
	if gate.Verdict != Passed {
		report.Results = append(report.Results, gate)
	}
	report.Results = append(report.Results, b.all(chosen, gate.Verdict == Passed, opts.Jobs)...)
	report.Took = time.Since(begun)
	return report, ctx.Err()
}

// choose picks the checks with the ids.
func choose(ids []string) ([]check, error) {
	all := checks()
	if len(ids) == 0 {
		return all, nil
	}
	var chosen []check
	for _, c := range all {
		if slices.Contains(ids, c.id) {
			chosen = append(chosen, c)
		}
	}
	for _, id := range ids {
		if !slices.ContainsFunc(chosen, func(c check) bool { return c.id == id }) {
			return nil, fmt.Errorf("there is no check %q", id)
		}
	}
	return chosen, nil
}

// all makes the checks, several at a time.
func (b *bench) all(chosen []check, live bool, jobs int) []Result {
	if jobs <= 0 {
		jobs = DefaultJobs
	}
	results := make([]Result, len(chosen))
	var workers sync.WaitGroup
	places := make(chan struct{}, jobs)
	for i, c := range chosen {
		places <- struct{}{}
		workers.Go(func() {
			defer func() { <-places }()
			if (live || c.early) && b.ctx.Err() == nil {
				results[i] = b.judge(c)
				return
			}
			results[i] = Result{ID: c.id, Rule: c.rule, Title: c.title, Verdict: Unchecked, Why: "the cartridge does not become live"}
		})
	}
	workers.Wait()
	return results
}

// gate is what everything else needs: a cartridge that becomes live. It is reported when it fails.
func gate(b *bench) check {
	return check{id: "becomes-live", rule: "wire 6", title: "the cartridge answers HELLO and the identity check", run: func(t *trial) {
		s := t.start(defaultLimits())
		raw, ok := s.hello().meta()["manifest"].([]byte)
		t.ensure(ok, nil, "a HELLO with a manifest, a byte string", "there is none")
		m, err := manifest.Parse(raw)
		t.ensure(err == nil, nil, "a manifest that a host accepts", "%v", err)
		b.manifest = m
		s.verify()
	}}
}

// String is the verdict in short: what was judged and how many checks ended how.
func (r *Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d passed, %d failed, %d unchecked", r.Count(Passed), r.Count(Failed), r.Count(Unchecked))
	if r.Name != "" {
		fmt.Fprintf(&b, ": %s %s", r.Name, r.Version)
	}
	return b.String()
}
