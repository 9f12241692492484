package feed

import (
	"encoding/json"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

const (
	ringParam   = "ring"
	defaultRing = 64 // items (R-9.20, spec/wire.md 8.5)
)

// param is an integer parameter: the pointer holds the default and gets the value.
type param struct {
	name        string
	value       *uint64
	least, most uint64
}

// readParams reads the parameters of a backend. One that is not among the known ones, is no integer or is out of range
// is an error of .
func readParams(given map[string]json.RawMessage, known ...param) error {
	for _, name := range slices.Sorted(maps.Keys(given)) {
		i := slices.IndexFunc(known, func(p param) bool { return p.name == name })
		if i < 0 {
			return selectorf("unknown param %q, want one of %s", quotable(name), names(known))
		}
		p := known[i]
		n, err := strconv.ParseUint(string(given[name]), 10, 64)
		if err != nil || n < p.least || n > p.most {
			return selectorf("params.%s is %s, want %s", name, quotable(string(given[name])), p.allowed())
		}
		*p.value = n
	}
	return nil
}

func (p param) allowed() string {
	if p.most == math.MaxUint64 {
		return "an integer from " + strconv.FormatUint(p.least, 10) + " on"
	}
	return "an integer from " + strconv.FormatUint(p.least, 10) + " to " + strconv.FormatUint(p.most, 10)
}

func names(known []param) string {
	all := []string{ringParam}
	for _, p := range known {
		all = append(all, p.name)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// splitRing takes the param that every backend has out of the selector: the capacity of the ring, in items.
func splitRing(s Selector) (ring uint64, rest Selector, err error) {
	ring = defaultRing
	raw, given := s.Params[ringParam]
	if !given {
		return ring, s, nil
	}
	ringOnly := map[string]json.RawMessage{ringParam: raw}
	if err := readParams(ringOnly, param{ringParam, &ring, 1, math.MaxUint64}); err != nil {
		return 0, Selector{}, err
	}
	s.Params = maps.Clone(s.Params)
	delete(s.Params, ringParam)
	return ring, s, nil
}
