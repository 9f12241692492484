package host_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
)

func TestPolicy(t *testing.T) {
	t.Run("R-12.30 it follows the identity check and goes before every request", func(t *testing.T) {
		f, conn := live(t, false)
		made := inBackground(func() error {
			call, err := conn.Call(t.Context(), anyCap)
			if err == nil {
				err = call.Response().Close()
			}
			return err
		})
		require.NoError(t, conn.SetPolicy(host.Offline()))
		p := f.want(frame.TypePolicy)
		assert.Equal(t, map[string]any{"network": map[string]any{"name": "offline", "our_services": false, "telemetry": false,
			"third_party": false}}, p.Meta())
		assert.Equal(t, uint64(0), p[frame.KeyID])
		f.want(frame.TypeReq)
		require.NoError(t, wait(t, made, "the call"))
	})
	t.Run("R-12.30 without an option it allows everything", func(t *testing.T) {
		f := newFake(t)
		done := f.connect(t.Context())
		f.want(frame.TypeHello)
		f.send(hello(t))
		f.answer(f.takeIdentity(), answerBytes("\x66bifaci")...)
		got := wait(t, done, "the link")
		require.NoError(t, got.err)
		defer got.conn.Close()
		assert.Equal(t, map[string]any{"network": map[string]any{"name": "online", "our_services": true, "telemetry": true,
			"third_party": true}}, f.want(frame.TypePolicy).Meta())
	})
	t.Run("R-12.31 a host without a policy holds requests back", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			f, conn := live(t, false)
			made := inBackground(func() error {
				_, err := conn.CallBytes(t.Context(), anyCap)
				return err
			})
			synctest.Wait()
			require.Empty(t, f.got, "nothing is routed")
			require.NoError(t, conn.SetPolicy(host.NoTelemetry()))
			require.Equal(t, "no-telemetry", f.want(frame.TypePolicy).Meta()["network"].(map[string]any)["name"])
			req := f.want(frame.TypeReq)
			f.want(frame.TypeEnd)
			f.answer(req, answerBytes()...)
			require.NoError(t, <-made)
		})
	})
	t.Run("R-12.31 a call that is held back ends with its context and with the link", func(t *testing.T) {
		_, conn := live(t, false)
		ctx, cancel := context.WithCancelCause(t.Context())
		waiting := func(ctx context.Context) <-chan error {
			return inBackground(func() error {
				_, err := conn.Call(ctx, anyCap)
				return err
			})
		}
		first, second := waiting(ctx), waiting(t.Context())
		enough := errors.New("enough")
		cancel(enough)
		require.ErrorIs(t, wait(t, first, "the first call"), enough)
		conn.Close()
		require.ErrorIs(t, wait(t, second, "the second call"), host.ErrClosed)
	})
	t.Run("R-12.32 a later one goes to the live cartridge at once", func(t *testing.T) {
		f, conn := live(t, true)
		require.NoError(t, conn.SetPolicy(host.OurServices()))
		assert.Equal(t, map[string]any{"network": map[string]any{"name": "our-services", "our_services": true, "telemetry": false,
			"third_party": false}}, f.want(frame.TypePolicy).Meta())
	})
	t.Run("R-12.32 a policy without a name is refused and not sent", func(t *testing.T) {
		f, conn := live(t, true)
		require.ErrorContains(t, conn.SetPolicy(bifaci.Policy{ThirdParty: true}), "name")
		require.NoError(t, conn.SetPolicy(host.Offline()))
		require.Equal(t, "offline", f.want(frame.TypePolicy).Meta()["network"].(map[string]any)["name"])
	})
	t.Run("R-12.30 a link whose policy cannot be sent is no link", func(t *testing.T) {
		f := newFake(t)
		done := f.connect(t.Context(), host.WithPolicy(bifaci.Policy{}))
		f.want(frame.TypeHello)
		f.send(hello(t))
		f.answer(f.takeIdentity(), answerBytes("\x66bifaci")...)
		got := wait(t, done, "the refusal")
		require.ErrorContains(t, got.err, "name")
		_, err := f.out.Write([]byte{0})
		require.ErrorIs(t, err, io.ErrClosedPipe, "nobody reads any more")
		f.wantEnd()
	})
}
