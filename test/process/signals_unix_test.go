//go:build unix

package process

import (
	"errors"
	"io"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/pipe-cartridge/pipe/test/peer"
)

func TestF5_AnIdleProcessHearsSignals(t *testing.T) {
	needsProcess(t)
	for name, signal := range map[string]os.Signal{"SIGTERM": syscall.SIGTERM, "SIGINT": os.Interrupt} {
		t.Run("R-2.34 R-2.36 "+name, func(t *testing.T) {
			p := live(t, probePath(t))
			p.Probe("") // idle again: the answer was the last thing it did
			p.Signal(signal)
			assert.Equal(t, 1, p.AwaitExitWithin(time.Second))
			assert.Contains(t, p.Stderr(), "signal: ")
		})
		t.Run("R-2.34 before the handshake "+name, func(t *testing.T) {
			p := peer.Start(t, stuntPath(t))
			// Nothing tells when the program has come to its read, so the signal may be early and end it in the ordinary way.
			p.Signal(signal)
			assert.NotEqual(t, 0, p.AwaitExitWithin(time.Second))
		})
	}
}

func TestASignalEndsWhatRuns(t *testing.T) {
	needsProcess(t)
	t.Run("R-2.34 R-2.37 every request ends with ABORTED and the last frame is whole", func(t *testing.T) {
		p := live(t, stuntPath(t))
		p.Probe(`{"all":2}`)
		pouring, stalled := p.Request(stunt("pour")), p.Request(stunt("stall"))
		pouring.AwaitChunks(100)
		waiting := p.Request(stunt("wait"))
		p.AwaitPool("all", "one in line", func(pool peer.Pool) bool { return pool.Queued == 1 })
		p.Signal(syscall.SIGTERM)
		for _, r := range []*peer.Request{pouring, stalled, waiting} {
			r.WantErr("ABORTED", "environment")
		}
		if err := p.AwaitEnd(); !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("the output ends with %v, want whole frames", err)
		}
		p.WantExit(1)
	})
	t.Run("R-2.35 a handler that ignores it costs the grace twice and its own terminal", func(t *testing.T) {
		p := live(t, stuntPath(t), peer.WithEnv("STUNT_GRACE=100ms"))
		deaf := p.Request(stunt("deaf"))
		p.AwaitPool("all", "one active", func(pool peer.Pool) bool { return pool.Active == 1 })
		p.CloseInput()
		p.WantExit(1)
		assert.Nil(t, deaf.TerminalWithin(0))
		assert.Contains(t, p.Stderr(), "still run")
	})
}
