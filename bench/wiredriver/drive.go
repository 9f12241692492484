//go:build linux

package main

import (
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"
)

// driver runs jobs and writes one JSON line per run and per summary.
type driver struct {
	*options
	lines *json.Encoder
}

func newDriver(o *options, lines io.Writer) *driver {
	return &driver{options: o, lines: json.NewEncoder(lines)}
}

// run lets the targets take turns at one job, and sums up.
func (d *driver) run(j job) ([]summary, error) {
	label := j.label()
	sums := make([]summary, 0, len(d.targets))
	kept := map[string][]result{}
	failed := map[string]int{}
	for rep := range d.repeat {
		for k := range d.targets {
			t := d.targets[(k+rep)%len(d.targets)] // turns start elsewhere each time
			if t.skips(j.name) {
				continue
			}
			r, failures, err := d.runOnce(t, j, rep)
			if err != nil {
				return nil, err
			}
			failed[t.name] += failures
			if r["error"] == nil {
				kept[t.name] = append(kept[t.name], r)
			}
		}
	}
	for _, t := range d.targets {
		if t.skips(j.name) {
			continue
		}
		s := summarize(label, t.name, workloads[j.name].metrics, kept[t.name])
		s.Failed = failed[t.name]
		if len(sums) > 0 {
			s.compare(&sums[0], workloads[j.name].metrics)
		}
		if err := d.lines.Encode(s); err != nil {
			return nil, err
		}
		sums = append(sums, s)
	}
	return sums, nil
}

// runOnce is one turn of one target: the quietest of the attempts that -max-foreign asks for. A measurement that fails is part of
// the result; the error is for output that could not be written.
func (d *driver) runOnce(t *target, j job, rep int) (best result, failures int, err error) {
	time.Sleep(d.settle)
	cfg := d.session
	cfg.Path, cfg.Version, cfg.Policy = t.path, t.version, t.policy
	cfg.Limits = limits{d.maxFrame, uint64(j.p.Chunk), 64, d.credit}
	j.p.Caps = t.caps
	for range max(1, d.retries) {
		if d.waitQuiet > 0 {
			waitQuiet(d.waitQuiet, min(d.maxForeign, 0.15))
		}
		one := result{"run": j.label(), "bin": t.name, "rep": rep}
		if err := measure(cfg, workloads[j.name], j.p, one); err != nil {
			one["error"] = err.Error()
			failures++
		}
		foreign, _ := toFloat(one["foreign"])
		one["noisy"] = foreign > d.maxForeign
		if err := d.lines.Encode(one); err != nil {
			return nil, failures, err
		}
		if least, _ := toFloat(best["foreign"]); best == nil || foreign < least {
			best = one
		}
		if foreign <= d.maxForeign || one["error"] != nil {
			break
		}
	}
	return best, failures, nil
}

// spread is what several runs gave.
type spread struct {
	Median float64 `json:"median"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

func spreadOf(v []float64) *spread {
	if len(v) == 0 {
		return nil
	}
	return &spread{median(v), slices.Min(v), slices.Max(v)}
}

// summary is what the runs of one target at one job gave.
type summary struct {
	Job     string             `json:"summary"`
	Bin     string             `json:"bin"`
	Runs    int                `json:"runs"`            // that count
	Failed  int                `json:"failed"`          // attempts that failed
	Noisy   int                `json:"noisy,omitempty"` // of those that count, above -max-foreign
	Unit    string             `json:"unit,omitempty"`
	CPU     *spread            `json:"cart_cpu_us_per_unit,omitempty"`
	Metrics map[string]*spread `json:"metrics,omitempty"`
	BetterX map[string]float64 `json:"better_x,omitempty"` // against the first target; above 1: better
}

func summarize(label, bin string, metrics []string, runs []result) summary {
	s := summary{Job: label, Bin: bin, Runs: len(runs), Metrics: map[string]*spread{}}
	values := func(key string) (v []float64) {
		for _, r := range runs {
			if x, ok := toFloat(r[key]); ok {
				v = append(v, x)
			}
		}
		return v
	}
	for _, r := range runs {
		if r["noisy"] == true {
			s.Noisy++
		}
		s.Unit, _ = r["unit"].(string)
	}
	s.CPU = spreadOf(values("cart_cpu_us_per_unit"))
	for _, m := range metrics {
		m = strings.TrimPrefix(m, "-")
		if v := spreadOf(values(m)); v != nil {
			s.Metrics[m] = v
		}
	}
	return s
}

// compare fills BetterX with the ratios of the medians.
func (s *summary) compare(base *summary, metrics []string) {
	s.BetterX = map[string]float64{}
	put := func(name string, ours, base *spread, lower bool) {
		if ours == nil || base == nil || ours.Median == 0 || base.Median == 0 {
			return
		}
		x := ours.Median / base.Median
		if lower {
			x = 1 / x
		}
		s.BetterX[name] = round(x, 2)
	}
	put("cart_cpu_us_per_unit", s.CPU, base.CPU, true)
	for _, m := range metrics {
		name, lower := strings.CutPrefix(m, "-")
		put(name, s.Metrics[name], base.Metrics[name], lower)
	}
}
