package peer

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Memory is what the process occupies in memory now, and the most it ever has, in bytes.
func (p *Process) Memory() (now, peak uint64) {
	p.t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		p.t.Fatalf("peer: %v", err)
	}
	field := func(name string) uint64 {
		_, rest, _ := strings.Cut(string(status), "\n"+name+":")
		line, _, _ := strings.Cut(rest, "\n")
		n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(line), "kB")), 10, 64)
		if err != nil {
			p.t.Fatalf("peer: %s of %s: %v", name, status, err)
		}
		return n << 10
	}
	return field("VmRSS"), field("VmHWM")
}
