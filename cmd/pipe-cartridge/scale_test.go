//go:build !race

package main

import (
	"time"

	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

// How much the long tests do.
const (
	recordings = 216 // every rate with every sample format four times
	mostGroups = 4   // of characters in one
	dials      = 52
	quiet      = time.Minute
	longStream = 2*time.Hour + 59*time.Minute
	cutMessage = "CQ DE X1Y"
	cutRate    = 44_100
)

// headerFormats are the sample formats that stand behind every header.
var headerFormats = tonegen.Formats()
