//go:build linux

package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// schedCPU sums the run time of the process's live threads, in seconds.
func schedCPU(pid int) float64 {
	dir := fmt.Sprintf("/proc/%d/task", pid)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0
	}
	var ns float64
	for _, e := range entries {
		b, err := os.ReadFile(dir + "/" + e.Name() + "/schedstat")
		if err != nil {
			continue
		}
		if f := strings.Fields(string(b)); len(f) > 0 {
			v, _ := strconv.ParseFloat(f[0], 64)
			ns += v
		}
	}
	return ns / 1e9
}

// machineBusy is the non-idle time of all CPUs since boot, in seconds.
func machineBusy() float64 {
	b, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(b), "\n")
	var busy float64
	for i, f := range strings.Fields(line) {
		// cpu user nice system idle iowait irq softirq steal
		if i == 0 || i == 4 || i == 5 || i > 8 {
			continue
		}
		v, _ := strconv.ParseFloat(f, 64)
		busy += v
	}
	return busy / 100
}

// waitQuiet returns once the machine was mostly idle for a moment, or when
// limit has passed.
func waitQuiet(limit time.Duration, maxBusy float64) {
	const span = 200 * time.Millisecond
	for deadline := time.Now().Add(limit); time.Now().Before(deadline); {
		b, t := machineBusy(), time.Now()
		time.Sleep(span)
		if (machineBusy()-b)/(time.Since(t).Seconds()*float64(runtime.NumCPU())) <= maxBusy {
			return
		}
	}
}

func tv(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }

// childCPU reads user and system time from the scheduler's own accounting.
func childCPU(pid int) (user, sys float64) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, 0
	}
	s := string(b)
	f := strings.Fields(s[strings.LastIndexByte(s, ')')+1:])
	if len(f) < 13 {
		return 0, 0
	}
	u, _ := strconv.ParseFloat(f[11], 64)
	k, _ := strconv.ParseFloat(f[12], 64)
	return u / 100, k / 100
}

func procStatus(pid int) map[string]int64 {
	m := map[string]int64{}
	f, err := os.Open(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return m
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		k, v, ok := strings.Cut(sc.Text(), ":")
		if !ok {
			continue
		}
		if f := strings.Fields(v); len(f) > 0 {
			if n, err := strconv.ParseInt(f[0], 10, 64); err == nil {
				m[k] = n
			}
		}
	}
	return m
}
