package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const manifestVectors = "../../test/vectors/manifests"

func runManifestOn(stdin string, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = runManifest(context.Background(), args, streams{strings.NewReader(stdin), &out, &errs})
	return status, out.String(), errs.String()
}

func TestManifestJudgesEveryVector(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(manifestVectors, "index.json"))
	require.NoError(t, err)
	var rows []struct {
		File  string
		Valid bool
		Caps  int
		Code  string
	}
	require.NoError(t, json.Unmarshal(text, &rows))
	require.Len(t, rows, 83)
	for _, row := range rows {
		t.Run(row.File, func(t *testing.T) {
			path := filepath.Join(manifestVectors, row.File)
			status, out, _ := runManifestOn("", path)
			require.Equal(t, 1, strings.Count(out, "\n"), out)
			if row.Valid {
				assert.Equal(t, statusOK, status)
				assert.Regexp(t, fmt.Sprintf(`^%s: ok: \S+ 1\.0\.0, %d caps\n$`, regexp.QuoteMeta(path), row.Caps), out)
				return
			}
			assert.Equal(t, statusFailed, status)
			assert.True(t, strings.HasPrefix(out, path+": "+row.Code+": "), out)
		})
	}
}

func TestManifestAcceptsWhatACartridgePrints(t *testing.T) {
	text, err := manifest.New("echo", "2.1.0", "Gives back", manifest.DefaultGroup(manifest.IdentityCap())).IndentedJSON()
	require.NoError(t, err)
	status, out, errs := runManifestOn(string(text), "-")
	assert.Equal(t, statusOK, status)
	assert.Equal(t, "-: ok: echo 2.1.0, 1 caps\n", out)
	assert.Empty(t, errs)
}

func TestManifestLines(t *testing.T) {
	t.Run("one line per fault, and the other files are still checked", func(t *testing.T) {
		bad := `{"name":"a","version":"1","description":"","cap_groups":[{"name":"g","caps":[],"adapter_urns":["x"]}]}`
		status, out, _ := runManifestOn(bad, "-", filepath.Join(manifestVectors, "valid-01-minimal.json"))
		assert.Equal(t, statusFailed, status)
		lines := strings.Split(strings.TrimSpace(out), "\n")
		require.Len(t, lines, 3)
		assert.Regexp(t, "^-: MEDIA: group g: ", lines[0])
		assert.Regexp(t, "^-: IDENTITY: ", lines[1])
		assert.Regexp(t, "valid-01-minimal.json: ok: ", lines[2])
	})
	t.Run("a shared slug is a warning", func(t *testing.T) {
		file := filepath.Join(manifestVectors, "valid-13-two-stdin-same-urn.json")
		status, out, errs := runManifestOn("", file)
		assert.Equal(t, statusOK, status)
		assert.Contains(t, out, ": ok: ")
		assert.Regexp(t, `^\S+: warning: cap:\S+: "identity" is the sub-command of cap:effect=none already\n$`, errs)
	})
	t.Run("control characters of a file stay out of the lines", func(t *testing.T) {
		forged := `{"name":"a\nx: ok: b","version":"1\u001b[2J","description":"","cap_groups":[{"name":"g","caps":[
			{"urn":"cap:effect=none","title":"","slug":"identity"}]}]}`
		status, out, _ := runManifestOn(forged, "-")
		assert.Equal(t, statusOK, status)
		assert.Equal(t, "-: ok: a x: ok: b 1 [2J, 1 caps\n", out)
	})
	t.Run("a file that cannot be read", func(t *testing.T) {
		name := filepath.Join(t.TempDir(), "absent")
		status, out, _ := runManifestOn("", name)
		assert.Equal(t, statusFailed, status)
		assert.Equal(t, 1, strings.Count(out, name), out)
		assert.Regexp(t, ": READ: .", out)
	})
	t.Run("longer than a frame", func(t *testing.T) {
		status, out, _ := runManifestOn(strings.Repeat(" ", frame.MaxBody+1), "-")
		assert.Equal(t, statusFailed, status)
		assert.Regexp(t, "^-: READ: longer than [0-9]+ bytes", out)
	})
}

func TestManifestUsage(t *testing.T) {
	for _, args := range [][]string{{}, {""}, {"-x"}, {"a.json", "--strict"}} {
		status, out, errs := runManifestOn("", args...)
		assert.Equal(t, statusUsage, status, args)
		assert.Empty(t, out)
		assert.Contains(t, errs, "usage: bifaci manifest FILE…")
	}
	status, out, _ := runManifestOn("", "--help")
	assert.Equal(t, statusOK, status)
	assert.Contains(t, out, "usage: bifaci manifest FILE…")
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errors.New("nobody reads") }

func TestManifestStdoutBroken(t *testing.T) {
	var errs bytes.Buffer
	args := []string{filepath.Join(manifestVectors, "valid-01-minimal.json")}
	assert.Equal(t, statusFailed, runManifest(context.Background(), args, streams{nil, brokenWriter{}, &errs}))
	assert.Contains(t, errs.String(), "nobody reads")
}

// cancelingReader ends the context as soon as somebody reads, and gives nothing until it is released.
type cancelingReader struct {
	cancel  context.CancelFunc
	release chan struct{} // closed by the test
}

func (r cancelingReader) Read([]byte) (int, error) {
	r.cancel()
	<-r.release
	return 0, io.EOF
}

func TestManifestStopsWhileStdinIsSilent(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	in := cancelingReader{cancel, make(chan struct{})}
	defer close(in.release)
	assert.Equal(t, statusFailed, runManifest(ctx, []string{"-"}, streams{in, io.Discard, io.Discard}))
}
