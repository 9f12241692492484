package peer

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
)

// Build builds a package into dir, without the race detector, and returns the program's path.
func Build(dir, pkg string) (string, error) { return build(dir, path.Base(pkg), "build", pkg) }

func build(dir, name, verb, pkg string, more ...string) (string, error) {
	file := filepath.Join(dir, name)
	if runtime.GOOS == "windows" {
		file += ".exe"
	}
	args := append(append([]string{verb, "-race=false", "-o", file}, more...), pkg)
	if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go %v: %w\n%s", args, err, out)
	}
	return file, nil
}

// Programs builds programs of this module, without the race detector, each when it is first asked for. The zero value is ready.
// Safe for concurrent use.
type Programs struct {
	mu    sync.Mutex
	dir   string
	paths map[string]string
}

// Path is where the program of a package is, built by now. pkg is the package's path within the module.
func (ps *Programs) Path(t testing.TB, pkg string) string {
	t.Helper()
	return ps.build(t, path.Base(pkg), "build", "github.com/pipe-cartridge/pipe/"+pkg)
}

// TestBinary is where the test binary of the package in the working directory is, built by now.
func (ps *Programs) TestBinary(t testing.TB) string {
	t.Helper()
	return ps.build(t, "plain.test", "test", ".", "-c")
}

func (ps *Programs) build(t testing.TB, name, verb, pkg string, more ...string) string {
	t.Helper()
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.paths[name] != "" {
		return ps.paths[name]
	}
	if ps.dir == "" {
		dir, err := os.MkdirTemp("", "programs")
		if err != nil {
			t.Fatalf("peer: %v", err)
		}
		ps.dir, ps.paths = dir, map[string]string{}
	}
	file, err := build(ps.dir, name, verb, pkg, more...)
	if err != nil {
		t.Fatalf("peer: %v", err)
	}
	ps.paths[name] = file
	return file
}

// Remove deletes the programs.
func (ps *Programs) Remove() error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if ps.dir == "" {
		return nil
	}
	if err := os.RemoveAll(ps.dir); err != nil {
		return fmt.Errorf("removing the programs under test: %w", err)
	}
	return nil
}
