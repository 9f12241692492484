//go:build linux

package main

import (
	"fmt"
	"os"
	"runtime"
	"sort"
	"syscall"
	"time"
)

// result is one measurement, printed as one JSON line: README.md says what the keys are.
type result map[string]any

// probe measures the CPU time and memory of the child and the CPU time of
// this process over one workload.
type probe struct {
	pid      int
	start    time.Time
	cu, cs   float64
	sched    float64
	busy     float64
	self     syscall.Rusage
	hwmReset bool
}

func startProbe(pid int) *probe {
	p := &probe{pid: pid}
	// Resets the peak-memory counter of the child, where permitted.
	p.hwmReset = os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0) == nil
	p.cu, p.cs = childCPU(pid)
	p.sched = schedCPU(pid)
	p.busy = machineBusy()
	syscall.Getrusage(syscall.RUSAGE_SELF, &p.self)
	p.start = time.Now()
	return p
}

func (p *probe) finish(r result) {
	wall := time.Since(p.start).Seconds()
	r["seconds"] = round(wall, 6)
	u, s := childCPU(p.pid)
	r["cart_user_s"], r["cart_sys_s"] = round(u-p.cu, 3), round(s-p.cs, 3)
	cart := u - p.cu + s - p.cs
	// The scheduler's figure is finer, but lacks threads that have ended.
	if v := schedCPU(p.pid) - p.sched; v > cart-0.03 {
		cart = v
	}
	r["cart_cpu_s"] = round(cart, 6)
	var now syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &now)
	driver := tv(now.Utime) - tv(p.self.Utime) + tv(now.Stime) - tv(p.self.Stime)
	r["driver_cpu_s"] = round(driver, 3)
	// What everything else on the machine took, as a share of its CPUs.
	foreign := (machineBusy() - p.busy - cart - driver) / (wall * float64(runtime.NumCPU()))
	r["foreign"] = round(max(0, foreign), 3)
	if n, ok := toFloat(r["units"]); ok && n > 0 {
		r["cart_cpu_us_per_unit"] = round(cart*1e6/n, 3)
	}
	st := procStatus(p.pid)
	r["rss_kb"] = st["VmRSS"]
	if p.hwmReset {
		r["peak_rss_kb"] = st["VmHWM"]
	}
	r["threads"] = st["Threads"]
}

func round(v float64, digits int) float64 {
	p := 1.0
	for ; digits > 0; digits-- {
		p *= 10
	}
	if v < 0 {
		return -round(-v, 0)
	}
	return float64(int64(v*p+0.5)) / p
}

func percentile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(q * float64(len(sorted)))
	return sorted[min(i, len(sorted)-1)]
}

func us(d time.Duration) float64 { return round(float64(d.Nanoseconds())/1e3, 1) }

func addLatency(r result, d []time.Duration) {
	sort.Slice(d, func(i, j int) bool { return d[i] < d[j] })
	var sum time.Duration
	for _, v := range d {
		sum += v
	}
	if len(d) > 0 {
		r["mean_us"] = us(sum / time.Duration(len(d)))
		r["min_us"] = us(d[0])
		r["max_us"] = us(d[len(d)-1])
	}
	r["p50_us"], r["p90_us"], r["p99_us"] = us(percentile(d, .5)), us(percentile(d, .9)), us(percentile(d, .99))
}

func median(v []float64) float64 {
	if len(v) == 0 {
		return 0
	}
	s := append([]float64(nil), v...)
	sort.Float64s(s)
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

func toFloat(v any) (float64, bool) {
	switch x := v.(type) {
	case float64:
		return x, true
	case int64:
		return float64(x), true
	case int:
		return float64(x), true
	case uint64:
		return float64(x), true
	}
	return 0, false
}

// measure runs one workload against a fresh process.
func measure(cfg sessionConfig, w workload, p params, r result) error {
	runtime.GC()
	s, err := startSession(cfg)
	if err != nil {
		return err
	}
	r["ready_ms"] = round(s.ready.Seconds()*1e3, 2)
	if int(s.lim.MaxChunk) < p.Chunk {
		p.Chunk = int(s.lim.MaxChunk)
		r["chunk_lowered_to"] = p.Chunk
	}
	pr := startProbe(s.cmd.Process.Pid)
	f0, b0, o0 := s.framesIn.Load(), s.bytesIn.Load(), s.w.Bytes.Load()
	err = s.cause(w.run(s, p, r))
	pr.finish(r)
	r["frames_in"], r["bytes_in"], r["bytes_out"] = s.framesIn.Load()-f0, s.bytesIn.Load()-b0, s.w.Bytes.Load()-o0
	for k, v := range map[string]uint64{"strays": s.strays.Load(), "bad_checksums": s.badSums.Load(), "violations": s.violations.Load(), "logs": s.logFrames.Load()} {
		if v != 0 {
			r[k] = v
		}
	}
	if err != nil {
		s.kill()
	}
	exit, ru := s.close()
	if exit != "ok" {
		r["exit"] = exit
	}
	if ru != nil {
		r["max_rss_kb"] = ru.Maxrss
		r["total_user_s"], r["total_sys_s"] = round(tv(ru.Utime), 3), round(tv(ru.Stime), 3)
	}
	if err == nil && (s.badSums.Load() > 0 || s.violations.Load() > 0) {
		err = fmt.Errorf("%d bad checksums, %d protocol violations", s.badSums.Load(), s.violations.Load())
	}
	return err
}
