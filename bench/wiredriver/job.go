//go:build linux

package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// job is one workload with its settings; every target runs it -repeat times.
type job struct {
	name string // of the workload
	p    params
}

// label names the job in the output: the workload and the setting that varies.
func (j job) label() string {
	switch w := workloads[j.name]; {
	case w.chunked:
		return j.name + "/" + strconv.Itoa(j.p.Chunk)
	case w.conc:
		return j.name + "/" + strconv.Itoa(j.p.Conc)
	case j.name == "heartbeat" && j.p.HBLoad == "spin":
		return fmt.Sprintf("heartbeat/spin/%d", j.p.HBBusy)
	case j.name == "heartbeat":
		return "heartbeat/" + j.p.HBLoad
	}
	return j.name
}

// defaultCounts is what -n is when it is not given.
var defaultCounts = map[string]int{"latency": 5000, "rps": 20_000, "items": 200_000, "tokens": 1_000_000,
	"frames": 200_000, "itemsup": 200_000, "heartbeat": 200}

// jobs are the workloads of -run, each once per value of the setting that varies.
func (o *options) jobs() []job {
	if o.table {
		return o.tableJobs()
	}
	run := o.run
	if len(run) == 0 {
		run = defaultRun
	}
	var all []job
	for _, name := range run {
		j := o.job(name)
		switch w := workloads[name]; {
		case w.chunked:
			for _, j.p.Chunk = range o.chunks {
				all = append(all, j)
			}
		case w.conc:
			for _, j.p.Conc = range o.concs {
				all = append(all, j)
			}
		default:
			all = append(all, j)
		}
	}
	return all
}

// job is a workload with the common settings.
func (o *options) job(name string) job {
	j := job{name: name, p: o.base}
	j.p.Chunk, j.p.Conc = o.chunks[0], 1
	if j.p.N == 0 {
		j.p.N = defaultCounts[name]
	}
	return j
}

func unknownWorkload(name string) error {
	return fmt.Errorf("unknown workload %q; there are %s", name, strings.Join(slices.Sorted(maps.Keys(workloads)), ", "))
}
