//go:build !race

package audio

// underRace says that tests run at full length; see race_test.go.
const underRace = false
