package bifaci_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// canonical is the canonical form of a cap URN.
func canonical(capURN string) (string, error) {
	c, err := urn.ParseCap(capURN)
	return c.String(), err
}

// counting is an Op that counts how often its values were used.
type counting struct{ uses int }

func (c *counting) Metadata() bifaci.OpMetadata { return bifaci.OpMetadata{Name: "counting"} }

func (c *counting) Perform(ctx context.Context, _ *bifaci.DryContext, wet *bifaci.WetContext) error {
	r, err := bifaci.WetGet[*bifaci.Request](wet, bifaci.WetKeyRequest)
	if err != nil {
		return err
	}
	c.uses++
	return r.Output().EmitItem(ctx, c.uses, nil)
}

// plainOp implements Op by value.
type plainOp struct{}

func (plainOp) Metadata() bifaci.OpMetadata                                           { return bifaci.OpMetadata{} }
func (plainOp) Perform(context.Context, *bifaci.DryContext, *bifaci.WetContext) error { return nil }

func TestRegistration(t *testing.T) {
	one := capNamed("one")
	virtual(t, "R-1.20 the factory is called once per admitted request", func(t *testing.T) {
		c, err := bifaci.New(manifestOf("one"))
		require.NoError(t, err)
		var made atomic.Int32
		require.NoError(t, c.Register(one, func() bifaci.Op { made.Add(1); return new(counting) }))
		h := cartridgetest.Start(t, c)
		for range 3 {
			h.Request(one).End().WantItems(1).WantEnd()
		}
		assert.EqualValues(t, 3, made.Load())
		h.RequestFrame(cartridgetest.ReqFrame(one).With(6, []byte("x"))).WantErr(failure.ProtocolError, failure.Internal)
		synctest.Wait()
		assert.EqualValues(t, 3, made.Load(), "a refused request makes no handler")
		h.WantIdle()
	})
	virtual(t, "R-1.20 the factory is not called for a request that is cancelled in line", func(t *testing.T) {
		g := newGate()
		c := cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, served{"busy", g.handle})
		var made atomic.Int32
		require.NoError(t, c.Register(one, func() bifaci.Op { made.Add(1); return new(counting) }))
		h := cartridgetest.Start(t, c)
		busy := h.Request(capNamed("busy")).End()
		waiting := h.Request(one).End()
		waiting.WantLog("queued")
		waiting.Cancel(failure.UserCancel()).WantErr(failure.Cancelled, failure.User)
		g.open()
		busy.WantEnd()
		h.WantIdle()
		assert.Zero(t, made.Load())
	})
	virtual(t, "R-1.21 a type gives each request a fresh value", func(t *testing.T) {
		c, err := bifaci.New(manifestOf("one"))
		require.NoError(t, err)
		require.NoError(t, bifaci.RegisterType[counting](c, one))
		require.NoError(t, bifaci.RegisterType[plainOp](c, capNamed("two")))
		h := cartridgetest.Start(t, c)
		h.Request(one).End().WantItems(1).WantEnd()
		h.Request(one).End().WantItems(1).WantEnd()
		h.Request(capNamed("two")).End().WantEnd()
	})
	t.Run("R-1.21 a type that is no handler is refused", func(t *testing.T) {
		c, err := bifaci.New(manifestOf())
		require.NoError(t, err)
		assert.ErrorContains(t, bifaci.RegisterType[int](c, one), "int")
		assert.Error(t, c.Register(one, nil))
		assert.Error(t, c.RegisterFunc(one, nil))
	})
	virtual(t, "R-1.21 a plain function", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil, answers("one")))
		h.Request(one).End().WantItems("one").WantEnd()
	})
	t.Run("R-1.22 a bad URN is refused when it is registered", func(t *testing.T) {
		c, err := bifaci.New(manifestOf("one"))
		require.NoError(t, err)
		n := c.Handlers()
		for _, bad := range []string{"", "one", "media:", `cap:in="`, "cap:in=media:;in=media:"} {
			assert.Error(t, c.RegisterFunc(bad, echoes), bad)
		}
		assert.Equal(t, n, c.Handlers())
		assert.Panics(t, func() { c.HandleFunc("media:", echoes) })
	})
	virtual(t, "R-1.22 the URN need not be spelled as in the manifest", func(t *testing.T) {
		c, err := bifaci.New(manifestOf("one"))
		require.NoError(t, err)
		require.NoError(t, c.RegisterFunc(`cap:one;out=media:;in=media:`, answers("one").h))
		cartridgetest.Start(t, c).Request(one).End().WantItems("one").WantEnd()
	})
	virtual(t, "R-1.23 two spellings are one registration and the later one counts", func(t *testing.T) {
		c, err := bifaci.New(manifestOf("one"))
		require.NoError(t, err)
		n := c.Handlers()
		require.NoError(t, c.RegisterFunc(one, answers("first").h))
		require.NoError(t, c.RegisterFunc(`cap:one;in=media:;out=media:`, answers("second").h))
		assert.Equal(t, n+1, c.Handlers())
		cartridgetest.Start(t, c).Request(one).End().WantItems("second").WantEnd()
	})
	virtual(t, "R-1.24 nothing can be registered after the start", func(t *testing.T) {
		c := cartridgeOf(t, nil, nil, answers("one"))
		h := cartridgetest.Start(t, c)
		require.ErrorIs(t, c.RegisterFunc(one, echoes), bifaci.ErrRunning)
		require.ErrorIs(t, c.Register(one, func() bifaci.Op { return plainOp{} }), bifaci.ErrRunning)
		h.CloseInput()
		require.NoError(t, h.Wait())
		require.ErrorIs(t, c.RegisterFunc(one, echoes), bifaci.ErrRunning, "after the end as well")
	})
	virtual(t, "R-1.25 a handler without a manifest cap serves, a cap without handler does not", func(t *testing.T) {
		c, err := bifaci.New(manifestOf("declared"))
		require.NoError(t, err)
		require.NoError(t, c.RegisterFunc(capNamed("undeclared"), answers("undeclared").h))
		h := cartridgetest.Start(t, c)
		h.Request(capNamed("undeclared")).End().WantItems("undeclared").WantEnd()
		h.Request(capNamed("declared")).End().WantErr(failure.NoHandler, failure.Environment)
	})
	for name, factory := range map[string]func() bifaci.Op{
		"panics":      func() bifaci.Op { panic("as asked") },
		"returns nil": func() bifaci.Op { return nil },
	} {
		virtual(t, "R-1.26 a factory that "+name+" fails its request only", func(t *testing.T) {
			c := cartridgeOf(t, bounded(map[string]uint64{"all": 1}), nil, answers("other"))
			require.NoError(t, c.Register(one, factory))
			h := cartridgetest.Start(t, c)
			for range 3 {
				h.Request(one).End().WantErr(failure.HandlerError, failure.Internal)
			}
			h.Request(capNamed("other")).End().WantItems("other").WantEnd()
			h.WantIdle()
		})
	}
}
