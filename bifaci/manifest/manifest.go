package manifest

import (
	"iter"

	"github.com/pipe-cartridge/pipe/pools"
)

// Channels of publication. An empty channel is written as [Nightly].
const (
	Release = "release"
	Nightly = "nightly"
)

// DefaultGroupName is the name of the group that [DefaultGroup] makes.
const DefaultGroupName = "default"

// Manifest is what a cartridge says about itself (spec/manifest-cli.md section 2). Name, Version and CapGroups with the
// identity cap in it are required.
type Manifest struct {
	Name        string
	Version     string // semantic version; not parsed by the checks
	Description string
	Groups      []Group

	Author      string // optional
	PageURL     string // documentation or repository; optional
	Channel     string // Release, Nightly, or empty when nothing was said
	RegistryURL string // the registry it was built for; empty for a development build

	// Pools are as written by the author. [Manifest.Declarations] is the canonical form.
	Pools pools.Declarations
}

// Group is a set of caps that registers as a whole (section 2.1). Most cartridges have one, see [DefaultGroup].
type Group struct {
	Name        string
	Caps        []Cap
	AdapterURNs []string // media URNs that the group adapts; usually none
}

// New makes a manifest. What is optional is set afterwards, by the With methods or directly.
func New(name, version, description string, groups ...Group) *Manifest {
	return &Manifest{Name: name, Version: version, Description: description, Groups: groups}
}

// DefaultGroup is the one group of a cartridge that adapts no media.
func DefaultGroup(caps ...Cap) Group { return Group{Name: DefaultGroupName, Caps: caps} }

// WithAdapters returns the group with these media URNs added to those it adapts.
func (g Group) WithAdapters(mediaURNs ...string) Group {
	adapters := append([]string(nil), g.AdapterURNs...)
	for _, u := range mediaURNs {
		adapters = append(adapters, canonicalMedia(u))
	}
	g.AdapterURNs = adapters
	return g
}

// WithAuthor sets the maintainer and returns the manifest.
func (m *Manifest) WithAuthor(author string) *Manifest { m.Author = author; return m }

// WithPageURL sets the address of the documentation or the repository and returns the manifest.
func (m *Manifest) WithPageURL(url string) *Manifest { m.PageURL = url; return m }

// WithChannel sets [Release] or [Nightly] and returns the manifest.
func (m *Manifest) WithChannel(channel string) *Manifest { m.Channel = channel; return m }

// WithRegistryURL sets the registry that the cartridge was built for and returns the manifest.
func (m *Manifest) WithRegistryURL(url string) *Manifest { m.RegistryURL = url; return m }

// WithPools sets the pool declarations and returns the manifest. Caps may be named in any spelling of their URN.
func (m *Manifest) WithPools(d pools.Declarations) *Manifest { m.Pools = d; return m }

// Caps goes over the caps of all groups in manifest order. The caps may be changed in place.
func (m *Manifest) Caps() iter.Seq[*Cap] {
	return func(yield func(*Cap) bool) {
		for g := range m.Groups {
			for c := range m.Groups[g].Caps {
				if !yield(&m.Groups[g].Caps[c]) {
					return
				}
			}
		}
	}
}

// CapURNs are the canonical URNs of all caps in manifest order.
func (m *Manifest) CapURNs() []string {
	var urns []string
	for c := range m.Caps() {
		urns = append(urns, canonicalCap(c.URN))
	}
	return urns
}

// Lookup finds the cap that a word of the command line names: the first with this slug, else the first with this alias,
// both in manifest order (section 9.3).
func (m *Manifest) Lookup(word string) (*Cap, bool) {
	for c := range m.Caps() {
		if c.Slug == word {
			return c, true
		}
	}
	for c := range m.Caps() {
		for _, alias := range c.Aliases {
			if alias == word {
				return c, true
			}
		}
	}
	return nil, false
}
