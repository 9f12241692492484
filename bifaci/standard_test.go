package bifaci_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/frame"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

func TestStandardHandlers(t *testing.T) {
	t.Run("R-1.10 three handlers are there", func(t *testing.T) {
		c, err := bifaci.New(manifestOf())
		require.NoError(t, err)
		assert.Equal(t, 3, c.Handlers())
		for _, u := range []string{"cap:effect=none", "cap:out=media:void",
			`cap:in="media:";out="media:adapter-selection;fmt=json;record"`} {
			want, err := canonical(u)
			require.NoError(t, err)
			got, _, ok := c.FindHandler(u)
			assert.True(t, ok, u)
			assert.Equal(t, want, got)
		}
	})
	virtual(t, "R-1.11 an own registration replaces one", func(t *testing.T) {
		c, err := bifaci.New(manifestOf())
		require.NoError(t, err)
		require.NoError(t, c.RegisterFunc(`cap:effect="none"`, answers("mine").h))
		assert.Equal(t, 3, c.Handlers())
		cartridgetest.Start(t, c).Request(urn.Identity).End().WantItems("mine").WantEnd()
	})
	virtual(t, "R-1.12 they serve no operation that they do not carry", func(t *testing.T) {
		h := cartridgetest.Start(t, cartridgeOf(t, nil, nil))
		h.Request(`cap:in="media:void";nonexistent;out="media:void"`).End().WantErr(failure.NoHandler, failure.Environment)
	})
}

func TestIdentity(t *testing.T) {
	start := func(t *testing.T, opts ...cartridgetest.Option) *cartridgetest.Host {
		t.Helper()
		return cartridgetest.Start(t, cartridgeOf(t, nil, nil), opts...)
	}
	virtual(t, "R-1.13 values come back in arrival order on a scalar stream with the first stream's meta", func(t *testing.T) {
		h := start(t)
		req := h.Request(urn.Identity)
		one := req.Stream("one", "media:", cartridgetest.Meta(map[string]any{"k": "v"}))
		two := req.Stream("two", "media:", cartridgetest.Sequence, cartridgetest.Meta(map[string]any{"k": "w"}))
		one.Chunk("a")
		two.Item("b", nil)
		one.Item(7, nil)
		two.Item(map[string]any{"x": 1}, nil)
		req.End()
		got := req.WantStream()
		assert.Equal(t, map[string]any{"k": "v"}, got.Meta)
		assert.False(t, got.Sequence)
		req.WantItems("a", "b", 7, []any{"x", 1})
		req.WantEnd()
		h.WantIdle()
	})
	virtual(t, "R-1.13 without an input there is one empty stream", func(t *testing.T) {
		h := start(t)
		req := h.Request(urn.Identity).End()
		req.WantEnd()
		assert.Equal(t, []frame.Type{frame.TypeStreamStart, frame.TypeStreamEnd, frame.TypeEnd}, typesOf(req))
	})
	t.Run("R-1.13 ten thousand chunks pass a window of two", func(t *testing.T) {
		h := start(t, cartridgetest.WithWindow(2))
		req := h.Request(urn.Identity)
		for i := range 10_000 {
			data := fmt.Sprint(i)
			req.Chunk(data).WantItems(data)
		}
		req.End().WantEnd()
		h.WantIdle()
	})
	virtual(t, "R-1.13 it credits as it consumes and holds back as its answer is held back", func(t *testing.T) {
		h := start(t, cartridgetest.WithWindow(2), cartridgetest.WithManualCredit())
		req := h.Request(urn.Identity)
		s := req.Stream("s", "media:")
		for range 4 {
			s.Chunk("x")
		}
		req.WantItems("x", "x")
		synctest.Wait()
		assert.LessOrEqual(t, s.Credit(), uint64(2), "the answer's window is full: what was taken in is bounded")
		assert.Len(t, typesOf(req), 3)
		req.Grant(1).WantItems("x")
		req.Grant(1).WantItems("x")
		req.End().WantEnd()
	})
}

func TestDiscardAndAdapterSelection(t *testing.T) {
	for _, u := range []string{urn.Discard, urn.AdapterSelection} {
		virtual(t, "R-1.14 everything is credited and END is all: "+u, func(t *testing.T) {
			h := cartridgetest.Start(t, cartridgeOf(t, nil, nil), cartridgetest.WithWindow(2))
			req := h.Request(u)
			one, two := req.Stream("one", "media:"), req.Stream("two", "media:", cartridgetest.Sequence)
			for range 20 {
				one.Chunk("x")
				two.Item("y", nil)
			}
			req.End()
			req.WantEnd()
			assert.Equal(t, []frame.Type{frame.TypeEnd}, typesOf(req))
			h.WantIdle()
		})
	}
}

// The ops are for authors who register them under other URNs; there they read their streams one after the other.
func TestStandardOps(t *testing.T) {
	for _, op := range []bifaci.Op{bifaci.IdentityOp{}, bifaci.DiscardOp{}, bifaci.AdapterSelectionOp{}} {
		virtual(t, "R-1.10 as an Op under another URN: "+op.Metadata().Name, func(t *testing.T) {
			c, err := bifaci.New(manifestOf("one"))
			require.NoError(t, err)
			require.NoError(t, c.Register(capNamed("one"), func() bifaci.Op { return op }))
			h := cartridgetest.Start(t, c)
			req := h.Request(capNamed("one"))
			req.Stream("one", "media:").Chunk("a").Item(7, nil).End()
			req.Stream("two", "media:", cartridgetest.Sequence).Item("b", nil).End()
			req.End()
			if op == (bifaci.IdentityOp{}) {
				req.WantItems("a", 7, "b")
			}
			req.WantEnd()
			assert.Error(t, op.Perform(context.Background(), nil, new(bifaci.WetContext)), "without a request in its context")
		})
	}
}

// typesOf are the types of an answer so far.
func typesOf(r *cartridgetest.Request) (types []frame.Type) {
	for _, f := range r.Frames() {
		types = append(types, f.Type())
	}
	return types
}
