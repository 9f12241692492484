//go:build unix

package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/test/peer"
)

func TestF8_NobodyReadsTheFrames(t *testing.T) {
	needsProcess(t)
	t.Run("R-2.22 R-2.33 R-2.36 handlers end with the write error and clean up", func(t *testing.T) {
		const streams = 8
		marker := filepath.Join(t.TempDir(), "marker")
		p := live(t, stuntPath(t), peer.WithEnv("STUNT_MARKER="+marker))
		pouring := make([]*peer.Request, streams)
		for i := range pouring {
			pouring[i] = p.Request(stunt("pour"))
		}
		for _, r := range pouring {
			r.AwaitChunks(10)
		}
		p.CloseOutput()
		p.WantExit(1) // a process that SIGPIPE has ended has no status of its own
		assert.Contains(t, p.Stderr(), "the frame output failed")
		lines, err := os.ReadFile(marker)
		require.NoError(t, err)
		cleaned := strings.Split(strings.TrimSpace(string(lines)), "\n")
		assert.Len(t, cleaned, streams)
		for _, line := range cleaned {
			assert.Contains(t, line, "cleaned up: bifaci: the frame output failed")
			assert.Contains(t, line, "broken pipe")
		}
	})
}
