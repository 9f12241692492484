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
