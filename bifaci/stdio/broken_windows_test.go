package stdio

import (
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
)

func assertBrokenPipe(t *testing.T, err error) {
	t.Helper()
	const errorNoData = syscall.Errno(232) // "the pipe is being closed"
	assert.ErrorIs(t, err, errorNoData)
}
