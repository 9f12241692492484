package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// Validate finds everything that is wrong with the manifest (sections 2 to 6) and changes nothing. The error is a
// [Problems], in the order of section 5; it matches [ErrInvalid], and [ErrIdentityMissing] when no cap is the identity cap.
func (m *Manifest) Validate() error {
	var problems Problems
	m.checkFields(&problems)
	seen := map[string]bool{}
	var twice Problems
	identity := false
	for i, g := range m.Groups {
		for k, c := range g.Caps {
			u, err := urn.ParseCap(c.URN)
			if err != nil {
				problems.addErr(CodeURN, fmt.Sprintf("cap_groups[%d].caps[%d]", i, k), "not a cap URN", err)
				continue
			}
			c.check(u, &problems)
			if seen[u.String()] {
				twice.add(CodeDuplicate, u.String(), "two caps of the manifest have this URN")
			}
			seen[u.String()] = true
			identity = identity || u.Equivalent(identityCap)
		}
		for _, adapter := range g.AdapterURNs {
			checkMedia(adapter, "group "+g.Name, "adapter", &problems)
		}
	}
	problems = append(problems, twice...)
	checkPools(m, &problems)
	if !identity {
		problems.add(CodeIdentity, "", "no cap is equivalent to %s; every cartridge serves it (manifest.IdentityCap)", urn.Identity)
	}
	return problems.orNil()
}

var identityCap = urn.MustCap(urn.Identity)

// checkFields finds what a reader of JSON would have refused: values that cannot be what they should be.
func (m *Manifest) checkFields(problems *Problems) {
	for _, f := range []struct{ key, value string }{{"name", m.Name}, {"version", m.Version}} {
		if f.value == "" {
			problems.add(CodeField, "", "%s is empty; it is required", f.key)
		}
	}
	if m.Channel != "" && !isChannel(m.Channel) {
		problems.add(CodeChannel, "channel", channelRule, m.Channel)
	}
	if m.RegistryURL != "" && !isRegistryURL(m.RegistryURL) {
		problems.add(CodeRegistryURL, "registry_url", registryURLRule, m.RegistryURL)
	}
	for c := range m.Caps() {
		for _, a := range c.Args {
			if a.fault != nil {
				problems.addErr(CodeField, argWhere(c.URN, a), "no JSON", a.fault)
			}
			for i, s := range a.Sources {
				if err := s.check(); err != nil {
					problems.addErr(Rule8, argWhere(c.URN, a), fmt.Sprintf("sources[%d]", i), err)
				}
			}
		}
	}
}

// check finds what is wrong with one cap whose URN is u.
func (c Cap) check(u urn.Cap, problems *Problems) {
	where := u.String()
	c.checkNames(where, problems)
	before := len(*problems)
	c.checkMedia(where, problems)
	c.checkRepeats(where, problems)
	c.checkSources(where, problems)
	if len(*problems) > before {
		return // the rules below take well-formed arguments for granted
	}
	c.checkContents(u, where, problems)
	c.checkPositions(where, problems)
	c.checkFlags(where, problems)
}

// checkNames is RULE13.
func (c Cap) checkNames(where string, problems *Problems) {
	names := append([]string{c.Slug}, c.Aliases...)
	for i, name := range names {
		kind := "alias"
		if i == 0 {
			kind = "slug"
		}
		switch {
		case name == "":
			problems.add(Rule13, where, "%s is empty; it needs at least one of a-z 0-9 . _ -", kind)
		case strings.ContainsFunc(name, func(r rune) bool { return !isSlugRune(r) }):
			problems.add(Rule13, where, "%s %q has characters other than a-z 0-9 . _ -", kind, name)
		case name[0] == '-':
			problems.add(Rule13, where, "%s %q begins with -, like a flag", kind, name)
		case name == reservedSlug:
			problems.add(Rule13, where, "%s %q is the sub-command of the runtime itself", kind, name)
		}
	}
}

const reservedSlug = "manifest"

func isSlugRune(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' || r == '_' || r == '-'
}

// checkMedia is MEDIA for one cap.
func (c Cap) checkMedia(where string, problems *Problems) {
	for _, a := range c.Args {
		checkMedia(a.MediaURN, argWhere(where, a), "media_urn", problems)
		for _, s := range a.Sources {
			if s.kind == KindStdin || s.kind == KindFilePath {
				checkMedia(s.text, argWhere(where, a), s.kind.key(), problems)
			}
		}
	}
	if c.Output != nil {
		checkMedia(c.Output.MediaURN, within(where, "output"), "media_urn", problems)
	}
}

func checkMedia(text, where, key string, problems *Problems) {
	if _, err := urn.ParseMedia(text); err != nil {
		problems.addErr(CodeMedia, where, key+" is not a media URN", err)
	}
}

