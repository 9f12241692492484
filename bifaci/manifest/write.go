package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/pipe-cartridge/pipe/pools"
)

// JSON writes the manifest compactly, as HELLO carries it, with the keys in the order of section 2. Slot is written as
// position; URNs that are such are written in canonical form. It does not validate: it fails only for what has no JSON,
// such as the zero [Source].
func (m *Manifest) JSON() ([]byte, error) {
	w, err := m.wire()
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	b, err := encodeJSON(w)
	if err != nil {
		return nil, fmt.Errorf("write manifest: %w", err)
	}
	return b, nil
}

// IndentedJSON is [Manifest.JSON] indented by two spaces and ended by a newline, as the manifest sub-command of a cartridge
// prints it (section 9.4).
func (m *Manifest) IndentedJSON() ([]byte, error) {
	b, err := m.JSON()
	if err != nil {
		return nil, err
	}
	return Indent(b)
}

// Indent gives any JSON the form in which manifests are printed: indented by two spaces, one newline at the end. A cartridge
// that was built from JSON bytes prints those, so that unknown keys survive.
func Indent(b []byte) ([]byte, error) {
	var out bytes.Buffer
	if err := json.Indent(&out, bytes.TrimSpace(b), "", "  "); err != nil {
		return nil, fmt.Errorf("indent manifest: %w", err)
	}
	out.WriteByte('\n')
	return out.Bytes(), nil
}

// The wire types fix the order of the keys and which of them may be left out.
type (
	wireManifest struct {
		Name        string              `json:"name"`
		Version     string              `json:"version"`
		Channel     string              `json:"channel"`
		RegistryURL *string             `json:"registry_url"`
		Description string              `json:"description"`
		Groups      []wireGroup         `json:"cap_groups"`
		Author      string              `json:"author,omitempty"`
		PageURL     string              `json:"page_url,omitempty"`
		Pools       *pools.Declarations `json:"pool_declarations,omitempty"`
	}
	wireGroup struct {
		Name        string    `json:"name"`
		Caps        []wireCap `json:"caps"`
		AdapterURNs []string  `json:"adapter_urns"`
	}
	wireCap struct {
		URN                 string            `json:"urn"`
		Version             uint64            `json:"version,omitempty"`
		Title               string            `json:"title"`
		Slug                string            `json:"slug"`
		Aliases             []string          `json:"aliases"`
		Abstract            bool              `json:"abstract,omitempty"`
		Description         string            `json:"cap_description,omitempty"`
		Documentation       string            `json:"documentation,omitempty"`
		Metadata            map[string]string `json:"metadata,omitempty"`
		Args                []wireArg         `json:"args,omitempty"`
		Output              *wireOutput       `json:"output,omitempty"`
		MetadataJSON        json.RawMessage   `json:"metadata_json,omitempty"`
		RegisteredBy        *wireRegistration `json:"registered_by,omitempty"`
		SupportedModelTypes []string          `json:"supported_model_types,omitempty"`
		DefaultModelSpec    string            `json:"default_model_spec,omitempty"`
	}
	wireRegistration struct {
		Username     string `json:"username"`
		RegisteredAt string `json:"registered_at"`
	}
	wireArg struct {
		MediaURN     string           `json:"media_urn"`
		Required     bool             `json:"required"`
		Sources      []map[string]any `json:"sources"`
		IsSequence   bool             `json:"is_sequence"`
		IsStreaming  bool             `json:"streaming"`
		DefaultValue json.RawMessage  `json:"default_value,omitempty"`
		Description  string           `json:"arg_description,omitempty"`
		Metadata     json.RawMessage  `json:"metadata,omitempty"`
	}
	wireOutput struct {
		MediaURN    string          `json:"media_urn"`
		Description string          `json:"output_description"`
		IsSequence  bool            `json:"is_sequence"`
		IsStreaming bool            `json:"streaming"`
		Metadata    json.RawMessage `json:"metadata,omitempty"`
	}
)

func (m *Manifest) wire() (wireManifest, error) {
	w := wireManifest{
		Name: m.Name, Version: m.Version, Channel: m.Channel, Description: m.Description,
		Groups: []wireGroup{}, Author: m.Author, PageURL: m.PageURL, Pools: m.writtenPools(),
	}
	if w.Channel == "" {
		w.Channel = Nightly
	}
	if m.RegistryURL != "" {
		w.RegistryURL = &m.RegistryURL
	}
	for _, g := range m.Groups {
		group := wireGroup{Name: g.Name, Caps: []wireCap{}, AdapterURNs: []string{}}
		for _, u := range g.AdapterURNs {
			group.AdapterURNs = append(group.AdapterURNs, canonicalMedia(u))
		}
		for _, c := range g.Caps {
			cap, err := c.wire()
			if err != nil {
				return wireManifest{}, err
			}
			group.Caps = append(group.Caps, cap)
		}
		w.Groups = append(w.Groups, group)
	}
	return w, nil
}

// writtenPools are the declarations in canonical form, or as they are when they have faults.
func (m *Manifest) writtenPools() *pools.Declarations {
	d, err := m.Declarations()
	if err != nil {
		d = m.Pools
	}
	if d.IsZero() {
		return nil
	}
	return &d
}

func (c Cap) wire() (wireCap, error) {
	w := wireCap{
		URN: canonicalCap(c.URN), Version: c.Version, Title: c.Title, Slug: c.Slug, Aliases: []string{c.Slug},
		Abstract: c.Abstract, Description: c.Description, Documentation: c.Documentation, Metadata: c.Metadata,
		MetadataJSON: free(c.MetadataJSON), SupportedModelTypes: c.SupportedModelTypes, DefaultModelSpec: c.DefaultModelSpec,
	}
	for _, alias := range c.Aliases {
		if alias != c.Slug {
			w.Aliases = append(w.Aliases, alias)
		}
	}
	for _, a := range c.Args {
		arg, err := a.wire()
		if err != nil {
			return wireCap{}, fmt.Errorf("%s: %w", argWhere(c.URN, a), err)
		}
		w.Args = append(w.Args, arg)
	}
	if o := c.Output; o != nil {
		w.Output = &wireOutput{canonicalMedia(o.MediaURN), o.Description, o.IsSequence, o.IsStreaming, free(o.Metadata)}
	}
	if by := c.RegisteredBy; by != nil {
		w.RegisteredBy = &wireRegistration{by.Username, by.RegisteredAt}
	}
	return w, nil
}

func (a Arg) wire() (wireArg, error) {
	if a.fault != nil {
		return wireArg{}, a.fault
	}
	w := wireArg{
		MediaURN: canonicalMedia(a.MediaURN), Required: a.Required, Sources: []map[string]any{}, IsSequence: a.IsSequence,
		IsStreaming: a.IsStreaming, DefaultValue: free(a.DefaultValue), Description: a.Description, Metadata: free(a.Metadata),
	}
	for i, s := range a.Sources {
		switch s.kind {
		case KindPosition:
			w.Sources = append(w.Sources, map[string]any{s.kind.key(): s.position})
		case KindCLIFlag:
			w.Sources = append(w.Sources, map[string]any{s.kind.key(): s.text})
		case KindStdin, KindFilePath:
			w.Sources = append(w.Sources, map[string]any{s.kind.key(): canonicalMedia(s.text)})
		default:
			return wireArg{}, fmt.Errorf("sources[%d]: %w", i, errNoSource)
		}
	}
	return w, nil
}
