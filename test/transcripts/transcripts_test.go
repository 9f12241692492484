package transcripts

import (
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

// judgesHost are the transcripts that only a host can fail.
func judgesHost(name string) bool { return name == "handshake-with-interleaved-control" }

func TestTranscripts(t *testing.T) {
	if testing.Short() {
		t.Skip("starts processes")
	}
	all, err := load()
	require.NoError(t, err)
	known := scripts()
	for _, tr := range all {
		if judgesHost(tr.Name) {
			continue
		}
		s, ok := known[tr.Name]
		require.True(t, ok, "%s has no script", tr.Name)
		delete(known, tr.Name)
		t.Run(tr.Name+" "+s.rules, func(t *testing.T) { newReplay(t, tr).run(tr.Frames) })
	}
	assert.Empty(t, known, "scripts of no transcript")
}

// newReplay starts the scripted cartridge and brings the link to where the transcript begins.
func newReplay(t testing.TB, tr *transcript, opts ...peer.Option) *replay {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	p := peer.Start(t, self, append(opts, peer.WithEnv(scriptVariable+"="+tr.Name), peer.WithLimits(tr.limits()))...)
	if !strings.HasPrefix(tr.Name, "handshake") {
		p.Hello()
		p.Identity()
		if tr.Name != "request-before-policy" {
			p.Policy("online", true)
		}
	}
	return &replay{t: t, p: p, streams: map[string]string{}, ids: map[string]any{}, cancelled: map[string]bool{},
		granted: map[string]uint64{}}
}

// trial is a testing.TB that keeps to itself whether it failed.
type trial struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	cleanups []func()
}

func (tr *trial) Helper() {}

func (tr *trial) Errorf(format string, args ...any) {
	tr.mu.Lock()
	tr.failed = true
	tr.mu.Unlock()
	tr.Logf("as expected: "+format, args...)
}

func (tr *trial) Fatalf(format string, args ...any) { tr.Errorf(format, args...); runtime.Goexit() }

func (tr *trial) FailNow() { tr.Fatalf("at once") }

func (tr *trial) Cleanup(f func()) { tr.cleanups = append(tr.cleanups, f) }

// passes runs what may fail and reports whether it did not.
func passes(t *testing.T, f func(t testing.TB)) bool {
	t.Helper()
	tr := &trial{TB: t}
	done := make(chan struct{})
	go func() { // waited for below
		defer close(done)
		defer func() {
			for i := len(tr.cleanups) - 1; i >= 0; i-- {
				tr.cleanups[i]()
			}
		}()
		f(tr)
	}()
	<-done
	return !tr.failed
}
