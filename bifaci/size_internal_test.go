package bifaci

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
)

// What a request allocates at once is in a size class of the runtime; a field too many costs every request the next one.
func TestRequestFitsItsSizeClass(t *testing.T) {
	const class = 1152 // bytes
	assert.LessOrEqual(t, unsafe.Sizeof(wireRequest{}), uintptr(class))
}
