//go:build race

package main

import (
	"time"

	"github.com/pipe-cartridge/pipe/internal/tonegen"
)

// The race detector makes filters ten times as slow and finds nothing in them.
const (
	recordings = 18
	mostGroups = 1
	dials      = 13
	quiet      = 4 * time.Second
	longStream = 30 * time.Second
	cutMessage = "CQ"
	cutRate    = 11_025
)

// headerFormats are the sample formats that stand behind every header.
var headerFormats = []tonegen.Format{tonegen.U8, tonegen.S24}
