package bifaci

import (
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestMemorySampler(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("memory is told apart on Linux only")
	}
	t.Run("R-4.4 memory is sampled at most once a second", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			var m memorySampler
			_, before, ok := m.sample()
			require.True(t, ok)
			ballast := make([]byte, 64<<20)
			for i := range ballast {
				ballast[i] = 1
			}
			time.Sleep(time.Second - 1)
			_, again, _ := m.sample()
			assert.Equal(t, before, again, "within a second the old figure is good enough")
			time.Sleep(time.Nanosecond)
			_, after, _ := m.sample()
			assert.Greater(t, after, before+32)
			runtime.KeepAlive(ballast)
		})
	})
}
