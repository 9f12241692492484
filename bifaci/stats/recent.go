package stats

// RecentSize is how many ended ids are remembered (R-3.14, spec/wire.md section 15).
const RecentSize = 64

// Recent remembers the last [RecentSize] ids that ended, each once, oldest out first: a frame for one of them
// is a straggler, a frame for any other unknown id a drop. Only ids whose terminal was seen or written belong in it.
// The zero value is ready and holds no memory. Not safe for concurrent use; nothing blocks.
type Recent[K comparable] struct {
	order  []K // a ring once it is full
	oldest int // index in order of the next to go
	known  map[K]struct{}
}

// Add remembers id as the one that ended last. An id that ended before, and was used again since, moves up.
func (r *Recent[K]) Add(id K) {
	if r.Contains(id) {
		r.remove(id)
	}
	if r.known == nil {
		r.known = make(map[K]struct{})
	}
	r.known[id] = struct{}{}
	if len(r.order) < RecentSize {
		r.order = append(r.order, id)
		return
	}
	delete(r.known, r.order[r.oldest])
	r.order[r.oldest] = id
	r.oldest = (r.oldest + 1) % RecentSize
}

// Contains reports whether id is one of the last that ended, in constant time.
func (r *Recent[K]) Contains(id K) bool {
	_, ok := r.known[id]
	return ok
}

// Len is the number of ids remembered, 0 to [RecentSize].
func (r *Recent[K]) Len() int {
	return len(r.order)
}

// remove takes a known id out and straightens the ring. Ids are hardly ever used twice, so it may look at all of them.
func (r *Recent[K]) remove(id K) {
	kept := make([]K, 0, RecentSize)
	for i := range r.order {
		if k := r.order[(r.oldest+i)%len(r.order)]; k != id {
			kept = append(kept, k)
		}
	}
	r.order, r.oldest = kept, 0
	delete(r.known, id)
}
