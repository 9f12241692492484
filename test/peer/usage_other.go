//go:build !linux

package peer

import "time"

// Memory is what the process occupies in memory now, and the most it ever has, in bytes. It is known on Linux only and zero
// elsewhere.
func (p *Process) Memory() (now, peak uint64) { return 0, 0 }

// CPU is how much processor time the process has used. It is known on Linux only and zero elsewhere.
func (p *Process) CPU() time.Duration { return 0 }
