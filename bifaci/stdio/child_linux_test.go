package stdio

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestOrphans(t *testing.T) {
	t.Run("F6 what a child leaves behind ends with it", func(t *testing.T) {
		child := spawnSelf(t, "orphans")
		state, err := child.Wait()
		require.NoError(t, err)
		assert.Equal(t, "exit status 0", state.String())
		_ = readText(t, child.Stdout) // ends only when the grandchild does
		_ = readText(t, child.Stderr)
	})
}
