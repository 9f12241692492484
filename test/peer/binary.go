package peer

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
)

// Build builds a package of this module into dir, without the race detector, and returns the program's path.
func Build(dir, pkg string) (string, error) {
	path := filepath.Join(dir, filepath.Base(pkg))
	if runtime.GOOS == "windows" {
		path += ".exe"
	}
	if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
		return "", fmt.Errorf("go build %s: %w\n%s", pkg, err, out)
	}
	return path, nil
}
