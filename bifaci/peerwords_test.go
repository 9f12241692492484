package bifaci_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// The handler is told of the cancel and returns at once: whoever is quicker, its peer call is cancelled with the reason's own words.
func TestPeerCallsAreCancelledWithTheReason(t *testing.T) {
	const capOwn, capPeer = `cap:in="media:void";calls;out="media:"`, "cap:effect=none"
	t.Run("R-7.40 one CANCEL with the same code, class and message", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgetest.Serving(t, capOwn, func(ctx context.Context, r *bifaci.Request) error {
			if _, err := r.Peer().Call(ctx, capPeer); err != nil {
				return err
			}
			<-ctx.Done()
			return context.Cause(ctx)
		}))
		for range 200 {
			req := h.Request(capOwn).End()
			call := h.WantPeerCall(capPeer)
			req.Cancel(failure.UserCancel())
			require.Equal(t, failure.UserCancel(), call.WantCancel())
			req.WantErr(failure.Cancelled, failure.User)
		}
		h.WantIdle()
	})
}
