package bifaci_test

import (
	"context"
	"strings"
	"testing"

	"github.com/reugn/go-streams/flow"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/host"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/stream"
)

const (
	topologyText = "media:enc=utf-8"
	topologyCap  = `cap:in="media:enc=utf-8";out="media:enc=utf-8";topology`
)

// connectTopology serves one handler and connects a host with a window of 2 to it.
func connectTopology(t *testing.T, handler bifaci.Handler) *host.Conn {
	t.Helper()
	c := bifaci.MustNew(manifest.New("topology", "1.0.0", "a go-streams handler", manifest.DefaultGroup(manifest.IdentityCap(),
		manifest.NewCap(topologyCap, "Topology", "topology"))))
	c.HandleFunc(topologyCap, handler)
	limits := frame.DefaultLimits()
	limits.InitialCredit = 2
	cl := cartridgetest.Connect(t, c, host.WithLimits(limits))
	t.Cleanup(func() { assert.NoError(t, cl.Wait()) })
	return cl.Conn()
}

// callItems sends values as items of a sequence and gives the items that come back.
func callItems(t *testing.T, conn *host.Conn, values []string) (items []string, err error) {
	t.Helper()
	call, err := conn.Call(t.Context(), topologyCap)
	require.NoError(t, err)
	fed := make(chan error, 1)
	go func() {
		out := call.Arg(topologyText)
		err := out.Start(bifaci.Sequence)
		for i := 0; i < len(values) && err == nil; i++ {
			err = out.EmitItem(t.Context(), values[i], nil)
		}
		if err == nil {
			err = call.Finish(t.Context())
		}
		fed <- err
	}()
	for it, itemErr := range call.Response().Items(t.Context()) {
		if itemErr != nil {
			err = itemErr
			break
		}
		if it.Data != nil {
			items = append(items, string(it.Data.Bytes))
		}
	}
	feedErr := <-fed
	if err == nil {
		require.NoError(t, feedErr)
	}
	return items, err
}

func upperItem(it bifaci.Item) string { return strings.ToUpper(string(it.Bytes)) }

func TestATopologyHandlesAStreamOfAnyLength(t *testing.T) {
	conn := connectTopology(t, func(_ context.Context, r *bifaci.Request) error {
		r.Source(topologyText).Via(flow.NewMap(upperItem, 1)).To(r.Sink())
		return nil
	})
	values := make([]string, 500)
	want := make([]string, len(values))
	for i := range values {
		values[i], want[i] = strings.Repeat("ab", i%7+1), strings.Repeat("AB", i%7+1)
	}
	got, err := callItems(t, conn, values)
	require.NoError(t, err)
	assert.Equal(t, want, got, "windows of 2, so every element waited for credit")
}

func TestATopologysErrorFailsTheRequest(t *testing.T) {
	conn := connectTopology(t, func(_ context.Context, r *bifaci.Request) error {
		r.Source("media:absent").Via(flow.NewMap(upperItem, 1)).To(r.Sink())
		return nil
	})
	_, err := callItems(t, conn, []string{"a"})
	var remote *failure.Remote
	require.ErrorAs(t, err, &remote)
	assert.Equal(t, failure.HandlerError, remote.Code)
	assert.Contains(t, remote.Message, "media:absent")
}

func TestAHandlerMayLeaveItsTopologyEarly(t *testing.T) {
	conn := connectTopology(t, func(_ context.Context, r *bifaci.Request) error {
		source := r.Source(topologyText)
		upper := source.Via(flow.NewMap(upperItem, 1))
		first := <-upper.Out()
		source.Stop()
		stream.Drain(upper, 0)
		return r.Output().EmitItem(r.Context(), first, nil)
	})
	got, err := callItems(t, conn, []string{"one", "two"})
	require.NoError(t, err)
	assert.Equal(t, []string{"ONE"}, got)
}

func TestACancelEndsATopologyThatWaits(t *testing.T) {
	conn := connectTopology(t, func(_ context.Context, r *bifaci.Request) error {
		r.Source(topologyText).Via(flow.NewMap(upperItem, 1)).To(r.Sink())
		return nil
	})
	call, err := conn.Call(t.Context(), topologyCap)
	require.NoError(t, err)
	require.NoError(t, call.Arg(topologyText).Start(bifaci.Sequence))
	call.Cancel(failure.UserCancel())
	_, err = call.Response().Next(t.Context())
	var cancelled *failure.CancelledError
	assert.ErrorAs(t, err, &cancelled)
}

func TestATopologyWritesToAScalarOutput(t *testing.T) {
	conn := connectTopology(t, func(_ context.Context, r *bifaci.Request) error {
		if err := r.Output().Start(); err != nil {
			return err
		}
		r.Source(topologyText).Via(flow.NewMap(upperItem, 1)).To(r.Sink())
		return nil
	})
	got, err := conn.CallBytes(t.Context(), topologyCap, host.Argument{MediaURN: topologyText, Value: []byte("shout")})
	require.NoError(t, err)
	assert.Equal(t, "SHOUT", string(got))
}
