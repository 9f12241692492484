//go:build linux

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strconv"
)

// row is one line of the table: a metric of a job.
type row struct {
	title  string
	job    func(*job) // sets what differs from the common settings
	name   string     // of the workload
	metric string
	unit   string  // of the printed figure
	scale  float64 // from the metric to the unit
	floor  string  // of the ratio or the figure: what must not be lost
}

func chunk(n int) func(*job) { return func(j *job) { j.p.Chunk = n } }
func conc(n int) func(*job)  { return func(j *job) { j.p.Conc = n } }
func plain(*job)             {}
func spinners(n int) func(*job) {
	return func(j *job) { j.p.HBLoad, j.p.HBBusy = "spin", n }
}

// rows are the table, in order.
var rows = []row{
	{"upload 64 KiB", chunk(64 << 10), "upload", "mb_per_s", "GB/s", 1e-3, "≥ 0.60"},
	{"upload 256 KiB", chunk(256 << 10), "upload", "mb_per_s", "GB/s", 1e-3, "≥ 0.70"},
	{"download 64 KiB", chunk(64 << 10), "download", "mb_per_s", "GB/s", 1e-3, "≥ 0.95"},
	{"download 256 KiB", chunk(256 << 10), "download", "mb_per_s", "GB/s", 1e-3, "≥ 0.80"},
	{"echo 64 KiB", chunk(64 << 10), "echo", "mb_per_s", "GB/s", 1e-3, "≥ 1.2"},
	{"echo 256 KiB", chunk(256 << 10), "echo", "mb_per_s", "GB/s", 1e-3, "≥ 1.3"},
	{"unary round trip, median", plain, "latency", "p50_us", "µs", 1, "≤ 3.2"},
	{"requests/s, 16 in flight", conc(16), "rps", "req_per_s", "k/s", 1e-3, "≥ 0.42"},
	{"requests/s, 256 in flight", conc(256), "rps", "req_per_s", "k/s", 1e-3, "≥ 0.52"},
	{"requests/s, 2 000 in flight", conc(2000), "rps", "req_per_s", "k/s", 1e-3, "≥ 0.44"},
	{"sequence items/s out", plain, "items", "items_per_s", "k/s", 1e-3, "≥ 0.85"},
	{"16-byte writes/s out", plain, "tokens", "tokens_per_s", "M/s", 1e-6, "≥ 0.80"},
	{"small frames/s in", plain, "frames", "frames_per_s", "k/s", 1e-3, "≥ 0.48"},
	{"sequence items/s in", plain, "itemsup", "items_per_s", "k/s", 1e-3, "≥ 0.48"},
	{"memory per open request, 2 000 open", conc(2000), "open", "kb_per_request", "KB", 1, "≤ 8 KB"},
	{"heartbeat p99, 4 spinning handlers", spinners(4), "heartbeat", "p99_us", "ms", 1e-3, "≤ 8 ms"},
	{"heartbeat p99, 16 spinning handlers", spinners(16), "heartbeat", "p99_us", "ms", 1e-3, "≤ 20 ms"},
	{"stalled consumer: chunks accepted", chunk(256 << 10), "stall", "accepted_chunks", "", 1, "two windows and one"},
	{"stalled consumer: memory", chunk(256 << 10), "stall", "peak_rss_kb", "MB", 1.024e-3, "≤ 24 MB"},
}

func (r row) build(o *options) job {
	j := o.job(r.name)
	r.job(&j)
	return j
}

// tableJobs are the jobs of the rows, each once; -run picks some.
func (o *options) tableJobs() []job {
	var all []job
	for _, r := range rows {
		if len(o.run) > 0 && !slices.Contains(o.run, r.name) {
			continue
		}
		j := r.build(o)
		if !slices.ContainsFunc(all, func(k job) bool { return k.label() == j.label() }) {
			all = append(all, j)
		}
	}
	return all
}

// label is that of the row's job; it does not depend on the options.
func (r row) label() string { return r.build(&options{chunks: sizes{1}}).label() }

