package bifaci_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/cartridgetest"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
)

// countingOp answers with how often this value was performed, and with what it found in its contexts.
type countingOp struct{ performed int }

func (o *countingOp) Metadata() bifaci.OpMetadata {
	return bifaci.OpMetadata{Name: "count", Description: "counts"}
}

func (o *countingOp) Perform(ctx context.Context, dry *bifaci.DryContext, wet *bifaci.WetContext) error {
	o.performed++
	r, err := bifaci.WetGet[*bifaci.Request](wet, bifaci.WetKeyRequest)
	if err != nil {
		return err
	}
	if _, err := bifaci.WetGet[int](wet, "left by an earlier request"); err == nil {
		return errors.New("the wet context is not fresh")
	}
	if _, err := bifaci.DryGet[int](dry, "left by an earlier request"); err == nil {
		return errors.New("the dry context is not fresh")
	}
	if _, aborted := dry.Aborted(); aborted || dry.IsDryRun() {
		return errors.New("the dry context is not empty")
	}
	wet.Set("left by an earlier request", 1)
	dry.Abort("for the next request to see")
	if err := dry.Set("left by an earlier request", 1); err != nil {
		return err
	}
	return r.Output().EmitCBOR(ctx, o.performed)
}

func TestOpForm(t *testing.T) {
	t.Run("R-6.6 R-1.21 each request performs a fresh value with fresh contexts", func(t *testing.T) {
		c := cartridgetest.Serving(t, workCap, func(context.Context, *bifaci.Request) error { return nil })
		require.NoError(t, bifaci.RegisterType[countingOp](c, workCap))
		h := cartridgetest.Start(t, c)
		for range 3 {
			req := h.Request(workCap).End()
			req.WantItems(uint64(1))
			req.WantEnd()
		}
	})
	t.Run("R-6.6 an error of Perform is the request's", func(t *testing.T) {
		c := cartridgetest.Serving(t, workCap, func(context.Context, *bifaci.Request) error { return nil })
		require.NoError(t, c.Register(workCap, func() bifaci.Op { return failingOp{} }))
		h := cartridgetest.Start(t, c)
		h.Request(workCap).End().WantErr("BROKEN", failure.Resource)
	})
	t.Run("R-6.6 a registered function is an op by the name of its pattern", func(t *testing.T) {
		c := cartridgetest.Serving(t, workCap, func(context.Context, *bifaci.Request) error { return errors.New("performed") })
		pattern, factory, ok := c.FindHandler(workCap)
		require.True(t, ok)
		op := factory()
		assert.Equal(t, pattern, op.Metadata().Name)
		var wet bifaci.WetContext
		assert.ErrorAs(t, op.Perform(t.Context(), new(bifaci.DryContext), &wet), new(*bifaci.LookupError), "without a request")
		wet.Set(bifaci.WetKeyRequest, new(bifaci.Request))
		assert.EqualError(t, op.Perform(t.Context(), new(bifaci.DryContext), &wet), "performed")
	})
}

type failingOp struct{}

func (failingOp) Metadata() bifaci.OpMetadata { return bifaci.OpMetadata{Name: "fail"} }

func (failingOp) Perform(context.Context, *bifaci.DryContext, *bifaci.WetContext) error {
	return failure.New("BROKEN", failure.Resource, "out of luck")
}

func TestDryContext(t *testing.T) {
	t.Run("R-6.6 values survive JSON", func(t *testing.T) {
		type settings struct {
			Rate  int      `json:"rate"`
			Names []string `json:"names"`
		}
		var d bifaci.DryContext
		want := settings{8000, []string{"a", "b"}}
		require.NoError(t, d.Set("settings", want))
		got, err := bifaci.DryGet[settings](&d, "settings")
		require.NoError(t, err)
		assert.Equal(t, want, got)
		assert.Error(t, d.Set("channel", make(chan int)), "a channel does not survive JSON")
		_, err = bifaci.DryGet[int](&d, "channel")
		assert.Error(t, err, "what cannot be kept is not kept")
	})
	t.Run("R-6.6 control flags", func(t *testing.T) {
		var d bifaci.DryContext
		assert.False(t, d.IsDryRun())
		d.SetDryRun(true)
		assert.True(t, d.IsDryRun())
		_, aborted := d.Aborted()
		assert.False(t, aborted)
		d.Abort("first")
		d.Abort("second")
		reason, aborted := d.Aborted()
		assert.True(t, aborted)
		assert.Equal(t, "first", reason)
	})
	t.Run("R-6.6 a failed lookup names the key, the wanted type and what was found", func(t *testing.T) {
		var d bifaci.DryContext
		require.NoError(t, d.Set("rate", "fast"))
		_, err := bifaci.DryGet[int](&d, "rate")
		assert.EqualError(t, err, `key "rate": want int, found the JSON "fast"`)
		_, err = bifaci.DryGet[int](&d, "size")
		assert.EqualError(t, err, `key "size": want int, found nothing`)
	})
}

func TestWetContext(t *testing.T) {
	t.Run("R-6.6 live values by key", func(t *testing.T) {
		var w bifaci.WetContext
		live := make(chan int, 1)
		w.Set("live", live)
		got, err := bifaci.WetGet[chan int](&w, "live")
		require.NoError(t, err)
		got <- 7
		assert.Equal(t, 7, <-live, "it is the same channel")
	})
	t.Run("R-6.6 a failed lookup names the key, the wanted type and what was found", func(t *testing.T) {
		var w bifaci.WetContext
		w.Set("live", "a string")
		_, err := bifaci.WetGet[chan int](&w, "live")
		assert.EqualError(t, err, `key "live": want chan int, found string`)
		_, err = bifaci.WetGet[*bifaci.Request](&w, bifaci.WetKeyRequest)
		assert.EqualError(t, err, `key "request": want *bifaci.Request, found nothing`)
	})
	t.Run("R-6.6 an interface as the wanted type is named too", func(t *testing.T) {
		var w bifaci.WetContext
		w.Set("live", 1)
		_, err := bifaci.WetGet[error](&w, "live")
		assert.EqualError(t, err, `key "live": want error, found int`)
		var d bifaci.DryContext
		_, err = bifaci.DryGet[any](&d, "nothing")
		assert.ErrorContains(t, err, `want interface {}`)
	})
}
