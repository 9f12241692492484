//go:build linux

package main

import (
	"time"
)

// params are the settings of one measurement.
type params struct {
	Size     int64
	Chunk    int
	Conc     int
	N        int
	Parallel int
	Small    int
	HBLoad   string
	HBBusy   int
	Interval time.Duration
	Timeout  time.Duration
	Caps     map[string]string
}

type workload struct {
	run     func(*session, params, result) error
	metrics []string // keys summarized; a leading '-' marks lower-is-better
	chunked bool     // runs once per -chunk value
	conc    bool     // runs once per -conc value
}

var workloads = map[string]workload{
	"upload":    {run: runUpload, metrics: []string{"mb_per_s"}, chunked: true},
	"download":  {run: runDownload, metrics: []string{"mb_per_s"}, chunked: true},
	"echo":      {run: runEcho, metrics: []string{"mb_per_s"}, chunked: true},
	"latency":   {run: runLatency, metrics: []string{"-p50_us", "-p90_us", "-p99_us"}},
	"rps":       {run: runRPS, metrics: []string{"req_per_s", "-p50_us", "-p99_us"}, conc: true},
	"items":     {run: runItems, metrics: []string{"items_per_s"}},
	"tokens":    {run: runTokens, metrics: []string{"tokens_per_s", "frames_per_s"}},
	"frames":    {run: runFrames, metrics: []string{"frames_per_s"}},
	"itemsup":   {run: runItemsUp, metrics: []string{"items_per_s"}},
	"open":      {run: runOpen, metrics: []string{"-rss_open_kb", "-kb_per_request", "drain_req_per_s"}, conc: true},
	"stall":     {run: runStall, metrics: []string{"-accepted_mb", "-accepted_chunks", "-peak_rss_kb"}, chunked: true},
	"heartbeat": {run: runHeartbeat, metrics: []string{"-p50_us", "-p99_us", "-max_us"}},
}

func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint64(88172645463325252)
	for i := range b {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		b[i] = byte(x)
	}
	return b
}

func split(size int64, parts int) []int64 {
	out := make([]int64, parts)
	for i := range out {
		out[i] = size / int64(parts)
	}
	out[0] += size % int64(parts)
	return out
}

// inParallel runs fn for every part and returns the first error.
func inParallel(parts []int64, fn func(int64) error) error {
	errs := make(chan error, len(parts))
	for _, n := range parts {
		go func() { errs <- fn(n) }()
	}
	var first error
	for range parts {
		if err := <-errs; err != nil && first == nil {
			first = err
		}
	}
	return first
}

func rate(r result, key string, n float64, d time.Duration) { r[key] = round(n/d.Seconds(), 1) }
