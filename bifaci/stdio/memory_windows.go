package stdio

import (
	"syscall"
	"unsafe"
)

// processMemoryCounters is PROCESS_MEMORY_COUNTERS of the system, sizes in bytes.
type processMemoryCounters struct {
	cb                         uint32
	pageFaultCount             uint32
	peakWorkingSetSize         uintptr
	workingSetSize             uintptr
	quotaPeakPagedPoolUsage    uintptr
	quotaPagedPoolUsage        uintptr
	quotaPeakNonPagedPoolUsage uintptr
	quotaNonPagedPoolUsage     uintptr
	pagefileUsage              uintptr
	peakPagefileUsage          uintptr
}

// Memory returns what this process takes, in MiB rounded up, for the heartbeat: its footprint, that is memory
// committed for it alone, and its working set, which counts shared pages too. ok is false when the system does not
// tell. Safe for concurrent use; does not block.
func Memory() (footprintMB, rssMB uint64, ok bool) {
	self, err := syscall.GetCurrentProcess()
	if err != nil {
		return 0, 0, false
	}
	proc := syscall.NewLazyDLL("kernel32.dll").NewProc("K32GetProcessMemoryInfo")
	if proc.Find() != nil {
		return 0, 0, false
	}
	counters := processMemoryCounters{cb: uint32(unsafe.Sizeof(processMemoryCounters{}))}
	done, _, _ := proc.Call(uintptr(self), uintptr(unsafe.Pointer(&counters)), uintptr(counters.cb))
	if done == 0 {
		return 0, 0, false
	}
	return mib(counters.pagefileUsage), mib(counters.workingSetSize), true
}

func mib(bytes uintptr) uint64 {
	return (uint64(bytes) + 1<<20 - 1) >> 20
}
