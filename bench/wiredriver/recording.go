//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// machine is where and when figures were made. It holds no name of a host.
type machine struct {
	Started string `json:"started"` // RFC 3339, UTC
	System  string `json:"system"`
	Kernel  string `json:"kernel"`
	CPU     string `json:"cpu"`
	CPUs    int    `json:"cpus"`
	Go      string `json:"go"`
	Repeat  int    `json:"repeat"`
}

func thisMachine(repeat int) machine {
	m := machine{Started: time.Now().UTC().Format(time.RFC3339), System: runtime.GOOS + "/" + runtime.GOARCH,
		CPU: "unknown", CPUs: runtime.NumCPU(), Go: runtime.Version(), Repeat: repeat}
	var u syscall.Utsname
	if syscall.Uname(&u) == nil {
		for _, c := range u.Release {
			if c == 0 {
				break
			}
			m.Kernel += string(rune(c))
		}
	}
	if b, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.SplitSeq(string(b), "\n") {
			if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
				m.CPU = strings.TrimSpace(v)
				break
			}
		}
	}
	return m
}

// recording is what one call measured.
type recording struct {
	Machine   machine
	Summaries []summary
}

// find returns the summary of a target at a job, nil when there is none.
func (r *recording) find(job, bin string) *summary {
	for i := range r.Summaries {
		if s := &r.Summaries[i]; s.Job == job && s.Bin == bin {
			return s
		}
	}
	return nil
}

// bins are the targets, in the order of the command line.
func (r *recording) bins() []string {
	var names []string
	seen := map[string]bool{}
	for _, s := range r.Summaries {
		if !seen[s.Bin] {
			seen[s.Bin] = true
			names = append(names, s.Bin)
		}
	}
	return names
}

// readRecordings reads files that -json has written.
func readRecordings(paths []string) ([]recording, error) {
	var all []recording
	for _, path := range paths {
		r, err := readRecording(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, r)
	}
	return all, nil
}

func readRecording(path string) (recording, error) {
	var rec recording
	f, err := os.Open(path)
	if err != nil {
		return rec, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var kind struct{ Started, Summary string }
		if err := json.Unmarshal(lines.Bytes(), &kind); err != nil {
			return rec, fmt.Errorf("line %d: %w", n, err)
		}
		switch {
		case kind.Started != "":
			err = json.Unmarshal(lines.Bytes(), &rec.Machine)
		case kind.Summary != "":
			rec.Summaries = append(rec.Summaries, summary{})
			err = json.Unmarshal(lines.Bytes(), &rec.Summaries[len(rec.Summaries)-1])
		}
		if err != nil {
			return rec, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return rec, err
	}
	if len(rec.Summaries) == 0 {
		return rec, errors.New("no summary line; want a file written with -json")
	}
	return rec, nil
}
