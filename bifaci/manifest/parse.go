package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/pools"
)

// Parse reads a manifest and validates it (sections 1 to 6). The error is a [Problems] with all faults; the types are
// checked first, and the rules of [Manifest.Validate] only when those are right. Unknown keys are ignored, except in an
// argument, a source and an output. URNs come out in canonical form.
func Parse(b []byte) (*Manifest, error) {
	m, _, err := parse(b, false)
	return m, err
}

// ParseLenientHello is [Parse] for a host that reads the manifest of a HELLO, with one leniency for cartridges of public
// runtimes: a cap without a slug takes its first alias as the slug, and a warning says so (section 3).
func ParseLenientHello(b []byte) (m *Manifest, warnings []string, err error) {
	return parse(b, true)
}

func parse(b []byte, lenient bool) (*Manifest, []string, error) {
	r := reader{lenient: lenient}
	m := r.manifest(b)
	if len(r.problems) > 0 {
		return nil, nil, r.problems
	}
	if err := m.Validate(); err != nil {
		return nil, nil, err
	}
	m.Pools, _ = m.Declarations() // validated just now
	return m, r.warnings, nil
}

// MarshalJSON is [Manifest.JSON].
func (m *Manifest) MarshalJSON() ([]byte, error) { return m.JSON() }

// UnmarshalJSON is [Parse].
func (m *Manifest) UnmarshalJSON(b []byte) error {
	parsed, err := Parse(b)
	if err == nil {
		*m = *parsed
	}
	return err
}

// reader turns JSON into a manifest and notes every fault on the way.
type reader struct {
	lenient  bool
	problems Problems
	warnings []string
}

func (r *reader) manifest(b []byte) *Manifest {
	keys, members, err := parseObject(b)
	if err != nil {
		r.problems.addErr(CodeJSON, "", "a manifest is one JSON object", err)
		return nil
	}
	o := object{"", members, keys, &r.problems}
	m := &Manifest{
		Name:        o.requiredText("name"),
		Version:     o.requiredText("version"),
		Description: o.requiredText("description"),
	}
	m.Author, _ = o.text("author")
	m.PageURL, _ = o.text("page_url")
	channel, said := o.text("channel")
	if said && !isChannel(channel) {
		r.problems.add(CodeChannel, "channel", channelRule, channel)
	}
	m.Channel = channel
	registryURL, said := o.text("registry_url")
	if said && !isRegistryURL(registryURL) {
		r.problems.add(CodeRegistryURL, "registry_url", registryURLRule, registryURL)
	}
	m.RegistryURL = registryURL
	if raw, ok := o.require("cap_groups", "an array of groups"); ok {
		for i, raw := range o.asArray("cap_groups", raw) {
			m.Groups = append(m.Groups, r.group(raw, fmt.Sprintf("cap_groups[%d]", i)))
		}
	}
	if d, ok := o.object("pool_declarations"); ok {
		m.Pools = r.pools(d)
	}
	return m
}

func (r *reader) group(raw json.RawMessage, path string) Group {
	o, ok := newObject(raw, path, CodeField, &r.problems)
	if !ok {
		return Group{}
	}
	g := Group{Name: o.requiredText("name")}
	if raw, ok := o.require("caps", "an array of caps"); ok {
		for i, raw := range o.asArray("caps", raw) {
			g.Caps = append(g.Caps, r.cap(raw, fmt.Sprintf("%s.caps[%d]", path, i)))
		}
	}
	for _, u := range o.texts("adapter_urns") {
		g.AdapterURNs = append(g.AdapterURNs, canonicalMedia(u))
	}
	return g
}

func (r *reader) cap(raw json.RawMessage, path string) Cap {
	o, ok := newObject(raw, path, CodeField, &r.problems)
	if !ok {
		return Cap{}
	}
	c := Cap{URN: o.requiredText("urn")}
	if c.URN != "" {
		o.where = c.URN // whoever reads the fault knows the cap by its URN
		if u, err := urn.ParseCap(c.URN); err != nil {
			r.problems.addErr(CodeURN, path, "not a cap URN", err)
		} else {
			c.URN = u.String()
		}
	}
	c.Title = o.requiredText("title")
	c.Aliases = o.texts("aliases")
	c.Slug = r.slug(o, c.Aliases)
	if c.Aliases = slices.DeleteFunc(c.Aliases, func(alias string) bool { return alias == c.Slug }); len(c.Aliases) == 0 {
		c.Aliases = nil // public cartridges write the slug as the only alias
	}
	for i, raw := range o.array("args") {
		c.Args = append(c.Args, r.arg(raw, within(o.where, fmt.Sprintf("args[%d]", i)), o.where))
	}
	if raw, ok := o.optional("output"); ok {
		c.Output = r.output(raw, within(o.where, "output"))
	}
	if metadata, ok := o.object("metadata"); ok {
		c.Metadata = map[string]string{}
		for _, key := range metadata.keys {
			c.Metadata[key], _ = metadata.asText(strconv.Quote(key), metadata.members[key])
		}
	}
	c.Description, _ = o.text("cap_description")
	c.Documentation, _ = o.text("documentation")
	c.Version = o.unsigned("version")
	c.Abstract = o.boolean("abstract")
	c.MetadataJSON = free(o.members["metadata_json"])
	if by, ok := o.object("registered_by"); ok {
		c.RegisteredBy = &Registration{by.requiredText("username"), by.requiredText("registered_at")}
	}
	c.SupportedModelTypes = o.texts("supported_model_types")
	c.DefaultModelSpec, _ = o.text("default_model_spec")
	return c
}

