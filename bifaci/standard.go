package bifaci

import (
	"context"
	"errors"
	"io"

	"github.com/pipe-cartridge/pipe/bifaci/urn"
	"github.com/pipe-cartridge/pipe/stages"
)

// The standard handlers that every cartridge serves.
type (
	// IdentityOp copies every input value to the output, in order, on a scalar stream.
	IdentityOp struct{}
	// DiscardOp consumes everything and answers nothing.
	DiscardOp struct{}
	// AdapterSelectionOp is the default adapter selection: no match.
	AdapterSelectionOp struct{}
)

// registerStandard registers the standard handlers; an author's own registration replaces one.
func (c *Cartridge) registerStandard() error {
	return errors.Join(
		c.register(urn.Identity, handler{fn: mergedIdentity, merged: true}),
		c.register(urn.Discard, handler{fn: mergedDiscard, merged: true}),
		c.register(urn.AdapterSelection, handler{fn: mergedDiscard, merged: true}),
	)
}

// Metadata implements [Op].
func (IdentityOp) Metadata() OpMetadata {
	return OpMetadata{Name: "identity", Description: "copies its input to its output"}
}

// Perform implements [Op].
func (IdentityOp) Perform(ctx context.Context, _ *DryContext, wet *WetContext) error {
	return performFunc(ctx, wet, identity)
}

// Metadata implements [Op].
func (DiscardOp) Metadata() OpMetadata {
	return OpMetadata{Name: "discard", Description: "consumes its input"}
}

// Perform implements [Op].
func (DiscardOp) Perform(ctx context.Context, _ *DryContext, wet *WetContext) error {
	return performFunc(ctx, wet, discard)
}

// Metadata implements [Op].
func (AdapterSelectionOp) Metadata() OpMetadata {
	return OpMetadata{Name: "adapter-selection", Description: "selects no adapter"}
}

// Perform implements [Op].
func (AdapterSelectionOp) Perform(ctx context.Context, _ *DryContext, wet *WetContext) error {
	return performFunc(ctx, wet, discard)
}

func performFunc(ctx context.Context, wet *WetContext, fn Handler) error {
	r, err := WetGet[*Request](wet, WetKeyRequest)
	if err != nil {
		return err
	}
	return fn(ctx, r)
}

// mergedIdentity is identity on a link: the values of all streams in the order in which they arrived, also when their sender
// interleaves them.
func mergedIdentity(ctx context.Context, r *Request) error {
	if r.wire == nil || !r.wire.recv.Merged() {
		return identity(ctx, r)
	}
	out, recv := r.Output(), &r.wire.recv
	first, err := recv.Stream(ctx, 0)
	if err == io.EOF {
		return out.Start()
	}
	if err != nil {
		return err
	}
	if err := out.sink.Start(ctx, stages.Mode{Meta: first.Meta()}); err != nil {
		return err
	}
	for {
		item, _, _, err := recv.NextMerged(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if p, ok := item.Piece(); ok {
			err = out.Forward(ctx, Piece{p})
		} else {
			err = emitEncoded(ctx, out, item)
		}
		if err != nil {
			return err
		}
	}
}

// emitEncoded sends the value of an item of a sequence on a scalar stream.
func emitEncoded(ctx context.Context, out *OutputStream, item stages.Item) error {
	it, err := newItem(item)
	if err != nil {
		return err
	}
	v, err := it.Value()
	if err != nil {
		return err
	}
	if err := out.EmitCBOR(ctx, v); err != nil {
		return err
	}
	it.Release()
	return nil
}

// mergedDiscard is discard on a link: whatever arrives is consumed, in whatever order.
func mergedDiscard(ctx context.Context, r *Request) error {
	if r.wire == nil || !r.wire.recv.Merged() {
		return discard(ctx, r)
	}
	for {
		item, _, _, err := r.wire.recv.NextMerged(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		item.Block.Release()
	}
}

// identity is the handler of cap:effect=none. It runs in constant memory: every piece is sent on before the next is read, and
// scalar pieces go as they came.
func identity(ctx context.Context, r *Request) error {
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	out, started := r.Output(), false
	for s, err := range input.All(ctx) {
		if err != nil {
			return err
		}
		if !started {
			started = true
			if err := out.Start(WithMeta(s.Meta())); err != nil {
				return err
			}
		}
		if err := copyStream(ctx, out, s); err != nil {
			return err
		}
	}
	if !started {
		return out.Start()
	}
	return nil
}

// copyStream copies the values of s to the scalar stream out.
func copyStream(ctx context.Context, out *OutputStream, s *InputStream) error {
	if !s.IsSequence() {
		for p, err := range s.Pieces(ctx) {
			if err != nil {
				return err
			}
			if err := out.Forward(ctx, p); err != nil {
				return err
			}
		}
	}
	for it, err := range s.Items(ctx) {
		if err != nil {
			return err
		}
		v, err := it.Value()
		if err != nil {
			return err
		}
		if err := out.EmitCBOR(ctx, v); err != nil {
			return err
		}
		it.Release()
	}
	return nil
}

// discard consumes and credits everything and answers with END only.
func discard(ctx context.Context, r *Request) error {
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	for s, err := range input.All(ctx) {
		if err != nil {
			return err
		}
		for it, err := range s.Items(ctx) {
			if err != nil {
				return err
			}
			it.Release()
		}
	}
	return nil
}
