package main

import (
	"context"
	"fmt"
	"os"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/failure"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/pools"
)

// roleVariable, when set, makes this binary a cartridge; "crash" makes it one that ends before it says HELLO.
const roleVariable = "PIPE_TEST_BIFACI_ROLE"

const text = "media:enc=utf-8"

func roleURN(slug string) string { return `cap:in="` + text + `";out="` + text + `";` + slug }

// newRoleCartridge offers
//
//	show   what it was given, one line for each stream,
//	echo   each piece as it comes,
//	first  the first piece, and then no more is read,
//	fail   a failure,
//	die    the end of the process,
//	talk   logs and prints,
//	alone  without any input,
//	greet  a greeting for a name, one at a time,
//	stuck  nothing, until it is cancelled, and takes no input,
//	reach  what the policy allows, and takes no input,
//	watch  each item of a live feed.
func newRoleCartridge() *bifaci.Cartridge {
	if os.Getenv(roleVariable) == "crash" {
		fmt.Fprintln(os.Stderr, "no licence")
		os.Exit(3)
	}
	in := manifest.NewArg(text, true, manifest.Stdin(text))
	side := []manifest.Arg{
		manifest.NewArg("media:level", true, manifest.CLIFlag("--level")).Default(3),
		manifest.NewArg("media:colour;ext=rgb", false, manifest.CLIFlag("--colour")),
		manifest.NewArg("media:name", true, manifest.CLIFlag("-n")),
	}
	cap := func(slug string, args ...manifest.Arg) manifest.Cap {
		return manifest.NewCap(roleURN(slug), slug, slug).WithArgs(args...)
	}
	greet := `cap:greet;in=media:void;out="` + text + `"`
	alone := `cap:in=media:void;out="` + text + `";alone`
	caps := []manifest.Cap{
		manifest.IdentityCap(),
		cap("show", append(side, in)...).WithAliases("list"),
		cap("echo", in.Streaming(true)),
		cap("items", in.Streaming(true).Sequence(true)),
		cap("first", in.Streaming(true)),
		cap("fail", in), cap("die", in), cap("talk", in),
		manifest.NewCap(alone, "alone", "alone"),
		manifest.NewCap(greet, "greet", "greet").WithArgs(manifest.NewArg("media:name", true, manifest.Position(0)).Describe("who is greeted")).
			WithOutput(manifest.NewOutput(text, "the greeting").Streaming(true)).WithMetadata("activity_timeout_secs", "9"),
	}
	var bare [2]string
	for i, slug := range []string{"stuck", "reach"} {
		bare[i] = `cap:in=media:void;out="` + text + `";` + slug
		caps = append(caps, manifest.NewCap(bare[i], slug, slug))
	}
	frames := "media:feed-frames"
	watch := `cap:in="` + frames + `";out="` + text + `";watch`
	caps = append(caps, manifest.NewCap(watch, "watch", "watch").WithArgs(manifest.NewArg(frames, true, manifest.Stdin(frames)).Streaming(true).Sequence(true)))
	m := manifest.New("role", "1.0.0", "for tests", manifest.DefaultGroup(caps...)).
		WithPools(pools.Declarations{Pools: map[string][]string{"door": {greet}}, Capacities: map[string]uint64{"door": 1, "all": 8}})
	c := bifaci.MustNew(m)
	c.HandleFunc(bare[0], func(ctx context.Context, _ *bifaci.Request) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
	c.HandleFunc(bare[1], func(_ context.Context, r *bifaci.Request) error {
		n := r.Network()
		_, err := fmt.Fprint(r.Output(), n.Allow(bifaci.ReachOurServices) == nil, " ", n.Allow(bifaci.ReachTelemetry) == nil, " ", n.Allow(bifaci.ReachThirdParty) == nil)
		return err
	})
	c.HandleFunc(watch, func(ctx context.Context, r *bifaci.Request) error {
		in, err := r.Input(ctx, frames)
		if err != nil {
			return err
		}
		for it, err := range in.Items(ctx) {
			if err != nil {
				return err
			}
			if _, err := r.Output().WriteContext(ctx, it.Bytes); err != nil {
				return err
			}
		}
		return nil
	})
	c.HandleFunc(greet, func(ctx context.Context, r *bifaci.Request) error {
		in, err := r.Input(ctx, "media:name")
		if err != nil {
			return err
		}
		name, err := in.CollectBytes(ctx)
		if err != nil {
			return err
		}
		_, err = r.Output().WriteContext(ctx, append([]byte("hello "), name...))
		return err
	})
	c.HandleFunc(roleURN("show"), show)
	c.HandleFunc(roleURN("echo"), echo)
	c.HandleFunc(roleURN("items"), show)
	c.HandleFunc(roleURN("first"), first)
	c.HandleFunc(roleURN("fail"), func(context.Context, *bifaci.Request) error {
		return failure.New("NO_SPACE", failure.Resource, "the disk is full")
	})
	c.HandleFunc(roleURN("die"), func(context.Context, *bifaci.Request) error { os.Exit(7); return nil })
	c.HandleFunc(roleURN("talk"), func(_ context.Context, r *bifaci.Request) error {
		fmt.Fprintln(os.Stderr, "said on standard error")
		if err := r.Output().Log("warn", failure.Internal, "mind the gap"); err != nil {
			return err
		}
		return r.Output().Progress(0.5, "half\nway")
	})
	c.HandleFunc(alone, func(_ context.Context, r *bifaci.Request) error {
		_, err := r.Output().Write([]byte("all alone"))
		return err
	})
	c.HandleFunc(`cap:in="media:hidden";out="`+text+`";hidden`, show)
	return c
}

func show(ctx context.Context, r *bifaci.Request) error {
	input, err := r.TakeInput()
	if err != nil {
		return err
	}
	for s, err := range input.All(ctx) {
		if err != nil {
			return err
		}
		line := s.MediaURN()
		if s.IsUnbounded() {
			line += " unbounded"
		}
		for it, err := range s.Items(ctx) {
			if err != nil {
				return err
			}
			if s.IsSequence() {
				line += " item"
			}
			line += fmt.Sprintf(" %q", it.Bytes)
		}
		if _, err := r.Output().WriteContext(ctx, []byte(line+"\n")); err != nil {
			return err
		}
	}
	return nil
}

func echo(ctx context.Context, r *bifaci.Request) error {
	input, err := r.Input(ctx, text)
	if err != nil {
		return err
	}
	for p, err := range input.Pieces(ctx) {
		if err != nil {
			return err
		}
		if err := r.Output().Forward(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

func first(ctx context.Context, r *bifaci.Request) error {
	input, err := r.Input(ctx, text)
	if err != nil {
		return err
	}
	it, err := input.Next(ctx)
	if err != nil {
		return err
	}
	_, err = r.Output().WriteContext(ctx, it.Bytes)
	return err
}
