package bifaci

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// help is the list of subcommands.
func (c *Cartridge) help() string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s SUBCOMMAND [ARGUMENT]…\n\n", c.manifest.Name)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "  manifest\tprint the manifest\n")
	for def := range c.manifest.Caps() {
		fmt.Fprintf(table, "  %s\t%s\n", def.Slug, summary(def))
	}
	flushTable(table)
	fmt.Fprintf(&b, "\n%s SUBCOMMAND --help describes its arguments.\n", c.manifest.Name)
	return b.String()
}

// flushTable cannot fail: the table is written to memory.
func flushTable(t *tabwriter.Writer) {
	if err := t.Flush(); err != nil {
		panic(err)
	}
}

func summary(def *manifest.Cap) string {
	if def.Description != "" {
		return oneLine(def.Description)
	}
	return oneLine(def.Title)
}

// capHelp is the help of one subcommand.
func (c *Cartridge) capHelp(def *manifest.Cap) string {
	var b strings.Builder
	fmt.Fprintf(&b, "usage: %s %s [ARGUMENT]…\n\n%s\n", c.manifest.Name, def.Slug, summary(def))
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, a := range def.EffectiveArgs() {
		for _, s := range a.Sources {
			fmt.Fprintf(table, "  %s\t%s\t%s\n", sourceName(s), oneLine(a.Description), presence(a))
		}
	}
	if feeds := c.feedsFor(def); len(feeds) > 0 && !declares(def.EffectiveArgs(), feedFlag) {
		fmt.Fprintf(table, "  %s\tlive input instead, until interrupted: %s\t\n", feedFlag, strings.Join(feeds, ", "))
		fmt.Fprintf(table, "  %s\tits device, params and stop conditions, as JSON\t(default {})\n", feedSelectorFlag)
	}
	b.WriteString("\n")
	flushTable(table)
	return b.String()
}

func sourceName(s manifest.Source) string {
	switch s.Kind() {
	case manifest.KindCLIFlag:
		return s.Flag()
	case manifest.KindPosition:
		return fmt.Sprintf("<arg%d>", s.Position())
	case manifest.KindStdin:
		return "<stdin>"
	}
	return "<file>"
}

func presence(a manifest.Arg) string {
	hasDefault := a.DefaultValue != nil && string(a.DefaultValue) != "null"
	switch {
	case hasDefault:
		return fmt.Sprintf("(default %s)", oneLine(string(defaultText(a.DefaultValue))))
	case a.Required:
		return "(required)"
	}
	return ""
}
