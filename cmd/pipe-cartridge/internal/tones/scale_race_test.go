//go:build race

package tones

import "time"

// The race detector makes the filters ten times as slow and finds nothing in them: a stream is one goroutine. What runs
// at the same time is in TestOneEngineServesManyStreamsAtOnce, in full.
const (
	recordings     = 36 // every rate four times
	mostGroups     = 2
	dtmfRecordings = 20
	noiseSeeds     = 1
	noiseLength    = 6 * time.Second
	pitchStep      = 600.0
	cuts           = 8
)
