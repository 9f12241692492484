//go:build unix

package stdio

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

func assertBrokenPipe(t *testing.T, err error) {
	t.Helper()
	assert.ErrorIs(t, err, syscall.EPIPE)
}
