//go:build race

package audio

// underRace makes the signals of tests shorter: nothing here runs at the same time as anything else, and the detector
// makes every sample twenty times as dear.
const underRace = true
