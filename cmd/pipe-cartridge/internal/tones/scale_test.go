//go:build !race

package tones

import "time"

// How much the tests about accuracy try.
const (
	recordings     = 216 // every rate with every format four times
	mostGroups     = 5   // of characters in one
	dtmfRecordings = 104 // every twist eight times
	noiseSeeds     = 3   // of each kind and level of noise
	noiseLength    = time.Minute
	pitchStep      = 75.0 // Hz
	cuts           = 100  // into blocks of different sizes
)
