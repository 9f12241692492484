package bifaci_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
)

func TestEndMessage(t *testing.T) {
	t.Run("R-6.46 R-6.92 a message that does not fit into a frame is cut, and the request still ends", func(t *testing.T) {
		limits := frame.DefaultLimits()
		limits.MaxFrame = 2000
		req := emitting(t, limits, func(_ context.Context, o *bifaci.OutputStream) error {
			o.Finish(0.5, strings.Repeat("€", 3000))
			return nil
		})
		meta := req.WantEnd()
		message, ok := meta["message"].(string)
		require.True(t, ok)
		assert.Greater(t, len(message), 1600)
		assert.True(t, strings.HasSuffix(message, "(cut)"), message)
		assert.True(t, strings.HasPrefix(message, "€€€"))
		assert.Equal(t, 0.5, meta["progress"])
	})
	t.Run("R-6.46 a message that is not UTF-8 does not break the link", func(t *testing.T) {
		req := emitting(t, frame.DefaultLimits(), func(_ context.Context, o *bifaci.OutputStream) error {
			o.Finish(1, "half a character: \xe2\x82")
			return nil
		})
		message, ok := req.WantEnd()["message"].(string)
		require.True(t, ok)
		assert.True(t, strings.HasPrefix(message, "half a character: "))
	})
}