// checkRepeats is RULE1.
func (c Cap) checkRepeats(where string, problems *Problems) {
	seen := map[string]bool{}
	for _, a := range c.Args {
		u := canonicalMedia(a.MediaURN)
		if seen[u] {
			problems.add(Rule1, argWhere(where, a), "two arguments of the cap have this media URN")
		}
		seen[u] = true
	}
}

// checkSources is RULE2, RULE4, RULE10 and RULE7.
func (c Cap) checkSources(where string, problems *Problems) {
	for _, a := range c.Args {
		if len(a.Sources) == 0 {
			problems.add(Rule2, argWhere(where, a), "no source; an argument needs at least one")
		}
	}
	for _, a := range c.Args {
		seen := map[SourceKind]bool{}
		for _, s := range a.Sources {
			if seen[s.kind] {
				problems.add(Rule4, argWhere(where, a), "two sources of kind %s", s.kind)
			}
			seen[s.kind] = true
			if s.kind == KindCLIFlag && slices.Contains(reservedFlags(), s.text) {
				problems.add(Rule10, argWhere(where, a), "flag %q is reserved for the runtime", s.text)
			}
		}
	}
	for _, a := range c.Args {
		_, position := a.source(KindPosition)
		_, flag := a.source(KindCLIFlag)
		if position && flag {
			problems.add(Rule7, argWhere(where, a), "a position and a cli_flag exclude each other")
		}
	}
}

func reservedFlags() []string { return []string{"manifest", "--help", "--version", "-v", "-h"} }

// checkContents is RULE3, RULE11 and RULE14, the rules about what streams in.
func (c Cap) checkContents(u urn.Cap, where string, problems *Problems) {
	var stdin *urn.Media // the first stdin URN of the cap
	for _, a := range c.Args {
		var content *urn.Media // the first of the argument
		for _, s := range a.Sources {
			if s.kind != KindStdin && s.kind != KindFilePath {
				continue
			}
			m := urn.MustMedia(s.text) // checkMedia has let it pass
			if content != nil && !m.Equivalent(*content) {
				problems.add(Rule3, argWhere(where, a), "stdin and file_path name different content: %s and %s", *content, m)
			}
			content = &m
			if s.kind == KindFilePath {
				continue
			}
			if stdin != nil && !m.Equivalent(*stdin) {
				problems.add(Rule3, argWhere(where, a), "the cap has one stdin, but two URNs for it: %s and %s", *stdin, m)
			}
			if stdin == nil {
				stdin = &m
			}
			if u.In().IsVoid() {
				problems.add(Rule11, argWhere(where, a), "stdin source, but the cap's in is %s", urn.MediaVoid)
			}
		}
	}
	if !u.In().IsVoid() && len(c.Args) > 0 && stdin == nil {
		problems.add(Rule11, where, "in is %s, but no argument has a stdin source", u.In())
	}
	for _, a := range c.Args {
		if a.IsStreaming && !isMainInput(u, a) {
			problems.add(Rule14, argWhere(where, a), "streaming is for the main input, the argument with stdin source %s", u.In())
		}
	}
}

// checkPositions is RULE5 and RULE6.
func (c Cap) checkPositions(where string, problems *Problems) {
	at := map[int]Arg{}
	for _, a := range c.Args {
		s, ok := a.source(KindPosition)
		if !ok {
			continue
		}
		if other, taken := at[s.position]; taken {
			problems.add(Rule5, argWhere(where, a), "position %d is taken by argument %s", s.position, other.MediaURN)
			continue
		}
		at[s.position] = a
	}
	for missing := range len(at) {
		if _, ok := at[missing]; !ok {
			last := slices.Max(slices.Collect(maps.Keys(at)))
			problems.add(Rule6, argWhere(where, at[last]), "position %d, but no argument has position %d", last, missing)
			return
		}
	}
}

// checkFlags is RULE9.
func (c Cap) checkFlags(where string, problems *Problems) {
	owner := map[string]Arg{}
	for _, a := range c.Args {
		flag, ok := a.Flag()
		if !ok {
			continue
		}
		if other, taken := owner[flag]; taken {
			problems.add(Rule9, argWhere(where, a), "flag %q is taken by argument %s", flag, other.MediaURN)
			continue
		}
		owner[flag] = a
	}
}

// Warnings are oddities that break no rule: names that two caps share, so that only the first cap has them on the command
// line (section 3).
func (m *Manifest) Warnings() []string {
	owner := map[string]*Cap{} // by the rule of Lookup: slugs before aliases, the first in manifest order
	for c := range m.Caps() {
		if owner[c.Slug] == nil {
			owner[c.Slug] = c
		}
	}
	for c := range m.Caps() {
		for _, alias := range c.Aliases {
			if owner[alias] == nil {
				owner[alias] = c
			}
		}
	}
	var warnings []string
	for c := range m.Caps() {
		for _, name := range append([]string{c.Slug}, c.Aliases...) {
			if first := owner[name]; first != c {
				warnings = append(warnings, fmt.Sprintf("%s: %q is the sub-command of %s already", c.URN, name, first.URN))
			}
		}
	}
	return warnings
}
