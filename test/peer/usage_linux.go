package peer

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
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

// ResetPeak makes the most that the process ever had in memory what it has now.
func (p *Process) ResetPeak() {
	p.t.Helper()
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", p.PID()), []byte("5"), 0); err != nil {
		p.t.Fatalf("peer: %v", err)
	}
}

// clockTick is the unit of processor time in /proc; it is the same on all architectures that Go runs on.
const clockTick = 10 * time.Millisecond

// CPU is how much processor time the process has used.
func (p *Process) CPU() time.Duration {
	p.t.Helper()
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.PID()))
	if err != nil {
		p.t.Fatalf("peer: %v", err)
	}
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	var ticks int64
	for _, field := range fields[11:13] { // utime and stime, fields 14 and 15 of proc(5)
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			p.t.Fatalf("peer: %s: %v", stat, err)
		}
		ticks += n
	}
	return time.Duration(ticks) * clockTick
}
