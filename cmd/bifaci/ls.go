package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// install is one line of ls.
type install struct {
	host.Identity
	Dir    string                `json:"dir"`
	Path   string                `json:"path"`
	SHA256 string                `json:"sha256"`
	Caps   []string              `json:"caps"`
	Error  *host.AttachmentError `json:"attachment_error"`
}

// runLs lists the installs under a root, each attachable or incompatible for a reason. Incompatible ones are no failure of ls.
func runLs(ctx context.Context, args []string, std streams) int {
	flags := flag.NewFlagSet("ls", flag.ContinueOnError)
	flags.SetOutput(std.err)
	asJSON := flags.Bool("json", false, "write a JSON array")
	channel := flags.String("channel", manifest.Release, "release or nightly")
	fabric := flags.Uint64("fabric", 0, "the `version` of the fabric's manifest that installs must be made for")
	flags.Usage = func() {
		fmt.Fprintln(std.err, "usage: bifaci ls [--json] [--channel release|nightly] [--fabric VERSION] ROOT")
		flags.PrintDefaults()
	}
	words, err := parseMixed(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return statusOK
	case err != nil:
		return statusUsage
	case len(words) != 1 || *channel != manifest.Release && *channel != manifest.Nightly:
		flags.Usage()
		return statusUsage
	}
	found, err := host.Discover(ctx, words[0], host.Client{Channel: *channel, FabricVersion: *fabric})
	if err == nil {
		err = list(std, found, *asJSON)
	}
	if err != nil {
		fmt.Fprintln(std.err, "bifaci ls:", err)
		return statusFailed
	}
	return statusOK
}

func list(std streams, found []host.Discovered, asJSON bool) error {
	if !asJSON {
		for _, d := range found {
			state := "attachable"
			if d.Err != nil {
				state = d.Err.Error()
			}
			if _, err := fmt.Fprintf(std.out, "%s %s: %s\n  %s\n", oneLine(d.Identity.Name), oneLine(d.Identity.Version), oneLine(state), oneLine(d.Dir)); err != nil {
				return err
			}
		}
		return nil
	}
	all := make([]install, len(found))
	for i, d := range found {
		all[i] = install{Identity: d.Identity, Dir: d.Dir, Path: d.Path, SHA256: d.SHA256, Caps: []string{}, Error: d.Err}
		if d.Manifest != nil {
			all[i].Caps = d.Manifest.CapURNs()
		}
	}
	out := json.NewEncoder(std.out)
	out.SetEscapeHTML(false)
	out.SetIndent("", "  ")
	return out.Encode(all)
}
