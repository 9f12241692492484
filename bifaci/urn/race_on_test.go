//go:build race

package urn_test

// raceEnabled reports that the test runs under the race detector, which makes pools forget things at random.
const raceEnabled = true
