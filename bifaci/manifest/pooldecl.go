package manifest

import (
	"maps"
	"slices"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/pools"
)

// Declarations are the pool declarations with every cap under its canonical URN, as [pools.NewTable] wants them (section 6,
// The error is a [Problems] with all that is wrong.
func (m *Manifest) Declarations() (pools.Declarations, error) {
	var problems Problems
	d := checkPools(m, &problems)
	if err := problems.orNil(); err != nil {
		return pools.Declarations{}, err
	}
	return d, nil
}

// DeclaredStates are the states of all pools before the first request, from the declarations and the caps of the manifest
// alone.
func (m *Manifest) DeclaredStates() (pools.States, error) {
	d, err := m.Declarations()
	if err != nil {
		return nil, err
	}
	return d.States(m.CapURNs())
}

// checkPools finds what section 6 forbids and returns what is left, in canonical form.
func checkPools(m *Manifest, problems *Problems) pools.Declarations {
	caps := map[string]bool{}
	for _, u := range m.CapURNs() {
		caps[u] = true
	}
	resolve := func(where, what, text string) (string, bool) {
		u, err := urn.ParseCap(text)
		if err != nil {
			problems.addErr(CodePool, where, what+" "+text+" is not a cap URN", err)
			return "", false
		}
		if !caps[u.String()] {
			problems.add(CodePool, where, "%s %s names no cap of this manifest", what, text)
			return "", false
		}
		return u.String(), true
	}
	var d pools.Declarations
	for _, name := range slices.Sorted(maps.Keys(m.Pools.Pools)) {
		where := "pool " + name
		if name == pools.All {
			problems.add(CodePool, where, "the pool of all caps exists already and cannot be declared, only bounded")
			continue
		}
		if _, err := urn.ParseCap(name); err == nil {
			problems.add(CodePool, where, "a pool cannot be named like a cap; each cap has a pool of that name already")
			continue
		}
		members, seen := []string{}, map[string]bool{}
		for _, text := range m.Pools.Pools[name] {
			member, ok := resolve(where, "member", text)
			switch {
			case !ok:
			case seen[member]:
				problems.add(CodePool, where, "member %s is there twice", member)
			default:
				seen[member] = true
				members = append(members, member)
			}
		}
		if len(m.Pools.Pools[name]) == 0 {
			problems.add(CodePool, where, "a pool needs at least one member")
		}
		if d.Pools == nil {
			d.Pools = map[string][]string{}
		}
		d.Pools[name] = members
	}
	for _, name := range slices.Sorted(maps.Keys(m.Pools.Capacities)) {
		where, pool := "capacity of "+name, name
		if _, declared := m.Pools.Pools[name]; !declared && name != pools.All {
			var ok bool
			if pool, ok = resolve(where, "neither a declared pool nor all; cap", name); !ok {
				continue
			}
		}
		if d.Capacities == nil {
			d.Capacities = map[string]uint64{}
		}
		if _, twice := d.Capacities[pool]; twice {
			problems.add(CodePool, where, "pool %s has a capacity already, under another spelling", pool)
		}
		d.Capacities[pool] = m.Pools.Capacities[name]
	}
	return d
}
