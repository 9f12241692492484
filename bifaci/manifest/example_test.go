package manifest_test

import (
	"errors"
	"fmt"

	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

// A transcriber takes audio as it is captured and emits segments while it listens.
func ExampleNew() {
	listen := manifest.NewCap(`cap:in="media:audio-frames;pcm";listen;out="media:segment"`, "Listen", "listen").
		WithArgs(
			manifest.NewArg("media:audio-frames;pcm", true, manifest.Stdin("media:audio-frames;pcm")).Streaming(true).Sequence(true),
			manifest.NewArg("media:enc=utf-8;language", false, manifest.CLIFlag("--language")).Default("en"),
		).
		WithOutput(manifest.NewOutput("media:segment", "One segment per phrase").Streaming(true).Sequence(true))
	m := manifest.New("listener", "1.0.0", "Writes down speech", manifest.DefaultGroup(manifest.IdentityCap(), listen))
	fmt.Println(m.Validate())
	fmt.Println(listen.StreamingShape())
	// Output:
	// <nil>
	// true true
}

// Every fault is found, with the rule that it breaks.
func ExampleManifest_Validate() {
	c := manifest.NewCap("cap:in=media:void;t", "T", "T").
		WithArgs(manifest.NewArg("media:a", true, manifest.CLIFlag("--help")))
	err := manifest.New("n", "1", "", manifest.DefaultGroup(c)).Validate()
	fmt.Println(errors.Is(err, manifest.ErrIdentityMissing))
	var problems manifest.Problems
	if errors.As(err, &problems) {
		for _, p := range problems {
			fmt.Println(p)
		}
	}
	// Output:
	// true
	// RULE13: cap:in=media:void;t: slug "T" has characters other than a-z 0-9 . _ -
	// RULE10: cap:in=media:void;t: argument media:a: flag "--help" is reserved for the runtime
	// IDENTITY: no cap is equivalent to cap:effect=none; every cartridge serves it (manifest.IdentityCap)
}
