package host

// Sync makes the installs that were found the host's: new ones are added, those that are there already, by registry URL,
// channel, name and version, are kept with their processes, and those that an earlier Sync has added and that are gone are retired
// . An incompatible one is in the inventory as Failed, with its reason, until it is found to be attachable or gone.
// Cartridges that were registered or attached otherwise are left alone.
func (h *Host) Sync(found []Discovered) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return ErrHostClosed
	}
	there := make(map[Identity]bool, len(found))
	for i := range found {
		d := &found[i]
		there[d.Identity] = true
		m := h.byIdentity(d.Identity)
		if m != nil && m.broken && d.Err == nil {
			h.remove(m)
			m = nil
		}
		switch {
		case m == nil:
			h.addFound(d)
		case m.retired:
			m.synced = true
			h.takeBack(m)
		}
	}
	for _, m := range append([]*member(nil), h.members...) {
		if m.synced && !there[m.spec.Identity] {
			h.retire(m)
		}
	}
	h.reroute()
	return nil
}

// byIdentity finds a cartridge that is not attached. h.mu is held.
func (h *Host) byIdentity(id Identity) *member {
	for _, m := range h.members {
		if m.spec.Identity == id && !m.attached {
			return m
		}
	}
	return nil
}

// addFound makes a member of an install. h.mu is held.
func (h *Host) addFound(d *Discovered) {
	spec := Spec{Path: d.Path, Identity: d.Identity, SHA256: d.SHA256}
	if d.Manifest != nil {
		spec.Groups = d.Manifest.Groups
	}
	m := h.add(spec)
	m.synced = true
	if d.Err != nil {
		m.lifecycle.state, m.broken, m.trouble = Failed, true, d.Err // it begins there
	}
}
