//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// nullcartridge is the built null cartridge.
var nullcartridge string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "wiredriver")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	nullcartridge = filepath.Join(dir, "nullcartridge")
	if out, err := exec.Command("go", "build", "-o", nullcartridge, "./nullcartridge").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build the null cartridge: %v\n%s", err, out)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}
