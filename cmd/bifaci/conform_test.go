package main

import (
	"encoding/json"
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/cmd/bifaci/internal/conform"
)

// conformed runs conform on this binary as a cartridge of a role, with a few checks only.
func conformed(t *testing.T, role string, words ...string) (status int, stdout, stderr string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
	t.Setenv(roleVariable, role)
	t.Setenv("GORACE", "atexit_sleep_ms=0")
	return dispatched(t.Context(), strings.NewReader(""), append([]string{"conform", os.Args[0]}, words...)...)
}

func TestConformReports(t *testing.T) {
	few := []string{"--check", "end-idle", "--check", "peer-call", "--timeout", "1m"}
	status, out, errs := conformed(t, "on", few...)
	assert.Equal(t, statusOK, status, errs)
	assert.Contains(t, out, "unchecked  peer-call")
	assert.Contains(t, out, "1 passed, 0 failed, 1 unchecked: role 1.0.0")
	assert.NotContains(t, out, "end-idle")
	_, out, _ = conformed(t, "on", append(few, "-v")...)
	assert.Contains(t, out, "pass       end-idle")

	status, out, errs = conformed(t, "on", append(few, "--json")...)
	assert.Equal(t, statusOK, status, errs)
	var report conform.Report
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.Equal(t, []any{"role", 2}, []any{report.Name, len(report.Results)})

	status, out, errs = conformed(t, "on", append(few, "--junit")...)
	assert.Equal(t, statusOK, status, errs)
	var suite struct {
		Tests int `xml:"tests,attr"`
	}
	require.NoError(t, xml.Unmarshal([]byte(out), &suite))
	assert.Equal(t, 2, suite.Tests)
}

func TestConformFails(t *testing.T) {
	status, out, _ := conformed(t, "crash", "--check", "hello-first", "--check", "end-idle")
	assert.Equal(t, statusFailed, status)
	assert.Contains(t, out, "FAIL       becomes-live")
	assert.Contains(t, out, "0 passed, 1 failed, 2 unchecked")
	assert.Contains(t, out, "no licence")
}

func TestConformTakesRolesFromAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "caps")
	require.NoError(t, os.WriteFile(file, []byte("sink="+roleURN("show")+"\n"), 0o600))
	status, out, _ := conformed(t, "on", "--caps", file, "--check", "sink-counts", "--timeout", "1m")
	assert.Equal(t, statusFailed, status, "show counts nothing")
	assert.Contains(t, out, "FAIL       sink-counts")
	require.NoError(t, os.WriteFile(file, []byte("nonsense\n"), 0o600))
	status, _, errs := conformed(t, "on", "--caps", file)
	assert.Equal(t, statusUsage, status)
	assert.Contains(t, errs, "line 1")
}

func TestConformUsage(t *testing.T) {
	for name, words := range map[string][]string{
		"no cartridge": {}, "two": {"a", "b"}, "an unknown flag": {"a", "--fly"}, "two formats": {"a", "--json", "--junit"},
		"no jobs": {"a", "--jobs", "0"},
		"no file": {"a", "--caps", filepath.Join(t.TempDir(), "none")},
	} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := dispatched(t.Context(), strings.NewReader(""), append([]string{"conform"}, words...)...)
			assert.Equal(t, statusUsage, status)
			assert.Empty(t, out)
			assert.NotEmpty(t, errs)
		})
	}
	status, _, errs := dispatched(t.Context(), strings.NewReader(""), "conform", filepath.Join(t.TempDir(), "none"))
	assert.Equal(t, statusFailed, status)
	assert.Contains(t, errs, "none")
	status, out, _ := dispatched(t.Context(), strings.NewReader(""), "conform", "--list")
	assert.Equal(t, statusOK, status)
	assert.Len(t, strings.Split(strings.TrimSpace(out), "\n"), len(conform.Checks()))
	status, _, errs = dispatched(t.Context(), strings.NewReader(""), "conform", "--help")
	assert.Equal(t, statusOK, status)
	assert.Contains(t, errs, "roles: ")
}
