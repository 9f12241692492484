//go:build race

package tones

// Under the race detector everything takes ten times as long; nothing here runs at the same time anyway.
const (
	recordings     = 40
	dtmfRecordings = 20
	noiseSeeds     = 1
)
