package urn

// Remembered counts the answers that the index holds.
func (x *Index) Remembered() int {
	n := 0
	for b := range x.cache {
		for w := range x.cache[b] {
			if x.cache[b][w].Load() != nil {
				n++
			}
		}
	}
	return n
}

// ReadInRoom reads a cap in a new room and empties it. read counts the tags that were there, left those that still are,
// and kept says whether the room would go back to the pool.
func ReadInRoom(text string) (read, left int, kept bool) {
	r := new(room)
	c, err := parseCoordinates(text, r)
	if err != nil {
		return 0, 0, false
	}
	read = len(c.y.tags) + len(c.in.set.tags) + len(c.out.set.tags)
	kept = r.reset()
	for _, tags := range [][]tag{r.y, r.in, r.out} {
		for _, t := range tags[:cap(tags)] {
			if t != (tag{}) {
				left++
			}
		}
	}
	return read, left, kept
}
