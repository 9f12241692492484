package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

// runInspect starts a cartridge, takes it through handshake and identity check, and prints what it said about itself.
func runInspect(ctx context.Context, args []string, std streams) int {
	flags := flag.NewFlagSet("inspect", flag.ContinueOnError)
	flags.SetOutput(std.err)
	asJSON := flags.Bool("json", false, "write one JSON object: manifest, limits, pools, warnings")
	flags.Usage = func() {
		fmt.Fprintln(std.err, "usage: bifaci inspect [--json] CARTRIDGE")
		flags.PrintDefaults()
	}
	words, err := parseMixed(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusOK
	case err != nil:
		return statusUsage
	case len(words) != 1:
		flags.Usage()
		return statusUsage
	}
	if err := inspect(ctx, words[0], *asJSON, std); err != nil {
		fmt.Fprintln(std.err, "bifaci inspect:", describe(err))
		return statusFailed
	}
	return statusOK
}

func inspect(ctx context.Context, path string, asJSON bool, std streams) (err error) {
	p, err := host.Start(ctx, path, host.WithStderr(func(line string) { fmt.Fprintln(std.err, line) }))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Shutdown(context.WithoutCancel(ctx))) }()
	hello := p.Hello()
	if asJSON {
		return writeInspection(std.out, hello)
	}
	var page strings.Builder
	describeHello(&page, hello)
	_, err = io.WriteString(std.out, page.String())
	return err
}

// inspection is the JSON of inspect. The manifest is as the cartridge sent it.
type inspection struct {
	Manifest json.RawMessage `json:"manifest"`
	Limits   limits          `json:"limits"`
	Pools    pools.States    `json:"pools"`
	Warnings []string        `json:"warnings"`
}

// limits are those that the two HELLOs agreed on.
type limits struct {
	MaxFrame         uint64 `json:"max_frame"`
	MaxChunk         uint64 `json:"max_chunk"`
	MaxReorderBuffer uint64 `json:"max_reorder_buffer"`
	InitialCredit    uint64 `json:"initial_credit"`
}

func writeInspection(w io.Writer, hello host.HandshakeResult) error {
	out := json.NewEncoder(w)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(inspection{hello.JSON, limits(hello.Limits), hello.Pools, warnings(hello)})
}

// warnings are what a lenient reading let pass and what is odd in the manifest; never nil.
func warnings(hello host.HandshakeResult) []string {
	return append(append([]string{}, hello.Warnings...), hello.Manifest.Warnings()...)
}

// describeHello writes the page for people. Text of the cartridge's stays on its line.
func describeHello(w *strings.Builder, hello host.HandshakeResult) {
	m := hello.Manifest
	fmt.Fprintf(w, "%s %s: %s\n", oneLine(m.Name), oneLine(m.Version), oneLine(m.Description))
	for _, row := range [][2]string{{"author", m.Author}, {"page", m.PageURL}, {"channel", m.Channel}, {"registry", m.RegistryURL}} {
		if row[1] != "" {
			fmt.Fprintf(w, "%-9s %s\n", row[0], oneLine(row[1]))
		}
	}
	describeLimits(w, hello.Limits)
	for g := range m.Groups {
		group := &m.Groups[g]
		fmt.Fprintf(w, "\ngroup %s\n", oneLine(group.Name))
		for _, a := range group.AdapterURNs {
			fmt.Fprintf(w, "  adapts %s\n", oneLine(a))
		}
		for c := range group.Caps {
			describeCap(w, &group.Caps[c])
		}
	}
	w.WriteString("\npools\n")
	for _, name := range slices.Sorted(maps.Keys(hello.Pools)) {
		describePool(w, name, hello.Pools[name])
	}
	for _, text := range warnings(hello) {
		fmt.Fprintf(w, "warning: %s\n", oneLine(text))
	}
}

func describeLimits(w io.Writer, l frame.Limits) {
	fmt.Fprintf(w, "limits    frames of %d bytes, data in chunks of %d bytes, windows of %d chunks, %d frames held for reordering\n",
		l.MaxFrame, l.MaxChunk, l.InitialCredit, l.MaxReorderBuffer)
}

func describeCap(w io.Writer, c *manifest.Cap) {
	names := strings.Join(append([]string{c.Slug}, c.Aliases...), ", ")
	title := oneLine(c.Title)
	if c.Abstract {
		title += " (abstract)"
	}
	fmt.Fprintf(w, "  %s: %s\n    %s\n", oneLine(names), title, oneLine(c.URN))
	if c.Description != "" {
		fmt.Fprintf(w, "    %s\n", oneLine(c.Description))
	}
	for _, key := range slices.Sorted(maps.Keys(c.Metadata)) {
		fmt.Fprintf(w, "    %s = %s\n", oneLine(key), oneLine(c.Metadata[key]))
	}
	for i, a := range c.Args {
		fmt.Fprintf(w, "    argument  %s: %s\n", oneLine(a.MediaURN), strings.Join(traits(c, i), ", "))
		if a.Description != "" {
			fmt.Fprintf(w, "              %s\n", oneLine(a.Description))
		}
	}
	if o := c.Output; o != nil {
		fmt.Fprintf(w, "    output    %s%s\n", oneLine(o.MediaURN), shape(": ", o.IsSequence, o.IsStreaming))
		if o.Description != "" {
			fmt.Fprintf(w, "              %s\n", oneLine(o.Description))
		}
	}
}

// traits are what there is to know of an argument, in words.
func traits(c *manifest.Cap, arg int) []string {
	a := c.Args[arg]
	all := []string{"optional"}
	if a.Required {
		all[0] = "required"
	}
	if c.IsMainInput(a) {
		all = append(all, "main input")
	}
	if s := shape("", a.IsSequence, a.IsStreaming); s != "" {
		all = append(all, s)
	}
	for _, s := range a.Sources {
		switch s.Kind() {
		case manifest.KindStdin:
			all = append(all, "from stdin as "+oneLine(s.ContentURN()))
		case manifest.KindPosition:
			all = append(all, fmt.Sprintf("from word %d", s.Position()))
		case manifest.KindCLIFlag:
			all = append(all, "from "+oneLine(s.Flag()))
		case manifest.KindFilePath:
			all = append(all, "from a file as "+oneLine(s.ContentURN()))
		}
	}
	if a.DefaultValue != nil {
		all = append(all, "default "+oneLine(string(defaultBytes(a.DefaultValue))))
	}
	return all
}

func shape(before string, sequence, streaming bool) string {
	switch {
	case sequence && streaming:
		return before + "streaming sequence"
	case sequence:
		return before + "sequence"
	case streaming:
		return before + "streaming"
	}
	return ""
}

func describePool(w io.Writer, name string, s pools.State) {
	fmt.Fprintf(w, "  %s: %s", oneLine(name), capacity(s.Configured))
	if s.Declared != s.Configured {
		fmt.Fprintf(w, " (declared %s)", capacity(s.Declared))
	}
	if s.Available != nil {
		fmt.Fprintf(w, ", %d available", *s.Available)
	}
	fmt.Fprintf(w, ", %d active, %d queued\n", s.Active, s.Queued)
	if name == pools.All {
		return // its members are all caps
	}
	for _, member := range s.Caps {
		fmt.Fprintf(w, "    %s\n", oneLine(member))
	}
}

func capacity(n uint64) string {
	if n == pools.Unlimited {
		return "unlimited"
	}
	return fmt.Sprintf("at most %d", n)
}
