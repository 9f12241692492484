package main

import "slices"

// defect is one fault of a cartridge. plant sets the relay's hooks; what it keeps in variables is guarded by the relay's lock.
type defect struct {
	name, about string
	plant       func(r *relay)
}

// defects is the table. The test of cmd/bifaci/internal/conform says which check finds which.
func defects() []defect {
	return slices.Concat(frameDefects(), creditDefects(), requestDefects(), checkDefects(), lineDefects(), stopDefects(), peerDefects(),
		processDefects())
}
