package hostile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// programs are the cartridges under test.
var programs peer.Programs

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(status int) {
		if err := programs.Remove(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			status = max(status, 1)
		}
		os.Exit(status)
	}))
}

func needsProcess(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts processes")
	}
}

func probePath(t testing.TB) string { t.Helper(); return programs.Path(t, "test/probecartridge") }
func stuntPath(t testing.TB) string { t.Helper(); return programs.Path(t, "test/process/stunt") }

const (
	mediaText = "media:enc=utf-8"
	capEcho   = `cap:in="media:";out="media:";echo`
	capSink   = `cap:in="media:";out="media:enc=utf-8";sink`
	capStall  = `cap:in="media:enc=utf-8";out="media:enc=utf-8";stall`
	capDeaf   = `cap:in="media:enc=utf-8";out="media:enc=utf-8";stunt-deaf`
	capSettle = `cap:in="media:enc=utf-8";out="media:enc=utf-8";stunt-settle`
	capWaits  = `cap:in="media:enc=utf-8";out="media:enc=utf-8";stunt-stall`
)

// wantRefusal waits for the process to end over what it was sent: its output ends with a whole frame, its status is 1, and standard
// error names the place. It never panics.
func wantRefusal(t *testing.T, p *peer.Process, place string) {
	t.Helper()
	if err := p.AwaitEnd(); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("the output ends with %v, want whole frames", err)
	}
	p.WantExit(1)
	assert.Contains(t, p.Stderr(), place)
	assert.False(t, strings.Contains(p.Stderr(), "goroutine "), "a panic: %s", p.Stderr())
}
