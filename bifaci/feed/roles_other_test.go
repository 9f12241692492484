//go:build !unix

package feed

// roles is empty: there is no arecord to stand in for.
var roles map[string]func()
