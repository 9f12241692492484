package cli

import (
	"context"
	"errors"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

const text = "media:enc=utf-8"

// newRoleCartridge has handlers that say on standard error what happens to them: wait returns when its context ends, deaf never does,
// and none does not exist.
func newRoleCartridge() *bifaci.Cartridge {
	caps := []manifest.Cap{manifest.IdentityCap()}
	urn := func(slug string) string { return `cap:in="` + text + `";out="` + text + `";` + slug }
	for _, slug := range []string{"wait", "deaf", "none"} {
		caps = append(caps, manifest.NewCap(urn(slug), slug, slug).
			WithArgs(manifest.NewArg(text, true, manifest.Stdin(text)).Streaming(true)))
	}
	c := bifaci.MustNew(manifest.New("role", "1.0.0", "misbehaves", manifest.DefaultGroup(caps...)))
	c.HandleFunc(urn("wait"), watch)
	c.HandleFunc(urn("deaf"), func(ctx context.Context, r *bifaci.Request) error {
		if err := watch(ctx, r); err == nil {
			return errors.New("the context has no cause")
		}
		select {}
	})
	return c
}

// watch tells the start, the end of the input and the end of the context, and returns with its cause.
func watch(ctx context.Context, r *bifaci.Request) error {
	tell := func(what string) error { return r.Output().Log("info", failure.Internal, what) }
	if err := tell("started"); err != nil {
		return err
	}
	input, err := r.Input(ctx, text)
	if err != nil {
		return err
	}
	for _, err := range input.Items(ctx) {
		if err != nil {
			return errors.Join(tell("told while it read"), err)
		}
	}
	if err := tell("input ended"); err != nil {
		return err
	}
	<-ctx.Done()
	return errors.Join(tell("told"), context.Cause(ctx))
}
