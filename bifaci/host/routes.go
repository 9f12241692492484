package host

import (
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// routes say which cartridge serves which cap: all routable groups in order of registration.
type routes struct {
	index *urn.Index
	caps  []urn.Cap
	to    []route // of caps
}

// route is one cap of one cartridge.
type route struct {
	m   *member
	def *manifest.Cap // as declared
}

// reroute builds the routing table anew. Retired and failed cartridges have no routes; nor have groups with an adapter that overlaps
// one of another group (spec/manifest-cli.md 2.1). h.mu is held.
func (h *Host) reroute() {
	var r routes
	var adapters []urn.Media
	for _, m := range h.members {
		if m.retired || m.state == Failed {
			continue
		}
		for g := range m.groups {
			group := &m.groups[g]
			theirs, ok := adaptersOf(group, adapters)
			if !ok {
				h.opts.log.Warn("a group of caps is not routable: an adapter of it overlaps another's", "cartridge", m.id, "group", group.Name)
				continue
			}
			adapters = append(adapters, theirs...)
			for i := range group.Caps {
				def := &group.Caps[i]
				c, err := urn.ParseCap(def.URN)
				if err != nil || def.Abstract {
					continue
				}
				r.caps = append(r.caps, c)
				r.to = append(r.to, route{m, def})
			}
		}
	}
	r.index = urn.NewIndex(r.caps)
	h.routes = r
}

// adaptersOf parses a group's adapters; ok is false when one overlaps what is taken.
func adaptersOf(g *manifest.Group, taken []urn.Media) (adapters []urn.Media, ok bool) {
	for _, text := range g.AdapterURNs {
		a, err := urn.ParseMedia(text)
		if err != nil {
			return nil, false
		}
		for _, t := range taken {
			if a.ConformsTo(t) || t.ConformsTo(a) {
				return nil, false
			}
		}
		adapters = append(adapters, a)
	}
	return adapters, true
}

// choose finds the cartridge for a call.
func (h *Host) choose(capURN string, o *callOptions) (*member, *manifest.Cap, error) {
	if _, err := urn.ParseCap(capURN); err != nil {
		return nil, nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, nil, ErrHostClosed
	}
	if o.targeted {
		return h.target(capURN, o.target)
	}
	i, ok := -1, false
	if o.preferred != "" {
		preferred, err := urn.ParseCap(o.preferred)
		if err != nil {
			return nil, nil, err
		}
		i, ok = urn.Best(h.routes.caps, urn.MustCap(capURN), &preferred)
	} else if n, found, err := h.routes.index.Lookup(capURN); err == nil {
		i, ok = n, found
	}
	if !ok {
		return nil, nil, noHandler([]byte(capURN))
	}
	to := h.routes.to[i]
	return to.m, to.def, nil
}

// target is the cartridge that a caller insists on. h.mu is held.
func (h *Host) target(capURN string, id ID) (*member, *manifest.Cap, error) {
	m := h.byID[id]
	switch {
	case m == nil || m.retired:
		return nil, nil, failure.Newf(failure.CartridgeNotFound, failure.Environment, "there is no cartridge %s", id)
	case m.state == Failed:
		return nil, nil, failure.Newf(failure.CartridgeUnavail, failure.Environment, "cartridge %s cannot be used: %s", m.name(), m.trouble.Message)
	}
	var caps []urn.Cap
	var defs []*manifest.Cap
	for g := range m.groups {
		for i := range m.groups[g].Caps {
			if c, err := urn.ParseCap(m.groups[g].Caps[i].URN); err == nil {
				caps, defs = append(caps, c), append(defs, &m.groups[g].Caps[i])
			}
		}
	}
	if i, ok := urn.Best(caps, urn.MustCap(capURN), nil); ok {
		return m, defs[i], nil
	}
	return m, nil, nil // the cartridge answers for itself
}

// Definition is the declaration of the cap that a call of capURN would reach, and its cartridge; the caller must not change it. Its
// [manifest.Cap.SequenceShape] and [manifest.Cap.StreamingShape] tell before a call whether to pipe or to collect.
func (h *Host) Definition(capURN string) (*manifest.Cap, ID, error) {
	m, def, err := h.choose(capURN, &callOptions{})
	if err != nil {
		return nil, 0, err
	}
	return def, m.id, nil
}
