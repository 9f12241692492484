package urn_test

import (
	"testing"

	"pgregory.net/rapid"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// state is one state of a key: absent, or present with a value. The values of the generators and one more, which stands
// for all others, are enough to tell every two forms apart.
type state struct {
	present bool
	value   string
}

var states = []state{{}, {true, "1"}, {true, "2"}, {true, "B c"}, {true, "none of these"}}

// allows is the meaning of a stored value (spec/urn.md 5.1), written down independently of the package.
func allows(stored string, s state) bool {
	switch {
	case stored == "" || stored == "?":
		return true
	case stored == "*":
		return s.present
	case stored == "!":
		return !s.present
	case len(stored) > 2 && stored[:2] == "?=":
		return !s.present || s.value != stored[2:]
	case len(stored) > 2 && stored[:2] == "!=":
		return s.present && s.value != stored[2:]
	default:
		return s.present && s.value == stored
	}
}

// everyKey reports that a relation between the allowed states holds for every key.
func everyKey(a, b map[string]string, missing string, relation func(inA, inB []bool) bool) bool {
	for _, key := range []string{"p", "q", "r"} {
		stored, ok := a[key]
		if !ok {
			stored = missing
		}
		var inA, inB []bool
		for _, s := range states {
			inA = append(inA, allows(stored, s))
			inB = append(inB, allows(b[key], s))
		}
		if !relation(inA, inB) {
			return false
		}
	}
	return true
}

func subset(inA, inB []bool) bool {
	for i := range inA {
		if inA[i] && !inB[i] {
			return false
		}
	}
	return true
}

func intersect(inA, inB []bool) bool {
	for i := range inA {
		if inA[i] && inB[i] {
			return true
		}
	}
	return false
}

// TestRelationsAreWhatTheirStatesSay compares the merge walks with sets of states.
func TestRelationsAreWhatTheirStatesSay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := mediaGenerator().Draw(t, "a"), mediaGenerator().Draw(t, "b")
		for _, c := range []struct {
			name      string
			got, want bool
		}{
			{"conforms", a.ConformsTo(b), everyKey(a.Tags(), b.Tags(), "", subset)},
			{"satisfies", a.Satisfies(b), everyKey(a.Tags(), b.Tags(), "!", subset)},
			{"meets", a.Meets(b), everyKey(a.Tags(), b.Tags(), "", intersect)},
			{"equivalent", a.Equivalent(b),
				everyKey(a.Tags(), b.Tags(), "", subset) && everyKey(b.Tags(), a.Tags(), "", subset)},
			{"comparable", a.Comparable(b),
				everyKey(a.Tags(), b.Tags(), "", subset) || everyKey(b.Tags(), a.Tags(), "", subset)},
			{"open", a.IsOpen(), urn.MustMedia("media:").ConformsTo(a)},
		} {
			if c.got != c.want {
				t.Fatalf("%s and %s: %s is %v", a, b, c.name, c.got)
			}
		}
	})
}

// law is a statement about three media URNs; premise says whether it applies.
type law struct {
	name      string
	premise   func(a, b, c urn.Media) bool
	statement func(a, b, c urn.Media) bool
}

