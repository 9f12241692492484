// Package process holds the tests of a cartridge as a process: what it does with its descriptors, at the end of its input, at a
// signal, under load and over a long time. They start test/probecartridge, test/process/stunt and the reference cartridge, built
// without the race detector, and speak with them through test/peer.
package process
