//go:build !race

package tones

// How much the tests about accuracy try.
const (
	recordings     = 216 // every rate with every format four times
	dtmfRecordings = 104 // every twist eight times
	noiseSeeds     = 3   // of each kind and level of noise
)
