//go:build linux

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func testConfig(policy bool) sessionConfig {
	return sessionConfig{Path: nullcartridge, Version: 6, Policy: policy, XID: policy, Limits: limits{3_670_016, 65_536, 64, 32},
		VerifyEvery: 1, ReadBuffer: 1 << 16, Timeout: time.Minute}
}

// Every workload, with and without checksums, policy and routing ids.
func TestNullCartridgeRunsEveryWorkload(t *testing.T) {
	for i, verify := range []string{"0", "1", "4"} {
		t.Setenv("NULL_VERIFY", verify)
		for name, w := range workloads {
			if name == "stall" {
				continue // the null cartridge's echo ignores credit
			}
			if verify != "1" && !w.chunked {
				continue // the same as with 1
			}
			t.Run("NULL_VERIFY="+verify+"/"+name, func(t *testing.T) {
				p := params{Size: 1<<20 + 12_345, Chunk: 65_536, Conc: 50, N: 100, Parallel: 3, Small: 64, HBLoad: "none",
					HBBusy: 2, Interval: time.Millisecond, Timeout: time.Minute, Caps: defaultCaps()}
				r := result{}
				require.NoError(t, measure(testConfig(i != 1), w, p, r), "%v", r)
				for _, m := range w.metrics {
					m = strings.TrimPrefix(m, "-")
					v, ok := toFloat(r[m])
					assert.True(t, ok, "metric %s is %v", m, r[m])
					if m != "kb_per_request" { // may be nothing when little memory is needed
						assert.Positive(t, v, m)
					}
				}
			})
		}
	}
}

func TestFailuresAreReported(t *testing.T) {
	p := params{Size: 1 << 20, Chunk: 65_536, Parallel: 1, Timeout: time.Minute, Caps: defaultCaps()}
	t.Run("an unknown cap", func(t *testing.T) {
		p := p
		p.Caps = map[string]string{"sink": "cap:nothing"}
		require.ErrorContains(t, measure(testConfig(true), workloads["upload"], p, result{}), "NO_HANDLER")
	})
	t.Run("a program that is no cartridge", func(t *testing.T) {
		cfg := testConfig(true)
		cfg.Path = "/bin/true"
		require.ErrorContains(t, measure(cfg, workloads["upload"], p, result{}), "handshake")
	})
	t.Run("a program that does not exist", func(t *testing.T) {
		cfg := testConfig(true)
		cfg.Path = "/nonexistent"
		require.ErrorContains(t, measure(cfg, workloads["upload"], p, result{}), "nonexistent")
	})
	t.Run("a program that writes no frames", func(t *testing.T) {
		cfg := testConfig(true)
		cfg.Path = "/usr/bin/yes"
		require.ErrorContains(t, measure(cfg, workloads["upload"], p, result{}), "hard limit")
	})
	t.Run("a program that neither reads nor writes", func(t *testing.T) {
		cfg := testConfig(true)
		cfg.Timeout = 100 * time.Millisecond
		cfg.Path = filepath.Join(t.TempDir(), "mute")
		require.NoError(t, os.WriteFile(cfg.Path, []byte("#!/bin/sh\nexec sleep 3600\n"), 0o700))
		require.ErrorContains(t, measure(cfg, workloads["upload"], p, result{}), "HANG")
	})
}
