package bifaci

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

func TestArriveWhileTheLinkEnds(t *testing.T) {
	t.Run("R-2.30 R-2.34 a REQ that meets the end between its checks and the table is refused, not forgotten there", func(t *testing.T) {
		c := MustNew(manifest.New("late", "1.0.0", "arrives late", manifest.DefaultGroup(manifest.IdentityCap())))
		l, err := c.newLink(t.Context(), new(bytes.Buffer), new(bytes.Buffer))
		require.NoError(t, err)
		var f frame.Frame
		f.Reset(frame.TypeReq, frame.UintID(1))
		f.Cap = []byte(urn.Identity)
		f.Has = f.Has.With(frame.KeyCap)
		rt, refusal := l.resolve(&f)
		require.Nil(t, refusal)
		l.drain(failure.New(failure.Aborted, failure.Environment, "stopping"))
		got := l.arrive(&f, rt)
		require.NotNil(t, got)
		assert.Equal(t, failure.Aborted, got.Code)
		assert.Empty(t, l.requests)
		assert.Zero(t, l.active)
		assert.Empty(t, l.arrived)
	})
}
