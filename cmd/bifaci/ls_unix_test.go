//go:build unix

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// installed writes an install whose program is a script, and returns its folder.
func installed(t *testing.T, root, name, script string) string {
	t.Helper()
	dir := filepath.Join(root, "dev", "v2", "release", name, "1.0.0")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	record := `{"name":"` + name + `","version":"1.0.0","channel":"release","registry_url":null,"entry":"run","installed_at":"2026-04-12T10:00:00Z"}`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cartridge.json"), []byte(record), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run"), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	return dir
}

func TestLs(t *testing.T) {
	root := t.TempDir()
	bad := installed(t, root, "bad", "exit 3")
	// The cartridge's manifest says nightly, as one does by default, so this install is of no use although it answers.
	other := installed(t, root, "other", `exec "`+self(t)+`"`)
	status, out, errs := dispatched(t.Context(), untouched{t}, "ls", root)
	require.Equal(t, statusOK, status, errs)
	assert.Regexp(t, `^bad 1\.0\.0: handshake_failed: .*exit status 3.*\n  `+bad+`\nother 1\.0\.0: bad_installation: .*"nightly".*\n  `+other+`\n$`, out)

	status, out, errs = dispatched(t.Context(), untouched{t}, "ls", "--json", root)
	require.Equal(t, statusOK, status, errs)
	var got []struct {
		ID, Version, Dir, Path, SHA256 string
		Caps                           []string
		Error                          struct{ Kind string } `json:"attachment_error"`
	}
	require.NoError(t, json.Unmarshal([]byte(out), &got))
	require.Len(t, got, 2)
	assert.Equal(t, []string{"bad", "1.0.0", bad, "handshake_failed"}, []string{got[0].ID, got[0].Version, got[0].Dir, got[0].Error.Kind})
	assert.Empty(t, got[0].Caps)
	assert.Contains(t, got[1].Caps, "cap:effect=none")

	status, out, errs = dispatched(t.Context(), untouched{t}, "ls", "--channel", "nightly", root)
	assert.Equal(t, statusOK, status, errs)
	assert.Empty(t, out)
}

func TestLsTellsWhatIsAttachable(t *testing.T) {
	root := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(root, "dev", "v2", "nightly"), 0o700))
	installed(t, root, "good", `exec "`+self(t)+`"`)
	require.NoError(t, os.Rename(filepath.Join(root, "dev", "v2", "release", "good"), filepath.Join(root, "dev", "v2", "nightly", "good")))
	dir := filepath.Join(root, "dev", "v2", "nightly", "good", "1.0.0")
	record, err := os.ReadFile(filepath.Join(dir, "cartridge.json"))
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "cartridge.json"), []byte(strings.Replace(string(record), "release", "nightly", 1)), 0o600))
	status, out, errs := dispatched(t.Context(), untouched{t}, "ls", root, "--channel", "nightly")
	assert.Equal(t, statusOK, status, errs)
	assert.Equal(t, "good 1.0.0: attachable\n  "+dir+"\n", out)
}

func TestLsRefuses(t *testing.T) {
	for name, words := range map[string][]string{"no root": nil, "two roots": {"a", "b"}, "an unknown channel": {"--channel", "beta", "a"}} {
		t.Run(name, func(t *testing.T) {
			status, out, errs := dispatched(t.Context(), untouched{t}, append([]string{"ls"}, words...)...)
			assert.Equal(t, statusUsage, status)
			assert.Empty(t, out)
			assert.Contains(t, errs, "usage: bifaci ls")
		})
	}
	t.Run("a root that is not there holds nothing", func(t *testing.T) {
		status, out, errs := dispatched(t.Context(), untouched{t}, "ls", "--json", filepath.Join(t.TempDir(), "nowhere"))
		assert.Equal(t, statusOK, status, errs)
		assert.Equal(t, "[]\n", out)
	})
}
