package frame

import (
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEndMetaSaysWhatItIsGiven(t *testing.T) {
	for _, c := range []struct {
		progress float64
		message  string
	}{{1, ""}, {1, "done"}, {0.5, ""}, {0.25, "half of a half"}} {
		var got struct {
			Code     *int64  `cbor:"exit_code"`
			Progress float64 `cbor:"progress"`
			Message  string  `cbor:"message"`
		}
		require.NoError(t, cbor.Unmarshal(EndMeta(c.progress, c.message), &got))
		require.NotNil(t, got.Code)
		assert.Zero(t, *got.Code)
		assert.Equal(t, c.progress, got.Progress)
		assert.Equal(t, c.message, got.Message)
	}
	assert.Zero(t, testing.AllocsPerRun(100, func() { EndMeta(1, "") }), "the usual END costs nothing")
}
