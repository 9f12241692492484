package urn

import (
	"cmp"
	"slices"
)

// Ranked is a registered cap that can serve a request.
type Ranked struct {
	Index    int // its place among the registered caps
	Distance int // its specificity less that of the request
}

// nearer orders distances: all from 0 up come first, and in both groups the smaller absolute one.
func nearer(a, b int) int {
	if (a < 0) != (b < 0) {
		return cmp.Compare(b, a)
	}
	return cmp.Compare(max(a, -a), max(b, -b))
}

// Rank gives the registered caps that can serve the request, best first: in order of distance, and of
// registration where distances are equal.
func Rank(registered []Cap, request Cap) []Ranked {
	var ranked []Ranked
	for i := range registered {
		if serves(&registered[i], &request) {
			ranked = append(ranked, Ranked{i, registered[i].score - request.score})
		}
	}
	slices.SortStableFunc(ranked, func(a, b Ranked) int { return nearer(a.Distance, b.Distance) })
	return ranked
}

// Best gives the index of the registered cap that serves the request; ok is false when none can. preferred is nil or a
// hint: the first cap that can serve and is equivalent to it wins whatever its distance. Otherwise it is the first of
// Rank. It does not allocate.
func Best(registered []Cap, request Cap, preferred *Cap) (index int, ok bool) {
	best := 0
	for i := range registered {
		candidate := &registered[i]
		if !serves(candidate, &request) {
			continue
		}
		if preferred != nil && sameCap(candidate, preferred) {
			return i, true
		}
		if distance := candidate.score - request.score; !ok || nearer(distance, best) < 0 {
			index, best, ok = i, distance, true
		}
	}
	return index, ok
}