// writeTables writes one table for each target after the first, which is the base. With several recordings each row shows the one
// whose ratio is in the middle, and the range of the ratios.
func writeTables(w io.Writer, recs []recording) error {
	var b bytes.Buffer
	for _, r := range recs {
		m := r.Machine
		fmt.Fprintf(&b, "Measured %s: %d × %s, %s, kernel %s, %s, median of %d runs each.\n\n", m.Started, m.CPUs, m.CPU, m.System, m.Kernel, m.Go, m.Repeat)
	}
	bins := recs[0].bins()
	for _, bin := range bins[1:] {
		writeTable(&b, recs, bins[0], bin)
	}
	_, err := w.Write(b.Bytes())
	return err
}

func writeTable(b *bytes.Buffer, recs []recording, base, bin string) {
	fmt.Fprintf(b, "| workload | %s | %s | %s / %s | floor | CPU per unit, %s | CPU per unit, %s | flaws |\n", base, bin, bin, base, base, bin)
	b.WriteString("| --- | --- | --- | --- | --- | --- | --- | --- |\n")
	for _, r := range rows {
		pairs := r.pairs(recs, base, bin)
		if len(pairs) == 0 {
			continue
		}
		middle := pairs[(len(pairs)-1)/2]
		ratio := "–"
		if lo, hi := pairs[0].ratio, pairs[len(pairs)-1].ratio; middle.ratio > 0 {
			if ratio = figure(middle.ratio); len(pairs) > 1 {
				ratio += fmt.Sprintf(" (%s–%s)", figure(lo), figure(hi))
			}
		}
		fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %s | %s |\n", r.title, r.value(middle.base), r.value(middle.ours), ratio, r.floor,
			cpu(middle.base), cpu(middle.ours), middle.flaws(base, bin))
	}
	b.WriteString("\n")
}

// pair is one row in one recording. Either summary may be missing.
type pair struct {
	base, ours *summary
	ratio      float64 // of the medians; 0 when there is none
}

// pairs are the row in every recording that has it, ordered by ratio.
func (r row) pairs(recs []recording, base, bin string) []pair {
	var all []pair
	for i := range recs {
		p := pair{base: recs[i].find(r.label(), base), ours: recs[i].find(r.label(), bin)}
		if p.base == nil && p.ours == nil {
			continue
		}
		if x, y := r.spread(p.base), r.spread(p.ours); x != nil && y != nil && x.Median != 0 {
			p.ratio = y.Median / x.Median
		}
		all = append(all, p)
	}
	slices.SortStableFunc(all, func(a, b pair) int {
		// Without a ratio the figure itself decides.
		if a.ratio == 0 && b.ratio == 0 && r.spread(a.ours) != nil && r.spread(b.ours) != nil {
			return cmp.Compare(r.spread(a.ours).Median, r.spread(b.ours).Median)
		}
		return cmp.Compare(a.ratio, b.ratio)
	})
	return all
}

func (r row) spread(s *summary) *spread {
	if s == nil {
		return nil
	}
	return s.Metrics[r.metric]
}

// value is the median with its unit, and the range of the runs.
func (r row) value(s *summary) string {
	v := r.spread(s)
	if v == nil {
		return "–"
	}
	text := figure(v.Median * r.scale)
	if r.unit != "" {
		text += " " + r.unit
	}
	return fmt.Sprintf("%s (%s–%s)", text, figure(v.Min*r.scale), figure(v.Max*r.scale))
}

func cpu(s *summary) string {
	if s == nil || s.CPU == nil {
		return "–"
	}
	return figure(s.CPU.Median) + " µs/" + s.Unit
}

// flaws says what is wrong with the figures of the row: failed attempts, and runs that count although the machine was busy.
func (p pair) flaws(base, bin string) string {
	text := ""
	for i, s := range []*summary{p.base, p.ours} {
		if s == nil || s.Failed == 0 && s.Noisy == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s: %d failed, %d noisy of %d", []string{base, bin}[i], s.Failed, s.Noisy, s.Runs)
	}
	return text
}

// figure prints three significant digits, without an exponent.
func figure(v float64) string {
	digits := 0
	for limit := 100.0; digits < 3 && v < limit; limit /= 10 {
		digits++
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}
