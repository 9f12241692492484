package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// Cap is one capability of a cartridge (section 3). URN, Title and Slug are required. Builder methods return a changed
// copy and leave the receiver alone.
type Cap struct {
	URN     string
	Title   string   // for display
	Slug    string   // the subcommand in CLI mode
	Aliases []string // further names of the subcommand
	Args    []Arg
	Output  *Output
	// Metadata are free texts, for instance activity_timeout_secs: decimal seconds.
	Metadata map[string]string

	Description   string // one line
	Documentation string // Markdown
	Version       uint64 // of the definition
	Abstract      bool   // a dispatch umbrella that no cartridge serves

	MetadataJSON        json.RawMessage // any JSON value; nil when absent
	RegisteredBy        *Registration
	SupportedModelTypes []string
	DefaultModelSpec    string
}

// Registration says who put a cap into the fabric, and when.
type Registration struct {
	Username     string
	RegisteredAt string
}

// NewCap makes a cap without arguments. The URN may have any spelling.
func NewCap(capURN, title, slug string) Cap {
	return Cap{URN: canonicalCap(capURN), Title: title, Slug: slug}
}

// IdentityCap is the cap that every manifest must have (section 7): it gives back what it gets.
func IdentityCap() Cap {
	return NewCap(urn.Identity, "Identity", "identity").
		WithArgs(NewArg(urn.MediaTop, true, Stdin(urn.MediaTop)).Describe("Any data")).
		WithOutput(NewOutput(urn.MediaTop, "The same data"))
}

// WithArgs adds arguments.
func (c Cap) WithArgs(args ...Arg) Cap {
	c.Args = slices.Concat(c.Args, args)
	return c
}

// WithOutput sets the output.
func (c Cap) WithOutput(o Output) Cap { c.Output = &o; return c }

// WithAliases adds further names of the subcommand.
func (c Cap) WithAliases(names ...string) Cap {
	c.Aliases = slices.Concat(c.Aliases, names)
	return c
}

// WithMetadata sets one of the free texts.
func (c Cap) WithMetadata(key, value string) Cap {
	metadata := maps.Clone(c.Metadata)
	if metadata == nil {
		metadata = map[string]string{}
	}
	metadata[key] = value
	c.Metadata = metadata
	return c
}

// Describe sets the line that help shows.
func (c Cap) Describe(text string) Cap { c.Description = text; return c }

// Document sets the long text, in Markdown.
func (c Cap) Document(markdown string) Cap { c.Documentation = markdown; return c }

// Arg is one argument of a cap (section 4.1). It has no name; its media URN identifies it.
type Arg struct {
	MediaURN    string
	Required    bool
	Sources     []Source
	IsSequence  bool // a sequence of items, not one value
	IsStreaming bool // consumed without a promise of length; main input only
	// DefaultValue is used when nothing else gives a value; any JSON value, nil for none. CLI mode and whoever makes a
	// request apply it, a cartridge that serves frames does not.
	DefaultValue json.RawMessage
	Description  string
	Metadata     json.RawMessage // any JSON value; nil when absent

	fault error // why Default could not keep its value
}

// NewArg makes an argument. The order of the sources matters.
func NewArg(mediaURN string, required bool, sources ...Source) Arg {
	return Arg{MediaURN: canonicalMedia(mediaURN), Required: required, Sources: sources}
}

// Streaming says whether the argument is consumed without a promise of length.
func (a Arg) Streaming(on bool) Arg { a.IsStreaming = on; return a }

// Sequence says whether the argument is a sequence of items.
func (a Arg) Sequence(on bool) Arg { a.IsSequence = on; return a }

// Default sets the default value to what encoding/json makes of v; nil is no default. A v that it cannot write is found by
// [Manifest.Validate].
func (a Arg) Default(v any) Arg {
	raw, err := encodeJSON(v)
	if err != nil {
		a.fault = fmt.Errorf("default value: %w", err)
		return a
	}
	a.DefaultValue, a.fault = free(raw), nil
	return a
}

// Describe sets the description.
func (a Arg) Describe(text string) Arg { a.Description = text; return a }

// Output is what a cap gives back (section 4.4).
type Output struct {
	MediaURN    string
	Description string
	IsSequence  bool
	IsStreaming bool            // may be opened without a promise of length; false promises that every stream ends
	Metadata    json.RawMessage // any JSON value; nil when absent
}

// NewOutput makes an output.
func NewOutput(mediaURN, description string) Output {
	return Output{MediaURN: canonicalMedia(mediaURN), Description: description}
}

// Streaming says whether the output may be opened without a promise of length.
func (o Output) Streaming(on bool) Output { o.IsStreaming = on; return o }

// Sequence says whether the output is a sequence of items.
func (o Output) Sequence(on bool) Output { o.IsSequence = on; return o }

// canonicalCap is the canonical form of a cap URN, or the text itself when it is none.
func canonicalCap(text string) string {
	c, err := urn.ParseCap(text)
	if err != nil {
		return text
	}
	return c.String()
}

// canonicalMedia is the canonical form of a media URN, or the text itself when it is none.
func canonicalMedia(text string) string {
	m, err := urn.ParseMedia(text)
	if err != nil {
		return text
	}
	return m.String()
}

// free is a free-form value as it is kept: compact, nil for null.
func free(raw json.RawMessage) json.RawMessage {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil || b.String() == "null" {
		return nil
	}
	return b.Bytes()
}

// encodeJSON is json.Marshal that leaves < > & as they are.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
