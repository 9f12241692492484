package urn

import (
	"cmp"
	"hash/maphash"
	"slices"
	"strings"
	"sync"
)

// Index finds the cap that serves a request among registered ones, as Best does without a hint, and remembers the answers
// for the texts of recent requests. A remembered answer costs a hash and a comparison, and no lookup allocates except to
// remember. Make it with NewIndex. It is safe for concurrent use and never blocks.
type Index struct {
	caps  []Cap
	up    []int // indices by rising specificity, then registration
	down  []int // indices by falling specificity, then registration
	seed  maphash.Seed
	cache answers
	rooms sync.Pool // of *room, for reading requests
}

// NewIndex gives an index over the caps in the order of their registration. It copies the slice.
func NewIndex(caps []Cap) *Index {
	x := &Index{caps: slices.Clone(caps), seed: maphash.MakeSeed()}
	x.rooms.New = func() any { return new(room) }
	for i := range x.caps {
		x.up = append(x.up, i)
	}
	x.down = slices.Clone(x.up)
	slices.SortStableFunc(x.up, func(i, j int) int { return cmp.Compare(x.caps[i].score, x.caps[j].score) })
	slices.SortStableFunc(x.down, func(i, j int) int { return cmp.Compare(x.caps[j].score, x.caps[i].score) })
	return x
}

// Lookup gives the index of the registered cap that serves the request; ok is false when none can. A request that is no
// cap URN is an error of type *ParseError.
func (x *Index) Lookup(request string) (i int, ok bool, err error) {
	hash := maphash.String(x.seed, request)
	if a := recall(&x.cache, hash, request); a != nil {
		return a.index, a.found, nil
	}
	// The request may be a small part of a large buffer, which the cache must not keep alive.
	return x.decide(hash, request, strings.Clone)
}

// LookupBytes is Lookup for a request that is not a string yet. It keeps nothing of the slice.
func (x *Index) LookupBytes(request []byte) (i int, ok bool, err error) {
	hash := maphash.Bytes(x.seed, request)
	if a := recall(&x.cache, hash, request); a != nil {
		return a.index, a.found, nil
	}
	return x.decide(hash, string(request), func(owned string) string { return owned })
}

// decide answers a request that is not remembered. keep gives the text for the cache.
func (x *Index) decide(hash uint64, request string, keep func(string) string) (i int, ok bool, err error) {
	i, ok, err = x.resolve(request)
	if err == nil && len(request) <= maxRemembered {
		x.cache.remember(hash, &answer{request: keep(request), index: i, found: ok})
	}
	return i, ok, err
}

func (x *Index) resolve(request string) (i int, ok bool, err error) {
	r := x.rooms.Get().(*room)
	c, fault := parseCoordinates(request, r)
	if fault == nil {
		i, ok = x.find(&c)
	} else {
		err = fault
	}
	if r.reset() {
		x.rooms.Put(r)
	}
	return i, ok, err
}

// find walks the caps in the order of rank, so that the first one that serves is the best.
func (x *Index) find(request *Cap) (i int, ok bool) {
	below, _ := slices.BinarySearchFunc(x.up, request.score, func(i, score int) int {
		return cmp.Compare(x.caps[i].score, score)
	})
	for _, i := range x.up[below:] {
		if serves(&x.caps[i], request) {
			return i, true
		}
	}
	for _, i := range x.down[len(x.down)-below:] {
		if serves(&x.caps[i], request) {
			return i, true
		}
	}
	return 0, false
}

// maxRoom is the largest list of tags, in tags, that a room is kept with.
const maxRoom = 64

// reset forgets the tags, which hold parts of the request. It reports whether the room is small enough to be kept.
func (r *room) reset() bool {
	for _, tags := range []*[]tag{&r.y, &r.in, &r.out} {
		if cap(*tags) > maxRoom {
			return false
		}
		clear((*tags)[:cap(*tags)])
	}
	return true
}