// slug reads the slug of a cap, or takes the first alias where that is allowed.
func (r *reader) slug(o object, aliases []string) string {
	if raw, ok := o.members["slug"]; ok && !(r.lenient && isNull(raw)) {
		slug, _ := o.asText("slug", raw)
		return slug
	}
	if r.lenient && len(aliases) > 0 {
		r.warnings = append(r.warnings, fmt.Sprintf("%s: no slug; its first alias %q is taken", o.where, aliases[0]))
		return aliases[0]
	}
	r.problems.add(Rule13, o.where, "slug is missing; it is required, and aliases do not replace it")
	return ""
}

func (r *reader) arg(raw json.RawMessage, path, capURN string) Arg {
	o, ok := newObject(raw, path, CodeField, &r.problems)
	if !ok {
		return Arg{}
	}
	a := Arg{MediaURN: canonicalMedia(o.requiredText("media_urn"))}
	if a.MediaURN != "" {
		o.where = argWhere(capURN, a)
	}
	if key, ok := o.unknown("media_urn", "required", "sources", "is_sequence", "streaming", "default_value",
		"description", "arg_description", "metadata"); ok {
		r.problems.add(Rule12, o.where, "unknown key %q", key)
	}
	if raw, ok := o.require("required", "true or false"); ok {
		a.Required = o.asBoolean("required", raw)
	}
	if raw, ok := o.require("sources", "an array of sources"); ok {
		for i, raw := range o.asArray("sources", raw) {
			a.Sources = append(a.Sources, r.source(raw, within(o.where, fmt.Sprintf("sources[%d]", i))))
		}
	}
	a.IsSequence = o.boolean("is_sequence")
	a.IsStreaming = o.boolean("streaming")
	a.DefaultValue = free(o.members["default_value"])
	a.Metadata = free(o.members["metadata"])
	short, hasShort := o.text("description")
	long, hasLong := o.text("arg_description")
	if hasShort && hasLong && short != long {
		r.problems.add(Rule12, o.where, "description and arg_description are one field and have different texts here")
	}
	a.Description = long
	if !hasLong {
		a.Description = short
	}
	return a
}

func (r *reader) source(raw json.RawMessage, where string) Source {
	o, ok := newObject(raw, where, Rule8, &r.problems)
	if !ok {
		return Source{}
	}
	if len(o.keys) != 1 {
		r.problems.add(Rule8, where, "%s has %d keys; a source has exactly one of stdin, position, cli_flag, slot, file_path",
			brief(raw), len(o.keys))
		return Source{}
	}
	key, value := o.keys[0], o.members[o.keys[0]]
	switch key {
	case "position", "slot":
		n, err := strconv.ParseUint(string(value), 10, strconv.IntSize-1)
		if err != nil {
			r.problems.add(Rule8, where, "%s is %s, not an integer from 0 on", key, brief(value))
			return Source{}
		}
		return Position(int(n))
	case "stdin", "file_path", "cli_flag":
		var text *string
		if err := json.Unmarshal(value, &text); err != nil || text == nil {
			r.problems.add(Rule8, where, "%s is %s, not a string", key, brief(value))
			return Source{}
		}
		switch key {
		case "stdin":
			return Stdin(*text)
		case "file_path":
			return FilePath(*text)
		}
		return CLIFlag(*text)
	}
	r.problems.add(Rule8, where, "unknown key %q; a source is one of stdin, position, cli_flag, slot, file_path", key)
	return Source{}
}

func (r *reader) output(raw json.RawMessage, where string) *Output {
	o, ok := newObject(raw, where, CodeField, &r.problems)
	if !ok {
		return nil
	}
	if key, ok := o.unknown("media_urn", "output_description", "is_sequence", "streaming", "metadata"); ok {
		r.problems.add(CodeOutput, where, "unknown key %q", key)
	}
	return &Output{
		MediaURN:    canonicalMedia(o.requiredText("media_urn")),
		Description: o.requiredText("output_description"),
		IsSequence:  o.boolean("is_sequence"),
		IsStreaming: o.boolean("streaming"),
		Metadata:    free(o.members["metadata"]),
	}
}

// pools reads the declarations as they are written; two keys may still mean one pool.
func (r *reader) pools(o object) pools.Declarations {
	var d pools.Declarations
	if shared, ok := o.object("pools"); ok {
		d.Pools = make(map[string][]string, len(shared.keys))
		for _, name := range shared.keys {
			d.Pools[name] = shared.texts(name)
		}
	}
	if capacities, ok := o.object("capacities"); ok {
		d.Capacities = make(map[string]uint64, len(capacities.keys))
		for _, name := range capacities.keys {
			d.Capacities[name] = capacities.unsigned(name)
		}
	}
	return d
}

const (
	channelRule     = "%q is neither " + Release + " nor " + Nightly
	registryURLRule = "%q is not a URL: it needs :// with something behind it; null is a development build"
)

func isChannel(s string) bool { return s == Release || s == Nightly }

func isRegistryURL(s string) bool {
	_, rest, ok := strings.Cut(s, "://")
	return ok && rest != ""
}

// argWhere is the place of an argument in faults.
func argWhere(capURN string, a Arg) string { return within(capURN, "argument "+a.MediaURN) }
