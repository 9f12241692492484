package conform

import (
	"fmt"
	"strings"
	"time"
)

// Verdict is how a check ended.
type Verdict string

// The verdicts. A check that could not be made is never one that passed.
const (
	Passed    Verdict = "pass"
	Failed    Verdict = "fail"
	Unchecked Verdict = "unchecked" // the cartridge lacks what the check needs; Result.Why says what
)

// check is one thing that a cartridge is held to. run ends normally when the cartridge keeps it, and otherwise through t.
type check struct {
	id    string   // short, stable, unique
	rule  string   // of docs/spec
	title string   // what is right, in one line
	needs []string // roles
	early bool     // can be made although the cartridge does not become live
	run   func(t *trial)
}

// Result is what became of one check.
type Result struct {
	ID      string        `json:"id"`
	Rule    string        `json:"rule"`
	Title   string        `json:"title"`
	Verdict Verdict       `json:"verdict"`
	Why     string        `json:"why,omitempty"` // of Unchecked
	Failure *Failure      `json:"failure,omitempty"`
	Took    time.Duration `json:"took_ns"`
}

// Failure is how a cartridge broke a rule.
type Failure struct {
	Expected string   `json:"expected"`
	Seen     string   `json:"seen"`
	Frame    string   `json:"frame,omitempty"`  // the frame at fault
	Frames   []string `json:"frames,omitempty"` // the last ones of the link, oldest first
	Stderr   string   `json:"stderr,omitempty"` // the end of what the cartridge wrote there
}

// trial is one run of one check. Its methods belong to the goroutine of the check and end it by a panic that judge recovers.
type trial struct {
	*bench
	sessions []*session
}

// failed and skipped end a check from any depth.
type (
	failed  struct{ failure Failure }
	skipped struct{ why string }
)

// fail ends the check: the cartridge did something else than it should have.
func (t *trial) fail(expected, seen string, args ...any) {
	t.failAt(nil, expected, seen, args...)
}

// failAt is fail with the frame at fault. The last session is the one that is shown.
func (t *trial) failAt(at frame, expected, seen string, args ...any) {
	f := Failure{Expected: expected, Seen: fmt.Sprintf(seen, args...)}
	if at != nil {
		f.Frame = at.String()
	}
	if n := len(t.sessions); n > 0 {
		f.Frames, f.Stderr = t.sessions[n-1].shown()
	}
	panic(failed{f})
}

// skip ends the check without a verdict.
func (t *trial) skip(why string, args ...any) { panic(skipped{fmt.Sprintf(why, args...)}) }

// ensure fails unless ok.
func (t *trial) ensure(ok bool, at frame, expected, seen string, args ...any) {
	if !ok {
		t.failAt(at, expected, seen, args...)
	}
}

// judge makes a check and cleans up behind it.
func (b *bench) judge(c check) (r Result) {
	r = Result{ID: c.id, Rule: c.rule, Title: c.title, Verdict: Passed}
	begun := time.Now()
	t := &trial{bench: b}
	defer func() {
		for _, s := range t.sessions {
			s.close()
		}
		r.Took = time.Since(begun)
	}()
	defer func() {
		switch end := recover().(type) {
		case nil:
		case failed:
			r.Verdict, r.Failure = Failed, &end.failure
		case skipped:
			r.Verdict, r.Why = Unchecked, end.why
		default:
			panic(end)
		}
	}()
	for _, role := range c.needs {
		if b.roles[role] == "" {
			t.skip("the cartridge has no cap with the role %s (a slug %s, the URN of the probe's, or --caps)", role, role)
		}
	}
	c.run(t)
	return r
}

// String is the failure as paragraphs.
func (f *Failure) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "expected: %s\nseen:     %s\n", f.Expected, f.Seen)
	if f.Frame != "" {
		fmt.Fprintf(&b, "frame:    %s\n", f.Frame)
	}
	if len(f.Frames) > 0 {
		fmt.Fprintf(&b, "last frames:\n  %s\n", strings.Join(f.Frames, "\n  "))
	}
	if f.Stderr != "" {
		fmt.Fprintf(&b, "standard error:\n  %s\n", strings.ReplaceAll(strings.TrimSpace(f.Stderr), "\n", "\n  "))
	}
	return b.String()
}
