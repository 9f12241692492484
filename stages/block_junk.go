//go:build junkblocks

package stages

// poison fills returned memory with junk, so that a test sees any use after Release.
func poison(b []byte) {
	for i := range b {
		b[i] = 0xdb
	}
}
