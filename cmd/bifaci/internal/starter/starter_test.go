package starter

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPublishedVersionNeedsNoCheckout(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "a")
	require.NoError(t, Project{Name: "a", Module: "example.com/x/a", Version: "v1.2.3"}.Write(folder))
	mod, err := os.ReadFile(filepath.Join(folder, "go.mod"))
	require.NoError(t, err)
	assert.Equal(t, "module example.com/x/a\n\ngo 1.26\n\nrequire github.com/pipe-cartridge/pipe v1.2.3\n", string(mod))
	assert.NoFileExists(t, filepath.Join(folder, "go.sum"), "the Makefile makes it")
}

func TestReadModule(t *testing.T) {
	got := readModule("module github.com/a/b // ours\n\ngo 1.27\n\nrequire x.y/z v1.0.0\nrequire (\n\tq.r/s v2.0.0\n\tt.u/v v0.1.0 // indirect\n)\n\nreplace x => y\n")
	assert.Equal(t, module{"github.com/a/b", "1.27", []string{"x.y/z v1.0.0", "q.r/s v2.0.0", "t.u/v v0.1.0"}}, got)
}

func TestQuotedPaths(t *testing.T) {
	for path, want := range map[string]string{"/a/b-c.d": "/a/b-c.d", "/a b": `"/a b"`, `C:\a`: `"C:\\a"`, "/a(1)": `"/a(1)"`} {
		assert.Equal(t, want, quoted(path))
	}
}
