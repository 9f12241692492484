package stdio

import (
	"bytes"
	"os"
	"strconv"
)

// Memory returns what this process takes, in MiB rounded up, for the heartbeat: its footprint, that is memory
// of its own whether resident or swapped out, and its resident set, which counts shared and mapped pages too. ok is
// false where the system does not tell. It reads one small file of /proc, some ten microseconds; safe for concurrent
// use, does not block.
func Memory() (footprintMB, rssMB uint64, ok bool) {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, 0, false
	}
	return parseStatus(status)
}

// parseStatus reads lines like "VmRSS:	    5620 kB". A kernel without swap leaves VmSwap out.
func parseStatus(status []byte) (footprintMB, rssMB uint64, ok bool) {
	var anonymous, swapped, resident uint64 // KiB
	var haveAnonymous, haveResident bool
	for line := range bytes.Lines(status) {
		name, value, found := bytes.Cut(line, []byte(":"))
		if !found {
			continue
		}
		var into *uint64
		switch string(name) {
		case "VmRSS":
			into, haveResident = &resident, true
		case "RssAnon":
			into, haveAnonymous = &anonymous, true
		case "VmSwap":
			into = &swapped
		default:
			continue
		}
		number, isKiB := bytes.CutSuffix(bytes.TrimSpace(value), []byte(" kB"))
		kib, err := strconv.ParseUint(string(number), 10, 50)
		if !isKiB || err != nil {
			return 0, 0, false
		}
		*into = kib
	}
	if !haveAnonymous || !haveResident {
		return 0, 0, false
	}
	return mib(anonymous + swapped), mib(resident), true
}

func mib(kib uint64) uint64 {
	return (kib + 1023) / 1024
}
