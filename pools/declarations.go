package pools

import (
	"fmt"
	"maps"
	"slices"
)

// Declarations are what a manifest says about pools (spec/manifest-cli.md section 6). The zero value declares nothing.
// Members and cap keys are canonical URNs wherever this package meets them.
type Declarations struct {
	// Pools are the shared pools: name to members.
	Pools map[string][]string `json:"pools,omitempty"`
	// Capacities bound a declared pool, [All], or the singleton of a pattern. 0 and absent are [Unlimited].
	Capacities map[string]uint64 `json:"capacities,omitempty"`
}

// IsZero reports whether nothing is declared.
func (d Declarations) IsZero() bool { return len(d.Pools) == 0 && len(d.Capacities) == 0 }

// Validate checks the declarations against the patterns that exist: no pool is named [All] or like a pattern,
// none is without members, every member is a pattern and is there once, and every capacity belongs to a pattern, to a
// declared pool or to [All]. The error is a [*DeclarationError].
func (d Declarations) Validate(patterns []string) error {
	known := make(map[string]struct{}, len(patterns))
	for _, p := range patterns {
		known[p] = struct{}{}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Pools)) {
		if _, taken := known[name]; taken {
			return &DeclarationError{name, "a declared pool cannot have the name of a cap's own pool"}
		}
		if name == All {
			return &DeclarationError{name, "the pool of all caps exists already and cannot be declared"}
		}
		members := d.Pools[name]
		if len(members) == 0 {
			return &DeclarationError{name, "a declared pool needs at least one member"}
		}
		seen := make(map[string]struct{}, len(members))
		for _, m := range members {
			if _, ok := known[m]; !ok {
				return &DeclarationError{name, fmt.Sprintf("member %s is not one of the caps", m)}
			}
			if _, twice := seen[m]; twice {
				return &DeclarationError{name, fmt.Sprintf("member %s is there twice", m)}
			}
			seen[m] = struct{}{}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(d.Capacities)) {
		_, isPattern := known[name]
		_, isDeclared := d.Pools[name]
		if !isPattern && !isDeclared && name != All {
			return &DeclarationError{name, "a capacity belongs to a declared pool, to a cap, or to all"}
		}
	}
	return nil
}

// States are the states of all pools before the first request, from the declarations alone.
func (d Declarations) States(patterns []string) (States, error) {
	t, err := NewTable(patterns, d)
	if err != nil {
		return nil, err
	}
	return t.Snapshot(), nil
}

// Chain names the pools that a request for pattern needs room in: the singleton, the declared pools that contain it in
// ascending order of name, and [All].
func (d Declarations) Chain(pattern string) []string {
	chain := []string{pattern}
	for _, name := range slices.Sorted(maps.Keys(d.Pools)) {
		if slices.Contains(d.Pools[name], pattern) {
			chain = append(chain, name)
		}
	}
	return append(chain, All)
}

// DeclarationError says what is wrong with a declared pool or capacity.
type DeclarationError struct {
	Pool   string // the pool or the key of the capacity
	Detail string // what is wrong and what would be right
}

func (e *DeclarationError) Error() string { return fmt.Sprintf("pool %q: %s", e.Pool, e.Detail) }

// UnknownPoolError is the refusal of a name that no pool has.
type UnknownPoolError struct{ Name string }

// Error spells the name as an ERR frame does (spec/wire.md 12.2).
func (e *UnknownPoolError) Error() string { return fmt.Sprintf("unknown pool '%s'", e.Name) }
