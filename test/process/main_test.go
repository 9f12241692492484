package process

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// programs are the programs under test, and this test binary without the race detector.
var programs peer.Programs

func TestMain(m *testing.M) {
	if os.Getenv(hostVariable) != "" {
		beHost() // ends the process
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if err := programs.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = max(status, 1)
		}
		os.Exit(status)
	}))
}

// needsProcess skips under -short.
func needsProcess(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
}

func probePath(t testing.TB) string     { t.Helper(); return programs.Path(t, "test/probecartridge") }
func stuntPath(t testing.TB) string     { t.Helper(); return programs.Path(t, "test/process/stunt") }
func referencePath(t testing.TB) string { t.Helper(); return programs.Path(t, "cmd/pipe-cartridge") }

const mediaText = "media:enc=utf-8"

// stunt is the URN of a handler of the stunt cartridge.
func stunt(name string) string {
	return fmt.Sprintf(`cap:in=%q;out=%q;stunt-%s`, mediaText, mediaText, name)
}

// The capabilities of the probe cartridge that are used here.
const (
	capEcho   = `cap:in="media:";out="media:";echo`
	capSource = `cap:in="media:enc=utf-8";out="media:";source`
	capSpin   = `cap:in="media:enc=utf-8";out="media:enc=utf-8";spin`
	capHold   = `cap:in="media:enc=utf-8";out="media:enc=utf-8";hold`
	capFeed   = `cap:feed;in="media:feed-frames";out="media:feed-frames"`
	capStall  = `cap:in="media:enc=utf-8";out="media:enc=utf-8";stall`
)

// live starts a program and brings its link to life.
func live(t testing.TB, path string, opts ...peer.Option) *peer.Process {
	t.Helper()
	p := peer.Start(t, path, opts...)
	p.Live()
	return p
}