func TestMediaLaws(t *testing.T) {
	always := func(_, _, _ urn.Media) bool { return true }
	top := urn.MustMedia(urn.MediaTop)
	for _, l := range []law{
		{"conforms is reflexive", always, func(a, _, _ urn.Media) bool { return a.ConformsTo(a) }},
		{"conforms is transitive",
			func(a, b, c urn.Media) bool { return a.ConformsTo(b) && b.ConformsTo(c) },
			func(a, _, c urn.Media) bool { return a.ConformsTo(c) }},
		{"everything conforms to media:", always, func(a, _, _ urn.Media) bool { return a.ConformsTo(top) }},
		{"satisfies is reflexive", always, func(a, _, _ urn.Media) bool { return a.Satisfies(a) }},
		{"meets is symmetric", always, func(a, b, _ urn.Media) bool { return a.Meets(b) == b.Meets(a) }},
		{"equivalent is symmetric", always, func(a, b, _ urn.Media) bool { return a.Equivalent(b) == b.Equivalent(a) }},
		{"conforms implies satisfies",
			func(a, b, _ urn.Media) bool { return a.ConformsTo(b) }, func(a, b, _ urn.Media) bool { return a.Satisfies(b) }},
		{"satisfies implies meets",
			func(a, b, _ urn.Media) bool { return a.Satisfies(b) }, func(a, b, _ urn.Media) bool { return a.Meets(b) }},
		{"satisfies then conforms is satisfies",
			func(a, b, c urn.Media) bool { return a.Satisfies(b) && b.ConformsTo(c) },
			func(a, _, c urn.Media) bool { return a.Satisfies(c) }},
		{"meets then conforms is meets",
			func(a, b, c urn.Media) bool { return a.Meets(b) && b.ConformsTo(c) },
			func(a, _, c urn.Media) bool { return a.Meets(c) }},
		{"conforms is at least as specific, equally only when equivalent",
			func(a, b, _ urn.Media) bool { return a.ConformsTo(b) },
			func(a, b, _ urn.Media) bool {
				return a.Specificity() >= b.Specificity() && (a.Specificity() == b.Specificity()) == a.Equivalent(b)
			}},
		{"every input conforms to the join", always, func(a, b, c urn.Media) bool {
			joined := urn.Join(a, b, c)
			return a.ConformsTo(joined) && b.ConformsTo(joined) && c.ConformsTo(joined)
		}},
		{"the delta leads from base to target", always, func(a, b, _ urn.Media) bool {
			got, err := a.Apply(a.DeltaTo(b))
			return err == nil && got.String() == b.String()
		}},
		{"the delta to itself is empty", always, func(a, _, _ urn.Media) bool { return a.DeltaTo(a).IsEmpty() }},
		{"compare is zero exactly for the same canonical form", always, func(a, b, _ urn.Media) bool {
			return (a.Compare(b) == 0) == (a.String() == b.String()) && a.Compare(b) == -b.Compare(a)
		}},
		{"compare is transitive",
			func(a, b, c urn.Media) bool { return a.Compare(b) <= 0 && b.Compare(c) <= 0 },
			func(a, _, c urn.Media) bool { return a.Compare(c) <= 0 }},
	} {
		t.Run(l.name, func(t *testing.T) {
			applied := 0
			rapid.Check(t, func(t *rapid.T) {
				a, b, c := mediaGenerator().Draw(t, "a"), mediaGenerator().Draw(t, "b"), mediaGenerator().Draw(t, "c")
				if !l.premise(a, b, c) {
					return
				}
				applied++
				if !l.statement(a, b, c) {
					t.Fatalf("not so for %s, %s, %s", a, b, c)
				}
			})
			if applied == 0 {
				t.Fatal("the premise never held, so nothing was tested")
			}
		})
	}
}

func TestCapLaws(t *testing.T) {
	for name, statement := range map[string]func(a, b, c urn.Cap) bool{
		"R-1.40 a cap serves its own request":       func(a, _, _ urn.Cap) bool { return a.IsDispatchable(a) },
		"a cap accepts and is equivalent to itself": func(a, _, _ urn.Cap) bool { return a.Accepts(a) && a.Equivalent(a) },
		"equivalent and comparable are symmetric": func(a, b, _ urn.Cap) bool {
			return a.Equivalent(b) == b.Equivalent(a) && a.Comparable(b) == b.Comparable(a)
		},
		"equivalent is transitive": func(a, b, c urn.Cap) bool {
			return !a.Equivalent(b) || !b.Equivalent(c) || a.Equivalent(c)
		},
		"equivalent caps are equally specific, comparable, and serve the same": func(a, b, c urn.Cap) bool {
			return !a.Equivalent(b) || a.Specificity() == b.Specificity() && a.Comparable(b) &&
				c.IsDispatchable(a) == c.IsDispatchable(b)
		},
		"for a request open on both sides dispatch and accepts agree": func(a, b, _ urn.Cap) bool {
			return !b.In().IsOpen() || !b.Out().IsOpen() || a.IsDispatchable(b) == b.Accepts(a)
		},
		"R-6.30 the response media can be told unless the effect is open": func(a, _, _ urn.Cap) bool {
			response, err := a.ResponseMedia()
			if a.Effect() == urn.EffectAny {
				return urn.ReasonOf(err) == urn.InvalidEffectApplication
			}
			if a.Effect() == urn.EffectNone {
				return err == nil && response.String() == a.In().String()
			}
			return err == nil && response.String() == a.Out().String()
		},
		"compare is zero exactly for the same canonical form": func(a, b, _ urn.Cap) bool {
			return (a.Compare(b) == 0) == (a.String() == b.String()) && a.Compare(b) == -b.Compare(a)
		},
		"the canonical form is read back the same": func(a, _, _ urn.Cap) bool {
			again, err := urn.ParseCap(a.String())
			return err == nil && again.String() == a.String() && again.Equivalent(a) && again.Hash() == a.Hash()
		},
	} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				a, b, c := capGenerator().Draw(t, "a"), capGenerator().Draw(t, "b"), capGenerator().Draw(t, "c")
				if rapid.Bool().Draw(t, "related") { // else b would seldom be equivalent to a
					b = sprinkled(t, a)
				}
				if !statement(a, b, c) {
					t.Fatalf("not so for %s, %s, %s", a, b, c)
				}
			})
		})
	}
}

// sprinkled gives a with a tag more that allows everything.
func sprinkled(t *rapid.T, a urn.Cap) urn.Cap {
	b, err := a.WithTag("z", "?")
	if err != nil {
		t.Fatalf("%s with ?z: %v", a, err)
	}
	return b
}
