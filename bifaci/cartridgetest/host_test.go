package cartridgetest

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

const capEcho = `cap:in="media:enc=utf-8";out="media:enc=utf-8";repeat`

// echo sends every piece of every stream back as it comes.
func echo(ctx context.Context, r *bifaci.Request) error {
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	for s, err := range input.All(ctx) {
		if err != nil {
			return err
		}
		for p, err := range s.Pieces(ctx) {
			if err != nil {
				return err
			}
			if err := r.Output().Forward(ctx, p); err != nil {
				return err
			}
		}
	}
	return nil
}

func dialogueOf(t *testing.T) {
	h := Start(t, Serving(t, capEcho, echo))
	req := h.Request(capEcho)
	req.Chunk("a").Chunk("b").End()
	req.WantItems("a", "b")
	req.WantEnd()
	h.WantIdle()
	h.CloseInput()
	require.NoError(t, h.Wait())
	h.WantIdle()
}

func TestDialogue(t *testing.T) {
	t.Run("real time", dialogueOf)
	t.Run("virtual time", func(t *testing.T) { synctest.Test(t, dialogueOf) })
}

func TestClientCalls(t *testing.T) {
	c := Connect(t, Serving(t, capEcho, echo), host.WithPolicy(host.Offline()))
	got, err := c.Call(t.Context(), capEcho, host.Argument{MediaURN: "media:enc=utf-8", Value: []byte("hello")})
	require.NoError(t, err)
	assert.Equal(t, "hello", string(got))
	require.NoError(t, c.Wait())
}

func TestWaitGivesTheErrorOfServe(t *testing.T) {
	h := Start(t, Serving(t, capEcho, echo))
	cause := errors.New("enough")
	h.Stop(cause)
	require.ErrorIs(t, h.Wait(), cause)
}

func TestCancelledHandlerAnswersWithTheReason(t *testing.T) {
	h := Start(t, Serving(t, capEcho, echo))
	req := h.Request(capEcho)
	req.Chunk("a")
	req.WantItems("a")
	req.Cancel(failure.UserCancel())
	req.WantErr("CANCELLED", failure.User)
	h.WantIdle()
}
