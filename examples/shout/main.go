// Command shout is a whole streaming cartridge: it gives each piece of a text back in capitals, as it comes.
package main

import (
	"bytes"
	"context"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
)

const text, capURN = "media:enc=utf-8", `cap:in="media:enc=utf-8";out="media:enc=utf-8";shout`

func main() {
	shout := manifest.NewCap(capURN, "Shout", "shout").
		WithArgs(manifest.NewArg(text, true, manifest.Stdin(text)).Streaming(true)).
		WithOutput(manifest.NewOutput(text, "the same in capitals").Streaming(true))
	c := bifaci.Must(bifaci.New(manifest.New("shout", "1.0.0", "capitals", manifest.DefaultGroup(manifest.IdentityCap(), shout))))
	c.HandleFunc(capURN, func(ctx context.Context, req *bifaci.Request) error {
		in, err := req.Input(ctx, text)
		if err != nil {
			return err
		}
		for item, err := range in.Items(ctx) { // consuming grants credit
			if err != nil {
				return err
			}
			if _, err := req.Output().Write(bytes.ToUpper(item.Bytes)); err != nil { // waits when the host's window is full
				return err
			}
		}
		return nil // STREAM_END and END follow; an error becomes the ERR frame
	})
	c.Main() // frames without arguments, the command line with them
}
