// Command probecartridge is the cartridge that drivers, tests and the conformance tool exercise; its capabilities are in package probe.
package main

import "github.com/pipe-cartridge/pipe/test/probecartridge/probe"

func main() { probe.New().Main() }
