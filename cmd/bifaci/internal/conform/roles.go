package conform

import (
	"bufio"
	"fmt"
	"io"
	"strings"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// roleURN has the roles and the URN of the cap that plays each in the project's own probe. A cap of any cartridge plays a role when
// its slug is the role's name, when its URN is equivalent to the probe's, or when the caller says so.
var roleURN = map[string]string{
	"echo":      `cap:in="media:";out="media:";echo`,
	"sink":      `cap:in="media:";out="media:enc=utf-8";sink`,
	"source":    `cap:in="media:enc=utf-8";out="media:";source`,
	"items":     `cap:in="media:enc=utf-8";out="media:";items`,
	"tokens":    `cap:in="media:enc=utf-8";out="media:enc=utf-8";tokens`,
	"spin":      `cap:in="media:enc=utf-8";out="media:enc=utf-8";spin`,
	"hold":      `cap:in="media:enc=utf-8";out="media:enc=utf-8";hold`,
	"hold2":     `cap:in="media:enc=utf-8";out="media:enc=utf-8";hold2`,
	"stall":     `cap:in="media:enc=utf-8";out="media:enc=utf-8";stall`,
	"panic":     `cap:in="media:enc=utf-8";out="media:enc=utf-8";panic`,
	"fail":      `cap:in="media:enc=utf-8";out="media:enc=utf-8";fail`,
	"peer":      `cap:in="media:enc=utf-8";out="media:enc=utf-8";peer`,
	"reach":     `cap:in="media:enc=utf-8";out="media:enc=utf-8";reach`,
	"available": `cap:in="media:enc=utf-8";out="media:enc=utf-8";available`,
	"print":     `cap:in="media:enc=utf-8";out="media:enc=utf-8";print`,
	"feed":      `cap:in="media:feed-frames";out="media:feed-frames";feed`,
}

// findRoles says which caps of a manifest play which roles; named, by the caller, comes first.
func findRoles(m *manifest.Manifest, named map[string]string) map[string]string {
	roles := map[string]string{}
	for role, probe := range roleURN {
		want, err := urn.ParseCap(probe)
		if err != nil {
			panic(err) // a constant
		}
		for def := range m.Caps() {
			c, err := urn.ParseCap(def.URN)
			if err == nil && (def.Slug == role || c.Equivalent(want)) {
				roles[role] = def.URN
			}
		}
		if named[role] != "" {
			roles[role] = named[role]
		}
	}
	return roles
}

// ReadCaps reads lines "ROLE=URN"; empty lines and lines that begin with # are passed over.
func ReadCaps(r io.Reader) (map[string]string, error) {
	named := map[string]string{}
	lines := bufio.NewScanner(r)
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		role, name, ok := strings.Cut(line, "=")
		if !ok || roleURN[role] == "" {
			return nil, fmt.Errorf("line %d: %q: want ROLE=URN with one of the roles %s", n, line, strings.Join(Roles(), ", "))
		}
		if _, err := urn.ParseCap(name); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		named[role] = name
	}
	return named, lines.Err()
}
