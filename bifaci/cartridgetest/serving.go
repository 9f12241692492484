package cartridgetest

import (
	"testing"

	"github.com/pipe-cartridge/pipe/bifaci"
	"github.com/pipe-cartridge/pipe/bifaci/manifest"
	"github.com/pipe-cartridge/pipe/bifaci/urn"
)

// Serving makes a cartridge of one handler, for a test of that handler alone. Its manifest is derived from the cap URN: the input,
// unless it is void, is the one argument, read from stdin; input and output may stream.
func Serving(t testing.TB, capURN string, h bifaci.Handler, opts ...bifaci.Option) *bifaci.Cartridge {
	t.Helper()
	c, err := urn.ParseCap(capURN)
	if err != nil {
		t.Fatalf("cartridgetest: %v", err)
	}
	def := manifest.NewCap(capURN, "Under test", "under-test").
		WithOutput(manifest.NewOutput(c.Out().String(), "the answer").Streaming(true))
	if in := c.In().String(); in != "media:void" {
		def = def.WithArgs(manifest.NewArg(in, true, manifest.Stdin(in)).Streaming(true))
	}
	caps := []manifest.Cap{manifest.IdentityCap()}
	if c.String() != urn.Identity {
		caps = append(caps, def)
	}
	cartridge, err := bifaci.New(manifest.New("under-test", "1.0.0", "a handler under test", manifest.DefaultGroup(caps...)), opts...)
	if err == nil {
		err = cartridge.RegisterFunc(capURN, h)
	}
	if err != nil {
		t.Fatalf("cartridgetest: %v", err)
	}
	return cartridge
}
