//go:build linux

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// record writes a recording of one row with the given rates, in MB/s.
func record(t *testing.T, null, ours string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.jsonl")
	text := `{"started":"2026-01-02T03:04:05Z","system":"linux/amd64","kernel":"6.1","cpu":"a processor","cpus":2,"go":"go1.26","repeat":3}
{"run":"upload/65536","bin":"null","rep":0,"mb_per_s":1,"foreign":0.5,"noisy":true,"units":17.5,"unit":"MB"}
{"summary":"upload/65536","bin":"null","runs":3,"failed":0,"unit":"MB","cart_cpu_us_per_unit":{"median":200,"min":190,"max":210},"metrics":{"mb_per_s":{"median":` + null + `,"min":1000,"max":2500}}}
{"summary":"upload/65536","bin":"ours","runs":2,"failed":1,"noisy":1,"unit":"MB","cart_cpu_us_per_unit":{"median":312.4,"min":300,"max":320},"metrics":{"mb_per_s":{"median":` + ours + `,"min":900,"max":1900}}}
{"summary":"stall/262144","bin":"ours","runs":3,"failed":0,"metrics":{"accepted_chunks":{"median":65,"min":65,"max":65},"peak_rss_kb":{"median":12695,"min":12000,"max":13000}}}
`
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestTabulateTakesTheMiddleOfThreeRecordings(t *testing.T) {
	files := []string{record(t, "2000", "1800"), record(t, "2000", "1200"), record(t, "1000", "750")}
	var out, diag bytes.Buffer
	require.Zero(t, run([]string{"-tabulate", strings.Join(files, ",")}, &out, &diag), diag.String())
	lines := strings.Split(out.String(), "\n")
	measured := "Measured 2026-01-02T03:04:05Z: 2 × a processor, linux/amd64, kernel 6.1, go1.26, median of 3 runs each."
	require.Equal(t, []string{measured, "", measured, "", measured, "",
		"| workload | null | ours | ours / null | floor | CPU per unit, null | CPU per unit, ours | flaws |",
		"| --- | --- | --- | --- | --- | --- | --- | --- |",
		"| upload 64 KiB | 1.00 GB/s (1.00–2.50) | 0.750 GB/s (0.900–1.90) | 0.750 (0.600–0.900) | ≥ 0.60 | 200 µs/MB | 312 µs/MB | ours: 1 failed, 1 noisy of 2 |",
		"| stalled consumer: chunks accepted | – | 65.0 (65.0–65.0) | – | two windows and one | – | – |  |",
		"| stalled consumer: memory | – | 13.0 MB (12.3–13.3) | – | ≤ 24 MB | – | – |  |", "", ""}, lines)
}

func TestTabulateRefusesWhatIsNoRecording(t *testing.T) {
	path := filepath.Join(t.TempDir(), "empty.jsonl")
	require.NoError(t, os.WriteFile(path, []byte(`{"run":"upload/65536","bin":"null"}`), 0o600))
	var out, diag bytes.Buffer
	require.Equal(t, 2, run([]string{"-tabulate", path}, &out, &diag))
	require.Contains(t, diag.String(), "no summary line")
}

// The table from a real run, from which it can be printed again.
func TestTableRunsEveryRowAndRecordsIt(t *testing.T) {
	path := filepath.Join(t.TempDir(), "run.jsonl")
	var out, diag bytes.Buffer
	args := []string{"-table", "-json", path, "-size", "512KiB", "-n", "20", "-hb-interval", "1ms", "-settle", "0", "-verify-every", "1",
		"-run", "upload,download,echo,latency,rps,items,tokens,frames,itemsup",
		"-bin", "null=" + nullcartridge, "-bin", "ours=" + nullcartridge + ",skip=items"}
	require.Zero(t, run(args, &out, &diag), diag.String())
	for _, r := range rows {
		switch r.name {
		case "open", "heartbeat", "stall":
			assert.NotContains(t, out.String(), r.title)
		default:
			assert.Contains(t, out.String(), "| "+r.title+" | ")
		}
	}
	var again bytes.Buffer
	require.Zero(t, run([]string{"-tabulate", path}, &again, &diag), diag.String())
	require.Equal(t, out.String(), again.String())
}

func TestSummaryComparesWithTheFirstTarget(t *testing.T) {
	metrics := []string{"mb_per_s", "-p50_us"}
	null := summarize("x", "null", metrics, []result{{"mb_per_s": 100.0, "p50_us": 10.0, "cart_cpu_us_per_unit": 1.0}})
	ours := summarize("x", "ours", metrics, []result{
		{"mb_per_s": 80.0, "p50_us": 20.0, "cart_cpu_us_per_unit": 4.0, "noisy": true, "unit": "MB"},
		{"mb_per_s": 40.0, "p50_us": 60.0, "cart_cpu_us_per_unit": 4.0, "noisy": false, "unit": "MB"}})
	ours.compare(&null, metrics)
	require.Equal(t, summary{Job: "x", Bin: "ours", Runs: 2, Noisy: 1, Unit: "MB", CPU: &spread{4, 4, 4},
		Metrics: map[string]*spread{"mb_per_s": {60, 40, 80}, "p50_us": {40, 20, 60}},
		BetterX: map[string]float64{"mb_per_s": 0.6, "p50_us": 0.25, "cart_cpu_us_per_unit": 0.25}}, ours)
}

func TestOptionsAreChecked(t *testing.T) {
	for name, args := range map[string][]string{
		"no target":            {},
		"an argument":          {"-bin", "x", "y"},
		"an unknown workload":  {"-bin", "x", "-run", "nothing"},
		"an unknown skip":      {"-bin", "x,skip=nothing"},
		"an unknown option":    {"-bin", "x,what=1"},
		"a bad chunk":          {"-bin", "x", "-chunk", "-4"},
		"a bad size":           {"-bin", "x", "-size", "many"},
		"a table of one":       {"-bin", "x", "-table"},
		"a mapping without =":  {"-bin", "x", "-caps", "sink"},
		"an empty read buffer": {"-bin", "x", "-read-buffer", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, diag bytes.Buffer
			require.Equal(t, 2, run(args, &out, &diag))
			require.NotEmpty(t, diag.String())
			require.Empty(t, out.String())
		})
	}
}
