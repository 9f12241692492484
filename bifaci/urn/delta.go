package urn

import "slices"

// Delta is the change from one URN to another (spec/urn.md 7.6). The zero value changes nothing.
type Delta struct {
	removed []string // keys, ascending
	added   []tag    // ascending by key
}

// deltaOf compares stored values key by key: what differs is removed from base and added from target.
func deltaOf(base, target *set) Delta {
	var d Delta
	for _, t := range base.tags {
		if o, ok := target.find(t.key); !ok || !o.sameStored(t) {
			d.removed = append(d.removed, t.key)
		}
	}
	for _, t := range target.tags {
		if o, ok := base.find(t.key); !ok || !o.sameStored(t) {
			d.added = append(d.added, t)
		}
	}
	return d
}

func (d Delta) applyTo(s *set) set {
	gone := func(t tag) bool {
		if _, removed := slices.BinarySearch(d.removed, t.key); removed {
			return true
		}
		_, replaced := slices.BinarySearchFunc(d.added, t, byKey)
		return replaced
	}
	tags := make([]tag, 0, len(s.tags)+len(d.added))
	for _, t := range s.tags {
		if !gone(t) {
			tags = append(tags, t)
		}
	}
	return newSet(append(tags, d.added...))
}

// Removed gives the keys that are deleted, in order. The caller may keep and change the slice.
func (d Delta) Removed() []string { return slices.Clone(d.removed) }

// Added gives the stored values that are set after the deletion. The caller may keep and change the map.
func (d Delta) Added() map[string]string {
	s := set{tags: d.added}
	return s.toMap()
}

// IsEmpty reports that the two URNs had the same stored values.
func (d Delta) IsEmpty() bool { return len(d.removed)+len(d.added) == 0 }

// DeltaTo gives the change from m to target.
func (m Media) DeltaTo(target Media) Delta { return deltaOf(&m.set, &target.set) }

// Apply deletes every removed key of d, whatever value m has there, and then sets every added one. The result is checked
// as a media URN, so the error can be VoidNotAtomic.
func (m Media) Apply(d Delta) (Media, error) { return makeMedia(d.applyTo(&m.set)) }

// DeltaTo gives the change from u to target. The prefixes must be the same.
func (u Tagged) DeltaTo(target Tagged) (Delta, error) {
	if err := u.samePrefix("form the delta of", target); err != nil {
		return Delta{}, err
	}
	return deltaOf(&u.set, &target.set), nil
}

// Apply deletes every removed key of d and then sets every added one.
func (u Tagged) Apply(d Delta) Tagged { return makeTagged(u.prefix, d.applyTo(&u.set)) }
